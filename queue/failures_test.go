package queue_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// TestRedisDown: what was never sent is unavailable, and nothing else.
func TestRedisDown(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1, DialerRetries: 1, PoolSize: 1})
	t.Cleanup(func() { _ = rdb.Close() })
	c, ctx := open(t, rdb, 2), t.Context()
	put(t, c, "c", 10, "1/1s")
	r := admit(t, c, newJob("c", "k", "1"))[0]
	server.Kill()
	_ = rdb.Ping(ctx).Err() // what is sent over the old connection has an unknown outcome
	_, submit := c.Submit(ctx, newJob("c", "k", "3"))
	many := c.SubmitMany(ctx, newJobs("c", "k", 250))
	_, wait := c.SubmitWait(ctx, newJob("c", "k", "4"))
	_, depart := c.Outlet("w", 0).Depart(ctx, queue.Ask{Want: 1})
	_, settle := c.Outlet("w", 0).Settle(ctx, []queue.Verdict{{Ref: r.Ref, Stamp: "1", Outcome: queue.Done}})
	_, put := c.Classes().Put(ctx, queue.NewClass("d", 1, queue.Rate{Limit: 1, Period: time.Second}))
	_, open := queue.Open(ctx, rdb, queue.Options{})
	for what, err := range map[string]error{
		"submit": submit, "submit many": many[0].Err, "the last of many": many[249].Err, "submit wait": wait,
		"depart": depart, "settle": settle, "put": put, "open": open, "now": second(c.Now(ctx)),
		"job": second(c.Job(ctx, r.Ref)), "jobs": second(c.Jobs(ctx, "c", "", false, 1)), "books": second(c.Books(ctx, "c")),
		"buckets": second(c.Buckets().List(ctx, "c", 1)), "classes": second(c.Classes().List(ctx)),
		"pause": c.Buckets().Pause(ctx, "c", "k"), "remove": c.Classes().Remove(ctx, "c"),
	} {
		if !errors.Is(err, queue.ErrUnavailable) || errors.Is(err, queue.ErrUnknown) || queue.ReasonOf(err) != queue.ReasonUnavailable {
			t.Errorf("%s: %v, want unavailable", what, err)
		}
	}
}

// TestLostReply: who hears nothing is told that the outcome is unknown and which id to repeat it with.
func TestLostReply(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		line := &unreliable{}
		rdb.AddHook(line)
		c, ctx := openAt(t, rdb, 1), t.Context()
		put(t, c, "c", 10, "10/1s")
		for _, f := range []fault{replyLost, requestLost} {
			line.next = f
			r, err := c.Submit(ctx, queue.Job{Class: "c", Key: "k", Payload: []byte("1")})
			if !errors.Is(err, queue.ErrUnknown) || queue.ReasonOf(err) != queue.ReasonUnknown || r.ID == "" || !strings.Contains(err.Error(), r.ID) {
				t.Fatalf("%s: %+v, %v; want unknown, and the id", f, r, err)
			}
			again, err := c.Submit(ctx, queue.Job{Class: "c", Key: "k", ID: r.ID, Payload: []byte("1")})
			want := map[fault]queue.Status{replyLost: queue.Duplicate, requestLost: queue.Admitted}[f]
			if err != nil || again.Status != want || again.Ref != r.Ref {
				t.Errorf("%s, again: %+v, %v; want %s", f, again, err, want)
			}
		}
		outlet := c.Outlet("w", 0)
		line.next = replyLost
		if d, err := outlet.Depart(ctx, queue.Ask{Want: 10}); !errors.Is(err, queue.ErrUnknown) || len(d.Jobs) != 0 {
			t.Fatalf("depart: %+v, %v; want unknown", d, err)
		}
		d, err := outlet.Depart(ctx, queue.Ask{Want: 10})
		if err != nil || d.Returned != 1 || len(d.Jobs) != 0 {
			t.Fatalf("next call: %+v, %v; want the job given back", d, err)
		}
		must(t, c.SetClock(ctx, start+100_000))
		line.next = sentTwice
		if d, err := outlet.Depart(ctx, queue.Ask{Want: 10}); !errors.Is(err, queue.ErrRefused) || len(d.Jobs) != 0 {
			t.Fatalf("sent twice: %+v, %v; want it refused", d, err)
		}
		must(t, c.SetClock(ctx, start+200_000))
		d, err = outlet.Depart(ctx, queue.Ask{Want: 10})
		if err != nil || d.Returned != 1 {
			t.Fatalf("next call: %+v, %v; want the job given back", d, err)
		}
		must(t, c.SetClock(ctx, start+300_000))
		if d, err = outlet.Depart(ctx, queue.Ask{Want: 10}); err != nil || len(d.Jobs) != 1 {
			t.Fatalf("at last: %+v, %v; want one job", d, err)
		}
		v := []queue.Verdict{{Ref: d.Jobs[0].Ref, Stamp: d.Jobs[0].Stamp, Outcome: queue.Done}}
		line.next = replyLost
		if _, err := outlet.Settle(ctx, v); !errors.Is(err, queue.ErrUnknown) {
			t.Errorf("settle: %v, want unknown", err)
		}
		if taken, err := outlet.Settle(ctx, v); err != nil || taken[0] {
			t.Errorf("settle again: %v, %v; want it refused", taken, err)
		}
	})
}

