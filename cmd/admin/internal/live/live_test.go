package live_test

import (
	"context"
	"encoding/json"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/cmd/admin/internal/live"
	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// commands counts what a client sends.
type commands struct{ n atomic.Int64 }

func (c *commands) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *commands) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (c *commands) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// open opens an installation and counts what the second client, which is for looking, sends.
func open(t *testing.T, addr string) (jobs, looks *queue.Client, sent *commands) {
	t.Helper()
	var clients [2]*queue.Client
	sent = &commands{}
	for i := range clients {
		rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1})
		t.Cleanup(func() { _ = rdb.Close() })
		c, err := queue.Open(t.Context(), rdb, queue.Options{})
		must(t, err)
		if clients[i] = c; i == 1 {
			rdb.AddHook(sent)
		}
	}
	return clients[0], clients[1], sent
}

func submit(t *testing.T, c *queue.Client, class, key string, n int) {
	t.Helper()
	jobs := make([]queue.Job, n)
	for i := range jobs {
		jobs[i] = queue.Job{Class: class, Key: key, Payload: json.RawMessage(`{}`)}
	}
	for _, r := range c.SubmitMany(t.Context(), jobs) {
		must(t, r.Err)
	}
}

func put(t *testing.T, c *queue.Client, name string, rate queue.Rate) {
	t.Helper()
	_, err := c.Classes().Put(t.Context(), queue.NewClass(name, 10, rate))
	must(t, err)
}

var perSecond = queue.Rate{Limit: 1, Period: time.Second}

// eventually asks again and again, as a tab does.
func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			t.Fatal("never: " + what)
		}
	}
}

func run(t *testing.T, c *queue.Client) *live.Live {
	t.Helper()
	return runWith(t, live.New(c, nil))
}

func runWith(t *testing.T, l *live.Live) *live.Live {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { l.Run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	return l
}

func TestLive(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c, err := queue.Open(t.Context(), rdb, queue.Options{})
		must(t, err)
		put(t, c, "a", perSecond)
		put(t, c, "b", perSecond)
		submit(t, c, "a", "full", 10)
		submit(t, c, "a", "some", 3)
		submit(t, c, "b", "closed", 2)
		must(t, c.Buckets().Pause(t.Context(), "b", "closed"))
		l := run(t, c)
		defer l.Look()()
		p := l.Now(t.Context())
		if _, stale := p.Stale(time.Now()); stale || p.Err != nil || len(p.Classes) != 2 || p.Workers.Alive != 0 {
			t.Fatalf("the first picture: %+v", p)
		}
		if a, ok := p.Class("a"); !ok || a.Level != 13 || a.Known {
			t.Errorf("class a: level %d, rates known: %v", a.Level, a.Known)
		}
		if _, ok := p.Class("c"); ok {
			t.Error("there is a class c")
		}
		l.Swept(t.Context(), 10*time.Second)
		names := l.Choose(live.Query{Limit: 2}).Names
		if !slices.Equal(names, []string{"a/full", "b/closed"}) {
			t.Fatalf("the fullest are %v", names)
		}
		var buckets []live.Bucket
		eventually(t, "the buckets are read", func() bool {
			buckets = l.Buckets(append(names, "gone/x"))
			return buckets[0].Read && buckets[1].Read
		})
		if b := buckets[0]; b.Level != 10 || b.High != 10 || live.ShapeOf(b.Bucket) != live.Open {
			t.Errorf("%+v", b)
		}
		if live.ShapeOf(buckets[1].Bucket) != live.Paused || buckets[2].Read {
			t.Errorf("%+v", buckets[1:])
		}

		// What comes now is seen, with its rate, and what finds no room.
		eventually(t, "rates are known", func() bool {
			a, _ := l.Now(t.Context()).Class("a")
			return a.Known && l.Buckets(names)[0].Known
		})
		submit(t, c, "a", "some", 5)
		for range 4 {
			if _, err := c.Submit(t.Context(), queue.Job{Class: "a", Key: "full", Payload: json.RawMessage(`1`)}); err == nil {
				t.Fatal("admitted above the capacity")
			}
		}
		eventually(t, "what comes in and what is rejected is seen", func() bool {
			a, _ := l.Now(t.Context()).Class("a")
			b := l.Buckets(names)[0]
			return a.In > 0 && a.Rejected > 0 && b.Overflow > 0 && b.In == 0 && l.Troubles()["a"].RejectingExample == "full"
		})
		// Nothing drains it, so it is stalled in the end.
		eventually(t, "it is stalled", func() bool { return l.Buckets(names)[0].Stalled })
		if l.Buckets(names)[1].Stalled {
			t.Error("a paused bucket is stalled")
		}
	})
}

