package queue_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

func TestRates(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		rate     queue.Rate
		interval time.Duration
		text     string
	}{
		"30/60s":      {queue.Rate{Limit: 30, Period: time.Minute}, 2 * time.Second, "30/60s"},
		"1/1ms":       {queue.Rate{Limit: 1, Period: time.Millisecond}, time.Millisecond, "1/1ms"},
		"7/1s":        {queue.Rate{Limit: 7, Period: time.Second}, 142857142, "7/1s"},
		"10000/1s":    {queue.Rate{Limit: 10000, Period: time.Second}, 100 * time.Microsecond, "10000/1s"},
		"200000/1d":   {queue.Rate{Limit: 200000, Period: 24 * time.Hour}, 432 * time.Millisecond, "200000/1d"},
		"5/1h30m":     {queue.Rate{Limit: 5, Period: 90 * time.Minute}, 18 * time.Minute, "5/1h30m"},
		"5/48h":       {queue.Rate{Limit: 5, Period: 48 * time.Hour}, 48 * time.Hour / 5, "5/2d"},
		"1/2m0s":      {queue.Rate{Limit: 1, Period: 2 * time.Minute}, 2 * time.Minute, "1/2m"},
		"1/1h":        {queue.Rate{Limit: 1, Period: time.Hour}, time.Hour, "1/1h"},
		"3/1.5s":      {queue.Rate{Limit: 3, Period: 1500 * time.Millisecond}, 500 * time.Millisecond, "3/1.5s"},
		"1/10h0m10s":  {queue.Rate{Limit: 1, Period: 10*time.Hour + 10*time.Second}, 10*time.Hour + 10*time.Second, "1/10h0m10s"},
		"1/366d":      {queue.Rate{Limit: 1, Period: 366 * 24 * time.Hour}, 366 * 24 * time.Hour, "1/366d"},
		"1000000/10m": {queue.Rate{Limit: 1_000_000, Period: 10 * time.Minute}, 600 * time.Microsecond, "1000000/10m"},
	} {
		got, err := queue.ParseRate(text)
		if err != nil || got != want.rate || got.Interval() != want.interval || got.String() != want.text {
			t.Errorf("%s: %+v (%s), interval %v, %v; want %+v", text, got, got, got.Interval(), err, want)
		}
		var back queue.Rate
		if err := back.UnmarshalText([]byte(got.String())); err != nil || back != got {
			t.Errorf("%s: %+v comes back as %+v, %v", text, got, back, err)
		}
	}
	for _, text := range []string{
		"", "x", "5", "/1s", "5/", "0/1s", "-1/1s", "5/0s", "5/-1s", "1.5/1s", "5/1", "5/s", "5/1x", "10001/1s", "5/367d",
		"5/0d", "5/-1d", "5/1.5d", "1/1ns", "3/1500ns", "9999999999999999999/1s", "5/1s/1s", " 5/1s", "5/ 1s", "1/9000h",
	} {
		if rate, err := queue.ParseRate(text); !errors.Is(err, queue.ErrInvalid) {
			t.Errorf("%q: %+v, %v; want it invalid", text, rate, err)
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]queue.Size{"0": 0, "1": 1, "512": 512, "64KiB": 64 << 10, "1 KiB": 1 << 10, "1MiB": 1 << 20, "3MiB": 3 << 20} {
		var got, back queue.Size
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
		written, err := got.MarshalText()
		if err != nil || back.UnmarshalText(written) != nil || back != got {
			t.Errorf("%d is written %s and comes back as %d, %v", got, written, back, err)
		}
	}
	for _, text := range []string{"", "x", "-1", "KiB", "1KB", "1.5MiB", "1MiB2", "99999999999MiB", "1MiBKiB"} {
		var got queue.Size
		if err := got.UnmarshalText([]byte(text)); !errors.Is(err, queue.ErrInvalid) {
			t.Errorf("%q: %d, %v; want it invalid", text, got, err)
		}
	}
}