// TestErrorsAreToldApart: unavailable only where nothing can have been carried out.
func TestErrorsAreToldApart(t *testing.T) {
	t.Parallel()
	rdb, line := redistest.MiniClient(t), &unreliable{}
	rdb.AddHook(line)
	c, ctx := openAt(t, rdb, 1), t.Context()
	put(t, c, "c", 10, "1/1s")
	for _, test := range []struct {
		err, want error
		reason    queue.Reason
	}{
		{io.EOF, queue.ErrUnknown, queue.ReasonUnknown},
		{context.DeadlineExceeded, queue.ErrUnknown, queue.ReasonUnknown},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, queue.ErrUnknown, queue.ReasonUnknown},
		{&net.OpError{Op: "write", Err: syscall.EPIPE}, queue.ErrUnknown, queue.ReasonUnknown},
		{errors.New("anything else"), queue.ErrUnknown, queue.ReasonUnknown},
		{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, queue.ErrUnavailable, queue.ReasonUnavailable},
		{redis.ErrPoolTimeout, queue.ErrUnavailable, queue.ReasonUnavailable},
		{redis.ErrClosed, queue.ErrUnavailable, queue.ReasonUnavailable},
		{replyError("LOADING Redis is loading the dataset in memory"), queue.ErrUnavailable, queue.ReasonUnavailable},
		{replyError("OOM command not allowed when used memory > 'maxmemory'."), queue.ErrUnavailable, queue.ReasonStoreFull},
	} {
		line.err = test.err
		_, single := c.Submit(ctx, newJob("c", "k", "1"))
		_, settle := c.Outlet("w", 0).Settle(ctx, []queue.Verdict{{Ref: "r", Stamp: "1", Outcome: queue.Done}})
		for what, err := range map[string]error{"submit": single, "settle": settle} {
			if !errors.Is(err, test.want) || !errors.Is(err, test.err) && !errors.Is(test.err, io.EOF) || queue.ReasonOf(err) != test.reason {
				t.Errorf("%s, %v: %v (%s), want %v (%s)", what, test.err, err, queue.ReasonOf(err), test.want, test.reason)
			}
		}
	}
}

// replyError is an error that Redis itself replied with.
type replyError string

func (e replyError) Error() string { return string(e) }
func (e replyError) RedisError()   {}

