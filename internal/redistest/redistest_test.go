package redistest_test

import (
	"context"
	"crypto/tls"
	"net"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
)

// roundTrip writes and reads one key.
func roundTrip(t *testing.T, rdb redis.Cmdable, key string) {
	t.Helper()
	if err := rdb.Set(t.Context(), key, "v", 0).Err(); err != nil {
		t.Fatal(err)
	}
	if got, err := rdb.Get(t.Context(), key).Result(); err != nil || got != "v" {
		t.Fatalf("GET %s = %q, %v", key, got, err)
	}
}

func listens(t *testing.T, addr string) bool {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", addr)
	if err == nil {
		_ = conn.Close()
	}
	return err == nil
}

func TestEach(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Parallel()
		roundTrip(t, rdb, "k")
		if err := rdb.PExpire(t.Context(), "k", time.Millisecond).Err(); err != nil {
			t.Fatal(err)
		}
		for rdb.Exists(t.Context(), "k").Val() != 0 { // ends: both run TTLs down
			if t.Context().Err() != nil {
				t.Fatal(t.Context().Err())
			}
		}
	})
}

func TestRestart(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args []string
		kept int64
	}{
		"in memory": {nil, 0},
		"on disk":   {[]string{"--appendonly", "yes"}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t, test.args...)
			rdb := s.Client(t)
			roundTrip(t, rdb, "k")
			s.Kill()
			if listens(t, s.Addr) {
				t.Error("a killed server listens")
			}
			s.Restart()
			if got, err := rdb.Exists(t.Context(), "k").Result(); err != nil || got != test.kept {
				t.Errorf("EXISTS after restart = %d, %v; want %d", got, err, test.kept)
			}
		})
	}
}

func TestLosePower(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "everysec")
	rdb := s.Client(t)
	roundTrip(t, rdb, "before")
	disk := s.Disk()
	roundTrip(t, rdb, "after")
	s.LosePower(disk)
	s.Restart()
	roundTrip(t, rdb, "later")
	if keys := rdb.Keys(t.Context(), "*").Val(); len(keys) != 2 || rdb.Exists(t.Context(), "after").Val() != 0 {
		t.Errorf("keys after a loss of power: %q", keys)
	}
}

func TestServersAreCleanedUp(t *testing.T) {
	t.Parallel()
	var s *redistest.Server
	t.Run("life", func(t *testing.T) { s = redistest.Start(t) })
	if listens(t, s.Addr) {
		t.Error("the server outlived its test")
	}
	if _, err := os.Stat(s.Dir); !os.IsNotExist(err) {
		t.Errorf("its directory is still there: %v", err)
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	const masters = 3
	c := redistest.Cluster(t, masters)
	rdb := c.Client(t)
	for i := range 30 {
		roundTrip(t, rdb, "k"+strconv.Itoa(i))
	}
	for i, node := range c.Nodes {
		if n := node.Client(t).DBSize(t.Context()).Val(); n == 0 || n == 30 {
			t.Errorf("node %d holds %d of 30 keys", i, n)
		}
	}
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	s := redistest.Sentinel(t)
	rdb := s.Client(t)
	roundTrip(t, rdb, "k")
	if n := s.Master.Client(t).Exists(t.Context(), "k").Val(); n != 1 {
		t.Error("the client wrote to another server than the master")
	}

	s.Master.Kill()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	for rdb.Set(ctx, "k", "after", 0).Err() != nil {
		if ctx.Err() != nil {
			t.Fatal("no failover within 30 s")
		}
	}
	if got := s.Replica.Client(t).Get(ctx, "k").Val(); got != "after" {
		t.Errorf("the replica holds %q after the failover", got)
	}
}

func TestTLS(t *testing.T) {
	t.Parallel()
	s := redistest.TLS(t)
	roundTrip(t, s.Client(t), "k")

	opts, err := redis.ParseURL(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		config *tls.Config
		ok     bool
	}{
		"trusted":   {s.Config, true},
		"untrusted": {opts.TLSConfig, false},
		"plain":     {nil, false},
	} {
		o := *opts
		o.TLSConfig, o.MaxRetries, o.DialerRetries = test.config, -1, 1
		rdb := redis.NewClient(&o)
		t.Cleanup(func() { _ = rdb.Close() })
		if err := rdb.Ping(t.Context()).Err(); (err == nil) != test.ok {
			t.Errorf("%s client: %v", name, err)
		}
	}
}

func TestMiniDialFollowsTheBubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rdb := redistest.MiniDial(t)
		roundTrip(t, rdb, "k")
		if err := rdb.Expire(t.Context(), "k", time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
		before := rdb.Time(t.Context()).Val()
		<-time.After(59 * time.Minute)
		if rdb.Exists(t.Context(), "k").Val() != 1 {
			t.Error("expired early")
		}
		<-time.After(time.Minute)
		if rdb.Exists(t.Context(), "k").Val() != 0 {
			t.Error("did not expire")
		}
		if got := rdb.Time(t.Context()).Val().Sub(before); got != time.Hour {
			t.Errorf("TIME moved by %v in an hour of the bubble", got)
		}
	})
}