// While nobody looks nothing is read; a look of a moment is enough to begin.
func TestNobodyLooks(t *testing.T) {
	t.Parallel()
	c, looks, sent := open(t, redistest.Start(t).Addr)
	put(t, c, "a", perSecond)
	l := run(t, looks)
	before := sent.n.Load()
	<-time.After(700 * time.Millisecond) // nearly three steps
	if n := sent.n.Load() - before; n != 0 {
		t.Errorf("%d commands although nobody looks", n)
	}
	if p := l.Now(t.Context()); p.At.IsZero() {
		t.Errorf("%+v", p)
	}
}

// When Redis is away the numbers stand still and say so; when it is back they go on.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	c, looks, _ := open(t, server.Addr)
	put(t, c, "a", perSecond)
	submit(t, c, "a", "k", 4)
	l := run(t, looks)
	defer l.Look()()
	at := l.Now(t.Context()).At
	if at.IsZero() {
		t.Fatal("no first picture")
	}
	server.Kill()
	eventually(t, "the picture is stale", func() bool {
		p := l.Now(t.Context())
		_, stale := p.Stale(time.Now())
		return stale && p.Err != nil
	})
	if a, ok := l.Now(t.Context()).Class("a"); !ok || a.Level != 4 {
		t.Error("the old numbers are gone")
	}
	server.Restart()
	eventually(t, "the picture is live again", func() bool {
		p := l.Now(t.Context())
		_, stale := p.Stale(time.Now())
		return !stale && p.Err == nil && p.At.After(at)
	})
}

// What a screen of 50 buckets costs Redis, of 10,000 that there are, with one tab and with two.
func TestBudget(t *testing.T) {
	t.Parallel()
	c, looks, sent := open(t, redistest.Start(t).Addr)
	names := crowd(t, c)
	l := run(t, looks)
	before := sent.n.Load()
	l.Now(t.Context())
	l.Swept(t.Context(), 25*time.Millisecond)
	if n := sent.n.Load() - before; n >= 200 {
		t.Errorf("a first look takes %d commands", n)
	}
	look := func() {
		l.Choose(live.Query{Limit: 50})
		l.Buckets(names[:50]) // of all shards
	}
	eventually(t, "all are seen", func() bool { look(); return l.Grid(live.Query{}).Whole })
	if g := l.Grid(live.Query{}); g.Used != len(names) {
		t.Errorf("%d of %d buckets are seen", g.Used, len(names))
	}
	for tabs := 1; tabs <= 2; tabs++ {
		begun, before := time.Now(), sent.n.Load()
		eventually(t, "4 s are over", func() bool {
			for range tabs {
				look()
			}
			return time.Since(begun) > 4*time.Second
		})
		if rate := float64(sent.n.Load()-before) / time.Since(begun).Seconds(); rate >= 60 {
			t.Errorf("%d tabs take %.0f commands a second", tabs, rate)
		} else {
			t.Logf("%d tabs take %.0f commands a second", tabs, rate)
		}
	}
}

// Who begins to look at a dead worker does not see it alive: a beat alone does not tell when it was.
func TestFirstLookAtWorkers(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c, err := queue.Open(t.Context(), rdb, queue.Options{})
		must(t, err)
		put(t, c, "a", perSecond)
		for _, name := range []string{"works", "died"} {
			_, err := c.Outlet(name, 0).Depart(t.Context(), queue.Ask{Want: 0, Classes: []string{"a"}})
			must(t, err)
		}
		_, err = c.Report(t.Context(), queue.Report{Worker: "works", Concurrency: 8, Since: time.Now()})
		must(t, err)
		if w := run(t, c).Now(t.Context()).Workers; w.Alive != 1 || w.Silent != 1 {
			t.Errorf("%d workers are alive and %d silent, instead of one each", w.Alive, w.Silent)
		}
	})
}