// TestUnfitServers: Open says what is wrong with a server before anything is lost in it.
func TestUnfitServers(t *testing.T) {
	t.Parallel()
	evicting := redistest.Start(t, "--maxmemory-policy", "allkeys-lru").Client(t)
	if _, err := queue.Open(t.Context(), evicting, queue.Options{}); !errors.Is(err, queue.ErrUnfit) || !strings.Contains(err.Error(), "allkeys-lru") {
		t.Errorf("evicting server: %v, want unfit", err)
	}
	node := redistest.Start(t, "--cluster-enabled", "yes").Client(t)
	if _, err := queue.Open(t.Context(), node, queue.Options{}); !errors.Is(err, queue.ErrUnfit) || !strings.Contains(err.Error(), "redis+cluster://") {
		t.Errorf("cluster node: %v, want unfit", err)
	}
	guarded := redistest.Start(t).Client(t)
	must(t, guarded.Do(t.Context(), "ACL", "SETUSER", "default", "-info").Err())
	if _, err := queue.Open(t.Context(), guarded, queue.Options{}); !errors.Is(err, queue.ErrUnavailable) || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("INFO is denied: %v, want unavailable and why", err)
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		ctx := t.Context()
		for _, o := range []queue.Options{{Shards: -1}, {Shards: 257}, {Prefix: "a b"}, {Prefix: "{a}"}, {Prefix: strings.Repeat("p", 33)}} {
			if _, err := queue.Open(ctx, rdb, o); !errors.Is(err, queue.ErrInvalid) {
				t.Errorf("%+v: %v, want it invalid", o, err)
			}
		}
		c, err := queue.Open(ctx, rdb, queue.Options{})
		if err != nil || c.Shards() != 4 || c.Prefix() != "spout" || c.Redis() != rdb {
			t.Fatalf("%+v, %v; want 4 shards", c, err)
		}
		if _, err := queue.Open(ctx, rdb, queue.Options{Shards: 5}); !errors.Is(err, queue.ErrSchema) || !strings.Contains(err.Error(), "4 shards") {
			t.Errorf("other number of shards: %v", err)
		}
		if c, err := queue.Open(ctx, rdb, queue.Options{Shards: 5, Prefix: "other"}); err != nil || c.Shards() != 5 {
			t.Errorf("other prefix: %v", err)
		}
		for _, test := range []struct {
			schema, oldest int
			want           string
		}{
			{9, 2, ""},
			{9, 3, "upgrade this program"},
			{0, 0, "run a release in between"},
		} {
			must(t, rdb.HSet(ctx, "spout:meta", "schema", test.schema, "oldest", test.oldest).Err())
			_, err := queue.Open(ctx, rdb, queue.Options{})
			if test.want == "" && err != nil || test.want != "" && (!errors.Is(err, queue.ErrSchema) || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("schema %d, oldest %d: %v, want %q", test.schema, test.oldest, err, test.want)
			}
		}
		if n := rdb.HGet(ctx, "spout:meta", "schema").Val(); n != "0" {
			t.Errorf("a refused program wrote schema %s", n)
		}
	})
}

// TestStoreFull: a Redis at its maxmemory admits nothing and says so; it still drains, and everything balances.
func TestStoreFull(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	c, ctx := openAt(t, rdb, 1), t.Context()
	put(t, c, "c", 100, "1000/1s", func(c *queue.Class) { c.Dedup = time.Hour })
	later := newJob("c", "k", "later")
	later.NotBefore, later.MaxWait = at(1), time.Hour
	admit(t, c, append(newJobs("c", "k", 10), later)...)
	must(t, rdb.ConfigSet(ctx, "maxmemory", "1mb").Err())
	_, err := c.Submit(ctx, newJob("c", "k", "x"))
	if !errors.Is(err, queue.ErrUnavailable) || queue.ReasonOf(err) != queue.ReasonStoreFull {
		t.Errorf("submit: %v (%s), want store_full", err, queue.ReasonOf(err))
	}
	outlet := c.Outlet("w", 0)
	for i := range 12 {
		must(t, c.Redis().ConfigSet(ctx, "maxmemory", "0").Err())
		must(t, c.SetClock(ctx, start+int64(i)*10_000))
		must(t, c.Redis().ConfigSet(ctx, "maxmemory", "1mb").Err())
		d, err := outlet.Depart(ctx, queue.Ask{Want: 1})
		if err != nil || len(d.Jobs) != 1 {
			t.Fatalf("departure %d: %+v, %v", i, d, err)
		}
		v := queue.Verdict{Ref: d.Jobs[0].Ref, Stamp: d.Jobs[0].Stamp, Outcome: []queue.Outcome{queue.Back, queue.Done, queue.Dead}[min(i, 2)]}
		if taken, err := outlet.Settle(ctx, []queue.Verdict{v}); err != nil || !taken[0] {
			t.Fatalf("settle %d: %v, %v", i, taken, err)
		}
	}
	must(t, c.Buckets().Pause(ctx, "c", "k"))
	must(t, c.Classes().Pause(ctx, "c"))
	if _, dead, err := c.Classes().Purge(ctx, "c"); dead != 10 || err != nil {
		t.Errorf("purged %d dead, %v; want 10", dead, err)
	}
	if _, err := outlet.Leave(ctx); err != nil {
		t.Errorf("leave: %v", err)
	}
	must(t, rdb.ConfigSet(ctx, "maxmemory", "0").Err())
	books, err := c.Books(ctx, "c")
	want := queue.Books{Admitted: 11, Departed: 12, Returned: 1, Done: 1, Dead: 10, DeadPurged: 10}
	if diff := cmp.Diff(want, books); diff != "" || err != nil {
		t.Errorf("books: %v (-want +got):\n%s", err, diff)
	}
	admit(t, c, newJob("c", "k", "x"))
}