func TestBadClasses(t *testing.T) {
	t.Parallel()
	c := openAt(t, redistest.MiniClient(t), 1)
	for name, change := range map[string]func(*queue.Class){
		"name":           func(c *queue.Class) { c.Name = "Upper" },
		"capacity":       func(c *queue.Class) { c.Capacity = 0 },
		"capacity ":      func(c *queue.Class) { c.Capacity = 1_000_001 },
		"rate":           func(c *queue.Class) { c.Rate = queue.Rate{} },
		"rate ":          func(c *queue.Class) { c.Rate.Limit = 20_000 },
		"catch_up":       func(c *queue.Class) { c.CatchUp = -1 },
		"catch_up ":      func(c *queue.Class) { c.CatchUp = 2 * time.Second },
		"max_wait":       func(c *queue.Class) { c.MaxWait = time.Microsecond },
		"max_wait ":      func(c *queue.Class) { c.MaxWait = -time.Second },
		"max_jobs":       func(c *queue.Class) { c.MaxJobs = -1 },
		"timeout":        func(c *queue.Class) { c.Timeout = 0 },
		"dedup":          func(c *queue.Class) { c.Dedup = 8761 * time.Hour },
		"max_payload":    func(c *queue.Class) { c.MaxPayload = 0 },
		"max_payload ":   func(c *queue.Class) { c.MaxPayload = 1<<20 + 1 },
		"http.schemes":   func(c *queue.Class) { c.HTTP.Schemes = []string{"HTTPS"} },
		"http.ports":     func(c *queue.Class) { c.HTTP.Ports = []int{0} },
		"http.redirects": func(c *queue.Class) { c.HTTP.Redirects = 11 },
		"http.secrets":   func(c *queue.Class) { c.HTTP.Hosts, c.HTTP.Secrets = []string{"a"}, []string{"../a"} },
		"http.secrets ":  func(c *queue.Class) { c.HTTP.Secrets = []string{"a"} },
		"http.hold":      func(c *queue.Class) { c.HTTP.Hold = "key" },
		"http.max_hold":  func(c *queue.Class) { c.HTTP.MaxHold = time.Millisecond },
		"http.max_hold ": func(c *queue.Class) { c.HTTP.MaxHold = 25 * time.Hour },
		"http.hosts":     func(c *queue.Class) { c.HTTP.Hosts = []string{"http://x"} },
		"max_in_flight":  func(c *queue.Class) { c.MaxInFlight = -1 },
		"overflow":       func(c *queue.Class) { c.Overflow = "" },
		"retention":      func(c *queue.Class) { c.Retention = -1 },
		"max_attempts":   func(c *queue.Class) { c.Retry.MaxAttempts = 0 },
		"backoff":        func(c *queue.Class) { c.Retry.Backoff = 0 },
		"max_backoff":    func(c *queue.Class) { c.Retry.MaxBackoff = time.Millisecond },
		"order":          func(c *queue.Class) { c.Retry.Order = "any" },
		"max_crashes":    func(c *queue.Class) { c.MaxCrashes = 101 },
		"dead.max":       func(c *queue.Class) { c.Dead.Max = -1 },
		"dead.keep":      func(c *queue.Class) { c.Dead.Keep = 0 },
		"ack":            func(c *queue.Class) { c.Ack = "replicated(17)" },
		"pace":           func(c *queue.Class) { c.Pace = "" },
		"capacity -5 is": func(c *queue.Class) { c.Capacity, c.Rate.Limit = -5, -1 },
	} {
		class := queue.NewClass("c", 10, queue.Rate{Limit: 1, Period: time.Second})
		change(&class)
		_, err := c.Classes().Put(t.Context(), class)
		if !errors.Is(err, queue.ErrInvalid) || !strings.Contains(err.Error(), strings.TrimSpace(name)) {
			t.Errorf("%s: %v; want it invalid, by name", name, err)
		}
	}
	if list, err := c.Classes().List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("classes: %v, %v; want none", list, err)
	}
}

