package scheduler

import (
	"context"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
)

// The feed works on each kind of client, and asynq's tools reach it there.
func TestKindsOfRedis(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"cluster", "sentinel", "tls", "password"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, connect(t, kind), feedOptions{Concurrency: 1})
			over := make(chan struct{})
			r.mustStart(t, func(ctx context.Context, _ *asynq.Task) error {
				<-ctx.Done()
				close(over)
				return ctx.Err()
			})
			r.mustPut(t, task{ID: "a", Type: "t"})
			cancelUntil(t, r, "a", over)
			r.running(t)
			r.shutdown()
			servers, err := asynq.NewInspectorFromRedisClient(r.rdb).Servers()
			if err != nil || len(servers) != 0 {
				t.Errorf("after the shutdown, Servers() = %v, %v", servers, err)
			}
		})
	}
}

func connect(t *testing.T, kind string) redis.UniversalClient {
	t.Helper()
	switch kind {
	case "cluster":
		return redistest.Cluster(t, 3).Client(t)
	case "sentinel":
		return redistest.Sentinel(t).Client(t)
	case "tls":
		return redistest.TLS(t).Client(t)
	default:
		s := redistest.Start(t)
		if err := s.Client(t).ConfigSet(t.Context(), "requirepass", "secret").Err(); err != nil {
			t.Fatal(err)
		}
		return newClient(t, &redis.Options{Addr: s.Addr, Password: "secret", DB: 3})
	}
}

// newClient returns a client that is closed at the end of tb and may live in a
// bubble: host names are resolved outside of it.
func newClient(tb testing.TB, o *redis.Options) *redis.Client {
	tb.Helper()
	o.MaintNotificationsConfig = noMaintNotifications()
	c := redis.NewClient(o)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

func TestCloneLeavesTheOriginalAlone(t *testing.T) {
	t.Parallel()
	plain := redistest.MiniClient(t)
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{"127.0.0.1:1"}})
	t.Cleanup(func() { _ = cluster.Close() })
	type settings struct {
		Pool, Retries int
		Read, Dial    time.Duration
		Push          any
	}
	look := func() []settings {
		p, c := plain.Options(), cluster.Options()
		return []settings{
			{p.PoolSize, p.MaxRetries, p.ReadTimeout, p.DialTimeout, p.PushNotificationProcessor},
			{c.PoolSize, c.MaxRedirects, c.ReadTimeout, c.DialTimeout, nil},
		}
	}
	before := look()
	for _, c := range []redis.UniversalClient{plain, cluster} {
		clone, err := cloneForServer(c)
		if err != nil {
			t.Fatal(err)
		}
		if clone, ok := clone.(*redis.Client); ok && clone.Options().PushNotificationProcessor == before[0].Push {
			t.Error("the clone shares the push processor")
		}
		_ = clone.Close()
	}
	same := cmp.Comparer(func(a, b settings) bool { return a == b })
	if diff := cmp.Diff(before, look(), same); diff != "" {
		t.Error(diff)
	}
}

// A Redis that takes connections and says nothing, or does not even take them,
// delays tasks by little and the shutdown not for ever.
func TestFrozenRedis(t *testing.T) {
	t.Parallel()
	for name, dial := range map[string]func(context.Context, string, string) (net.Conn, error){
		"silent": func(context.Context, string, string) (net.Conn, error) {
			ours, theirs := net.Pipe()
			go func() { _, _ = io.Copy(io.Discard, theirs) }()
			return ours, nil
		},
		"unreachable": func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { testFrozen(t, newClient(t, &redis.Options{Dialer: dial})) })
		})
	}
}

func testFrozen(t *testing.T, rdb *redis.Client) {
	t.Helper()
	r := newRig(t, rdb, feedOptions{Concurrency: 4})
	late := make(chan time.Duration, 1)
	var put time.Time
	r.mustStart(t, func(context.Context, *asynq.Task) error {
		late <- time.Since(put)
		return nil
	})
	var longest time.Duration
	for range 600 {
		put = time.Now()
		r.mustPut(t, task{ID: "a", Type: "t"})
		longest = max(longest, <-late)
		<-time.After(100 * time.Millisecond)
	}
	if longest > redisPatience {
		t.Errorf("a task was handed over after %v", longest)
	}
	begun := time.Now()
	r.shutdown()
	if took := time.Since(begun); took > shutdownGrace {
		t.Errorf("the shutdown took %v", took)
	}
	<-time.After(2 * redisPatience) // go-redis tries another dial behind a closed client's back
}

// asynq waits for the reply to its SUBSCRIBE without a limit.
func TestShutdownWhileSubscribing(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		t.Cleanup(m.Close)
		rdb := newClient(t, &redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
			return m.Dial()
		}})
		if err := rdb.Ping(t.Context()).Err(); err != nil { // the server is there once dialled
			t.Fatal(err)
		}
		m.Server().SetPreHook(func(_ *server.Peer, cmd string, _ ...string) bool { return cmd == "SUBSCRIBE" })

		r := newRig(t, rdb, feedOptions{Concurrency: 1, ShutdownTimeout: time.Second})
		r.mustStart(t, func(context.Context, *asynq.Task) error { return nil })
		synctest.Wait()
		begun := time.Now()
		r.shutdown()
		if took := time.Since(begun); took != time.Second+shutdownGrace {
			t.Errorf("the shutdown took %v", took)
		}
	})
}

// Without Redis, what was handed over runs; with Redis back, asynq's tools see
// the server again.
func TestRedisGoneAndBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := miniredis.NewMiniRedis()
		t.Cleanup(m.Close)
		var away atomic.Bool
		away.Store(true)
		rdb := newClient(t, &redis.Options{Dialer: func(context.Context, string, string) (net.Conn, error) {
			if away.Load() {
				return nil, syscall.ECONNREFUSED
			}
			return m.Dial()
		}})
		r := newRig(t, rdb, feedOptions{Concurrency: 1})
		over := make(chan struct{}, 1)
		r.mustStart(t, func(ctx context.Context, at *asynq.Task) error {
			if at.Type() == "until cancelled" {
				<-ctx.Done()
			}
			over <- struct{}{}
			return nil
		})
		<-time.After(time.Minute)
		r.mustPut(t, task{ID: "a", Type: "t"})
		<-over
		away.Store(false)
		r.mustPut(t, task{ID: "b", Type: "until cancelled"})
		<-time.After(10 * time.Second) // a heartbeat, a subscription
		if diff := cmp.Diff([]string{"b until cancelled  spout"}, r.running(t)); diff != "" {
			t.Error(diff)
		}
		cancelUntil(t, r, "b", over)
	})
}