// TestScriptFlush: whoever loses the scripts in the middle, nobody notices.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c, ctx := openAt(t, rdb, 1), t.Context()
		flush := func() { t.Helper(); must(t, rdb.ScriptFlush(ctx).Err()) }
		flush()
		put(t, c, "c", 1000, "10/1s")
		flush()
		if _, err := c.Submit(ctx, newJob("c", "k", "x")); err != nil {
			t.Error(err)
		}
		flush()
		admit(t, c, newJobs("c", "k", 301)...)
		waiting(t, c, "k", 3, "x", "j0", "j1")
		flush()
		outlet := c.Outlet("w", 0)
		d, err := outlet.Depart(ctx, queue.Ask{Want: 1})
		if err != nil || len(d.Jobs) != 1 {
			t.Fatalf("depart: %+v, %v", d, err)
		}
		flush()
		if taken, err := outlet.Settle(ctx, []queue.Verdict{{Ref: d.Jobs[0].Ref, Stamp: d.Jobs[0].Stamp, Outcome: queue.Done}}); err != nil || !taken[0] {
			t.Errorf("settle: %v, %v", taken, err)
		}
		flush()
		if n, err := c.Buckets().Purge(ctx, "c", "k"); n != 301 || err != nil {
			t.Errorf("purge: %d, %v; want 301", n, err)
		}
		flush()
		if _, err := outlet.Leave(ctx); err != nil {
			t.Errorf("leave: %v", err)
		}
	})
}

// TestNothingIsLeft: buckets that are drained and idle for two intervals leave no key behind. The name of a worker that has
// left is remembered for an hour, so that a late call of it is known for what it is.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c, ctx, now := openAt(t, rdb, 2), t.Context(), start
		put(t, c, "c", 5, "7/1s", func(c *queue.Class) { c.MaxWait = time.Second })
		for i := range 60 {
			job := newJob("c", fmt.Sprint("k", i%10), fmt.Sprint(i))
			job.NotBefore = at(int64(i%4) * 100_000)
			_, _ = c.Submit(ctx, job) // some find no room
		}
		outlets := []*queue.Outlet{c.Outlet("w", 0), c.Outlet("w", 1)}
		for range 40 {
			now += 71_429
			must(t, c.SetClock(ctx, now))
			for _, outlet := range outlets {
				d, err := outlet.Depart(ctx, queue.Ask{Want: 100})
				must(t, err)
				for i, j := range d.Jobs {
					outcome := []queue.Outcome{queue.Done, queue.Back}[i%2]
					_, err := outlet.Settle(ctx, []queue.Verdict{{Ref: j.Ref, Stamp: j.Stamp, Outcome: outcome, Stale: true}})
					must(t, err)
				}
			}
		}
		for _, outlet := range outlets {
			_, err := outlet.Leave(ctx)
			must(t, err)
		}
		want := []string{
			"spout:meta", "{spout:0}:class:c", "{spout:0}:classes", "{spout:0}:server", "{spout:0}:stamp", "{spout:0}:stats:c",
			"{spout:0}:workers", "{spout:1}:class:c", "{spout:1}:classes", "{spout:1}:server", "{spout:1}:stamp",
			"{spout:1}:stats:c", "{spout:1}:workers",
		}
		if left := leftover(t, rdb); !slices.Equal(left, want) {
			t.Errorf("left: %v", left)
		}
		must(t, c.SetClock(ctx, now+micros(time.Hour)+1))
		for shard := range 2 { // who leaves sees off who left long before
			_, err := c.Outlet("other", shard).Leave(ctx)
			must(t, err)
			names := rdb.HKeys(ctx, fmt.Sprintf("{spout:%d}:workers", shard)).Val()
			if !slices.Equal(names, []string{"other"}) {
				t.Errorf("workers that are remembered: %v", names)
			}
		}
	})
}