// TestClasses: what is put is what is read, on every shard, and versions count.
func TestClasses(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c, ctx := openAt(t, rdb, 3), t.Context()
		full := put(t, c, "full", 7, "30/60s", func(c *queue.Class) {
			c.CatchUp, c.MaxWait, c.MaxJobs, c.Timeout, c.Dedup = 0, 10*time.Minute, 9, time.Second, time.Hour
			c.MaxPayload = 1 << 10
			c.HTTP = queue.HTTP{
				AllowPrivate: true, Hosts: []string{"example.org"}, Schemes: []string{"https"}, Ports: []int{443, 8443}, Redirects: 3,
				Secrets: []string{"token"}, Hold: queue.HoldClass, MaxHold: 10 * time.Minute, Anonymous: true,
			}
			c.MaxInFlight, c.Overflow, c.Retention = 3, queue.DropOldest, 2*time.Hour
			c.Retry = queue.Retry{MaxAttempts: 7, Backoff: 10 * time.Millisecond, MaxBackoff: time.Second, Order: queue.Tail}
			c.MaxCrashes, c.Dead = 4, queue.DeadLimits{Max: 11, Keep: 24 * time.Hour}
			c.Ack, c.Pace = queue.AckReplicated(2), queue.PaceStrict
		})
		put(t, c, "a-1", 1, "1/1s")
		again := full
		again.Capacity = 8
		again, err := c.Classes().Put(ctx, again)
		if err != nil || again.Version != 2 || again.Equal(full) {
			t.Errorf("put again: %+v, %v; want version 2", again, err)
		}
		list, err := c.Classes().List(ctx)
		must(t, err)
		if len(list) != 2 || list[0].Name != "a-1" || !cmp.Equal(list[1], again) || !list[1].Equal(again) {
			t.Errorf("list: %+v", list)
		}
		must(t, c.Classes().Pause(ctx, "full"))
		if got, err := c.Classes().Get(ctx, "full"); err != nil || !got.Paused || !got.Equal(again) {
			t.Errorf("paused: %+v, %v", got, err)
		}
		for shard := range 3 {
			if n, err := rdb.HGet(ctx, "{spout:"+string(rune('0'+shard))+"}:class:full", "capacity").Int(); err != nil || n != 8 {
				t.Errorf("capacity in shard %d: %d, %v; want 8", shard, n, err)
			}
		}
		for what, err := range map[string]error{
			"get":    second(c.Classes().Get(ctx, "none")),
			"pause":  c.Classes().Pause(ctx, "none"),
			"remove": c.Classes().Remove(ctx, "none"),
			"bucket": c.Buckets().Pause(ctx, "none", "k"),
			"list":   second(c.Buckets().List(ctx, "none", 10)),
			"jobs":   second(c.Jobs(ctx, "none", "", false, 10)),
		} {
			if !errors.Is(err, queue.ErrUnknownClass) {
				t.Errorf("%s of an unknown class: %v", what, err)
			}
		}
		const want = `{"name":"full","capacity":8,"rate":"30/60s","catch_up":"0s","max_wait":"10m","max_jobs":9,"timeout":"1s",` +
			`"dedup":"1h","max_payload":"1KiB","http":{"allow_private":true,"hosts":["example.org"],"schemes":["https"],"ports":[443,8443],"redirects":3,` +
			`"secrets":["token"],"hold":"class","max_hold":"10m","anonymous":true},` +
			`"max_in_flight":3,"overflow":"drop-oldest","retention":"2h",` +
			`"retry":{"max_attempts":7,"backoff":"10ms","max_backoff":"1s","order":"tail"},"max_crashes":4,` +
			`"dead":{"max":11,"keep":"24h"},"ack":"replicated(2)","pace":"strict","paused":false,"draining":false,"version":2}`
		if got, err := json.Marshal(again); err != nil || string(got) != want {
			t.Errorf("JSON: %s, %v\nwant  %s", got, err, want)
		}
	})
}

// TestHTTPDefaults: settings that are not given, and those of before there were so many, are the defaults.
func TestHTTPDefaults(t *testing.T) {
	t.Parallel()
	want := queue.NewClass("c", 1, queue.Rate{Limit: 1, Period: time.Second})
	bare := want
	bare.HTTP = queue.HTTP{}
	if err := bare.Validate(); err != nil || !bare.Equal(want) {
		t.Errorf("zero is not the default: %v", err)
	}
	var got queue.HTTP
	must(t, json.Unmarshal([]byte(`{"allow_private":false}`), &got))
	if diff := cmp.Diff(want.HTTP, got); diff != "" {
		t.Error(diff)
	}
	for _, bad := range []string{`{"max_hold":"x"}`, `{"max_hold":7}`, `{"ports":["x"]}`} {
		if json.Unmarshal([]byte(bad), &got) == nil {
			t.Errorf("%s is read", bad)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestClassesChangedAtOnce: of two that put the same class at the same moment one is told.
func TestClassesChangedAtOnce(t *testing.T) {
	t.Parallel()
	rdb := redistest.MiniClient(t)
	c := openAt(t, rdb, 2)
	class := put(t, c, "c", 7, "1/1s")
	must(t, rdb.HSet(t.Context(), "{spout:1}:class:c", "version", 5).Err())
	if class, err := c.Classes().Put(t.Context(), class); err != nil || class.Version != 6 {
		t.Errorf("after a put that failed half way: %+v, %v; want version 6", class, err)
	}
	hook := &raiser{rdb: redis.NewClient(rdb.Options())}
	t.Cleanup(func() { _ = hook.rdb.Close() })
	rdb.AddHook(hook)
	if _, err := c.Classes().Put(t.Context(), class); !errors.Is(err, queue.ErrConflict) {
		t.Errorf("changed by somebody else at once: %v, want a conflict", err)
	}
}

// TestRemove: a class that has jobs stays; one without goes, and a bucket that remembers a slot outlives it.
func TestRemove(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c, ctx := openAt(t, rdb, 1), t.Context()
		put(t, c, "c", 10, "1/10s")
		admit(t, c, newJobs("c", "k", 2)...)
		outlet := c.Outlet("w", 0)
		settle := func(outcome queue.Outcome) {
			t.Helper()
			d, err := outlet.Depart(ctx, queue.Ask{Want: 1})
			if err != nil || len(d.Jobs) != 1 {
				t.Fatalf("%+v, %v; want one departure", d, err)
			}
			busy(ctx, t, c, func(b *queue.BusyError) bool { return b.Out == 1 })
			_, err = outlet.Settle(ctx, []queue.Verdict{{Ref: d.Jobs[0].Ref, Stamp: d.Jobs[0].Stamp, Outcome: outcome}})
			must(t, err)
		}
		busy(ctx, t, c, func(b *queue.BusyError) bool { return b.Waiting == 2 })
		settle(queue.Done)
		must(t, c.SetClock(ctx, start+10_000_000))
		settle(queue.Dead)
		busy(ctx, t, c, func(b *queue.BusyError) bool { return b.Dead == 1 && b.Waiting+b.Out == 0 })
		if waiting, dead, err := c.Classes().Purge(ctx, "c"); waiting != 0 || dead != 1 || err != nil {
			t.Errorf("purge: %d, %d, %v; want one dead", waiting, dead, err)
		}
		must(t, c.Classes().Pause(ctx, "c"))
		must(t, c.Classes().Remove(ctx, "c"))
		if _, err := c.Submit(ctx, newJob("c", "k", "x")); !errors.Is(err, queue.ErrUnknownClass) {
			t.Errorf("submit to a removed class: %v", err)
		}
		if list, err := c.Classes().List(ctx); err != nil || len(list) != 0 {
			t.Errorf("list: %v, %v; want none", list, err)
		}
		put(t, c, "c", 10, "1/10s")
		if class, err := c.Classes().Get(ctx, "c"); err != nil || class.Paused {
			t.Errorf("made anew: %+v, %v; want it open", class, err)
		}
		if r := admit(t, c, newJob("c", "k", "new"))[0]; r.EstimatedStart.UnixMicro() != start+20_000_000 {
			t.Errorf("made anew, it departs at %v, too early", r.EstimatedStart)
		}
		_, err := c.Buckets().Purge(ctx, "c", "k")
		must(t, err)
		must(t, c.Classes().Pause(ctx, "c"))
		must(t, c.Classes().Remove(ctx, "c"))
		must(t, c.SetClock(ctx, start+30_000_000))
		departAll(t, c)
		if left := leftover(t, rdb); !slices.Equal(left, []string{"spout:meta", "{spout:0}:server", "{spout:0}:stamp", "{spout:0}:workers"}) {
			t.Errorf("left over: %v", left)
		}
	})
}

func busy(ctx context.Context, t *testing.T, c *queue.Client, is func(*queue.BusyError) bool) {
	t.Helper()
	err := c.Classes().Remove(ctx, "c")
	if b, ok := errors.AsType[*queue.BusyError](err); !ok || !is(b) {
		t.Errorf("remove: %v", err)
	}
}

// leftover lists all keys but the test's clock.
func leftover(t *testing.T, rdb *redis.Client) []string {
	t.Helper()
	keys, err := rdb.Keys(t.Context(), "*").Result()
	must(t, err)
	slices.Sort(keys)
	return slices.DeleteFunc(keys, func(key string) bool { return strings.HasSuffix(key, ":clock") })
}

// PutIf changes what somebody looked at, and nothing else.
func TestPutIf(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c := open(t, rdb, 3)
		class := queue.NewClass("c", 5, queue.Rate{Limit: 1, Period: time.Second})
		putIf := func(capacity int, version int64) (queue.Class, error) {
			class.Capacity = capacity
			return c.Classes().PutIf(t.Context(), class, version)
		}
		conflict := func(what string, err error, names ...string) {
			t.Helper()
			if !errors.Is(err, queue.ErrConflict) {
				t.Fatalf("%s: %v, want a conflict", what, err)
			}
			for _, name := range names {
				if !strings.Contains(err.Error(), name) {
					t.Errorf("%s: %v, want %s in it", what, err, name)
				}
			}
		}
		_, err := putIf(5, 1)
		conflict("a class that is not there", err, "no version 1")
		stored, err := putIf(5, 0)
		must(t, err)
		if stored.Version != 1 {
			t.Errorf("version %d, want 1", stored.Version)
		}
		_, err = putIf(6, 0)
		conflict("a class that is there", err, "version 1", "not 0")
		stored, err = putIf(7, 1)
		must(t, err)
		_, err = putIf(8, 1)
		conflict("an old version", err, "version 2", "not 1")
		if got, err := c.Classes().Get(t.Context(), "c"); err != nil || got.Capacity != 7 || got.Version != 2 || stored.Version != 2 {
			t.Errorf("%+v, %v; want capacity 7, version 2", got, err)
		}
		// Of many that saw the same version, one wins.
		var wins atomic.Int64
		var many sync.WaitGroup
		for range 8 {
			many.Go(func() {
				if _, err := c.Classes().PutIf(t.Context(), class, 2); err == nil {
					wins.Add(1)
				} else if !errors.Is(err, queue.ErrConflict) {
					t.Error(err)
				}
			})
		}
		many.Wait()
		if wins.Load() != 1 {
			t.Errorf("%d of 8 changed the same version, want 1", wins.Load())
		}
		// A Put that failed half way is not built upon.
		must(t, rdb.HSet(t.Context(), "{spout:2}:class:c", "version", 9).Err())
		_, err = putIf(8, 3)
		conflict("half a Put", err, "version 3", "9")
		put(t, c, "c", 9, "1/1s")
		_, err = putIf(8, 10)
		must(t, err)
		// A removed class, of which a bucket still remembers when it let go, is none.
		put(t, c, "slow", 9, "1/1h")
		admit(t, c, newJob("slow", "k", "1"))
		for _, d := range takeAll(t, c) {
			_, err := c.Outlet(d.Worker, int(d.Ref[0]-'0')).Settle(t.Context(), []queue.Verdict{{Ref: d.Ref, Stamp: d.Stamp, Class: d.Class, Outcome: queue.Done}})
			must(t, err)
		}
		must(t, c.Classes().Remove(t.Context(), "slow"))
		class.Name = "slow"
		_, err = putIf(1, 1)
		conflict("a removed class", err, "removed")
		_, err = putIf(1, 0)
		must(t, err)
		// Of two who make a class, one has made it.
		must(t, rdb.HSet(t.Context(), "{spout:2}:class:new", "version", 1).Err())
		class.Name = "new"
		_, err = putIf(1, 0)
		conflict("a class that somebody else is making", err, "being made")
		put(t, c, "new", 9, "1/1s")
	})
}

// takeAll departs what is open, with a new worker.
func takeAll(t *testing.T, c *queue.Client) []queue.Departure {
	t.Helper()
	var jobs []queue.Departure
	worker := fmt.Sprint("worker ", workers.Add(1))
	for shard := range c.Shards() {
		d, err := c.Outlet(worker, shard).Depart(t.Context(), queue.Ask{Want: 100})
		must(t, err)
		jobs = append(jobs, d.Jobs...)
	}
	return jobs
}
