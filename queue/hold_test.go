package queue_test

import (
	"math"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

// asksFor is what a handler says whose service asked to be left alone.
func asksFor(d time.Duration, change ...func(*queue.Verdict)) func(*queue.Verdict) {
	return func(v *queue.Verdict) {
		v.Hold, v.Error = d, "answered 429"
		for _, f := range change {
			f(v)
		}
	}
}

func wholeClass(v *queue.Verdict) { v.HoldClass = true }
func throttled(v *queue.Verdict)  { v.Throttled = true }

// TestHeldAttempt: the job returns to the head, however often, and nothing leaves its bucket before the time.
func TestHeldAttempt(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 10, "1/1s", func(c *queue.Class) { c.Retry.MaxAttempts = 1 })
		refs := admit(t, s.c, newJobs("c", "k", 2)...)
		for n := range 3 {
			d := s.one()
			if d.Ref != refs[0].Ref || d.Attempt != n+1 {
				t.Fatalf("job %s departs for attempt %d; want the first one for attempt %d", d.ID, d.Attempt, n+1)
			}
			s.settle(d, queue.Held, asksFor(5*time.Second))
			s.advance(4999 * time.Millisecond)
			s.none()
			s.advance(time.Millisecond)
		}
		j := s.state(refs[0].Ref)
		if j.State != queue.Line || j.Attempts != 3 || j.History[0].Outcome != "held" || j.History[0].Error != "answered 429" {
			t.Errorf("%+v; want it in line with three held attempts", j)
		}
		s.settle(s.one(), queue.Done)
		s.none()
		s.advance(time.Second)
		s.settle(s.one(), queue.Done)
		if books := s.audited(); books.Held != 3 || books.Dead != 0 || books.Done != 2 {
			t.Errorf("%+v; want 3 held and 2 done", books)
		}
	})
}

// TestHeldAttempts: the longest hold counts, whatever came after it.
func TestHeldAttempts(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 10, "10/1s")
		admit(t, s.c, newJobs("c", "k", 2)...)
		first := s.one()
		s.advance(100 * time.Millisecond)
		second := s.one()
		s.settle(first, queue.Held, asksFor(5*time.Second))
		s.settle(second, queue.Held, asksFor(time.Second))
		s.advance(4999 * time.Millisecond)
		s.none()
		s.advance(time.Millisecond)
		if d := s.one(); d.Ref != first.Ref {
			t.Errorf("job %s leaves first after the hold", d.ID)
		}
	})
}

// TestTimeHeld: a job is told how long holds kept it waiting, and no longer than since it was admitted.
func TestTimeHeld(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 10, "1/1s", func(c *queue.Class) { c.CatchUp = 0 })
		admit(t, s.c, newJobs("c", "k", 2)...)
		s.settle(s.one(), queue.Held, asksFor(5*time.Second))
		s.advance(5 * time.Second)
		first := s.one()
		r := admit(t, s.c, newJob("c", "k", "late"))
		s.advance(time.Second)
		second := s.one()
		s.settle(second, queue.Held, asksFor(3*time.Second))
		s.advance(3 * time.Second)
		second = s.one()
		s.advance(time.Second)
		late := s.one()
		if first.Held != 4*time.Second || second.Held != 6*time.Second || late.Held != 2*time.Second || late.Ref != r[0].Ref {
			t.Errorf("held for %v, %v and %v; want 4s, 6s and 2s", first.Held, second.Held, late.Held)
		}
	})
}

// TestHeldTooLong: a job that may not wait for the end of a hold expires.
func TestHeldTooLong(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 10, "1/1s", func(c *queue.Class) { c.MaxWait, c.Retention = 3*time.Second, time.Hour })
		r := admit(t, s.c, newJobs("c", "k", 1)...)
		s.settle(s.one(), queue.Held, asksFor(5*time.Second))
		s.advance(5 * time.Second)
		s.none()
		if j := s.state(r[0].Ref); j.State != queue.Expired {
			t.Errorf("the job is %s, want expired", j.State)
		}
		s.audited()
	})
}

// TestHeldClass: a hold of the class closes all its buckets, in all shards, and nothing else; estimates know of it.
func TestHeldClass(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 10, "1/1s")
		put(t, s.c, "other", 10, "1/1s")
		admit(t, s.c, newJob("c", "a", "1"), newJob("c", "b", "2"))
		first := s.one()
		s.settle(first, queue.Held, asksFor(5*time.Second, wholeClass))
		must(t, s.c.Classes().HoldMore(t.Context(), "c", time.UnixMicro(s.now+1_000_000), "shorter"))
		s.none()
		if r := admit(t, s.c, newJob("other", "k", "1")); r[0].Wait != 0 {
			t.Errorf("another class waits %v", r[0].Wait)
		}
		s.settle(s.one(), queue.Done)
		if r := admit(t, s.c, newJob("c", "new", "1")); r[0].Wait != 5*time.Second {
			t.Errorf("the estimate is %v, want the hold's 5s", r[0].Wait)
		}
		s.advance(4999 * time.Millisecond)
		s.none()
		must(t, s.c.Classes().Unhold(t.Context(), "c"))
		if jobs := s.depart(10); len(jobs) != 3 {
			t.Errorf("%d jobs leave once the class is open, want 3", len(jobs))
		}
		s.audited()
	})
}

// TestOperatorsHoldOfAClass: an operator may shorten a hold.
func TestOperatorsHoldOfAClass(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 10, "1/1s")
		admit(t, s.c, newJobs("c", "k", 1)...)
		for _, d := range []time.Duration{time.Hour, time.Second} {
			must(t, s.c.Classes().Hold(t.Context(), "c", time.UnixMicro(s.now).Add(d), "a person"))
		}
		class, err := s.c.Classes().Get(t.Context(), "c")
		must(t, err)
		if class.HoldReason != "a person" || class.Hold.UnixMicro() != s.now+1_000_000 {
			t.Errorf("held until %v for %q", class.Hold, class.HoldReason)
		}
		s.none()
		s.advance(1500 * time.Millisecond)
		if d := s.one(); d.Due.UnixMicro() != s.now-500_000 || d.Held != time.Second {
			t.Errorf("due %v ago after %v of holds; want the end of the hold, half a second ago, after 1s", s.now-d.Due.UnixMicro(), d.Held)
		}
	})
}

// TestAdapt: a refusal for the rate lowers the rate of the bucket to 85 %, once for all that left before; then it rises
// with time, never above the class's.
func TestAdapt(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 1000, "10/1s", func(c *queue.Class) {
			c.Adapt.Min, c.CatchUp = queue.Rate{Limit: 5, Period: time.Second}, 0
		})
		admit(t, s.c, newJobs("c", "k", 1000)...)
		first := s.one()
		s.advance(100 * time.Millisecond)
		second := s.one()
		s.settle(first, queue.Held, asksFor(0, throttled))
		s.settle(second, queue.Held, asksFor(0, throttled)) // it left before the cut
		if got, want := s.interval(), 100.0/0.85; math.Abs(got-want) > 1 {
			t.Errorf("after one cut a departure every %.1f ms, want %.1f", got, want)
		}
		for range 20 {
			s.settle(s.next(), queue.Held, asksFor(0, throttled))
		}
		if got := s.interval(); math.Abs(got-200) > 2 {
			t.Errorf("after many cuts a departure every %.1f ms, want adapt.min's 200", got)
		}
		s.advance(25 * time.Second) // a thousand intervals, 100 s, take it from nothing to all
		if got, want := s.interval(), 100/0.75; math.Abs(got-want) > 2 {
			t.Errorf("25 s later a departure every %.1f ms, want %.1f", got, want)
		}
		s.advance(100 * time.Second)
		if got := s.interval(); math.Abs(got-100) > 1 {
			t.Errorf("at last a departure every %.1f ms, want the class's 100", got)
		}
		s.audited()
	})
}

// next waits for the next departure, to the millisecond.
func (s *shop) next() queue.Departure {
	s.t.Helper()
	for range 1000 {
		if jobs := s.depart(1); len(jobs) == 1 {
			return jobs[0]
		}
		s.advance(time.Millisecond)
	}
	s.t.Fatal("nothing departs")
	return queue.Departure{}
}

// interval measures the time between two departures of one bucket, in milliseconds.
func (s *shop) interval() float64 {
	s.t.Helper()
	s.settle(s.next(), queue.Done)
	from := s.now
	s.settle(s.next(), queue.Done)
	return float64(s.now-from) / 1000
}

// TestAdaptIsRemembered: an empty bucket keeps its cut until time has undone it, and then nothing of it is left.
func TestAdaptIsRemembered(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 10, "10/1s", func(c *queue.Class) { c.Adapt.Min = queue.Rate{Limit: 1, Period: time.Second} })
		admit(t, s.c, newJobs("c", "k", 1)...)
		s.settle(s.one(), queue.Held, asksFor(0, throttled))
		s.settle(s.next(), queue.Done)
		s.advance(10 * time.Second)
		d, err := s.outlet.Depart(t.Context(), queue.Ask{Want: 1})
		must(t, err)
		if d.Wait < 4*time.Second || d.Wait > 5*time.Second {
			t.Errorf("the worker shall come back in %v; 85 %% rise to all in 15 s, 10 of which are over", d.Wait)
		}
		s.advance(5 * time.Second)
		s.none()
		if n := rdb.Exists(t.Context(), "{spout:0}:bucket:c/k").Val(); n != 0 {
			t.Error("the bucket is remembered for ever")
		}
	})
}

// TestAdaptedIsShown: what a bucket is down to, what its service bore, and why it is held.
func TestAdaptedIsShown(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c := open(t, rdb, 1)
		put(t, c, "c", 10, "100/1s", func(c *queue.Class) { c.Adapt.Min = queue.Rate{Limit: 1, Period: time.Second} })
		admit(t, c, newJobs("c", "k", 1)...)
		outlet := c.Outlet("w", 0)
		d, err := outlet.Depart(t.Context(), queue.Ask{Want: 1})
		must(t, err)
		_, err = outlet.Settle(t.Context(), verdictsOf(d.Jobs, queue.Verdict{
			Outcome: queue.Held, Hold: time.Hour, Throttled: true, Error: "answered 429",
		}))
		must(t, err)
		b, err := c.Buckets().Get(t.Context(), "c", "k")
		must(t, err)
		if b.HoldReason != "answered 429" || time.Until(b.Hold) < 50*time.Minute {
			t.Errorf("held until %v for %q", b.Hold, b.HoldReason)
		}
		if b.Adapted == nil || b.Adapted.Now < 0.85 || b.Adapted.Now > 0.95 || b.Adapted.Sustained != 1 {
			t.Errorf("adapted %+v; want little above 0.85, with 1 borne", b.Adapted)
		}
	})
}

func TestAdaptValidate(t *testing.T) {
	t.Parallel()
	rate := func(n int64) queue.Rate { return queue.Rate{Limit: n, Period: time.Second} }
	for name, c := range map[string]struct {
		adapt queue.Adapt
		ok    bool
	}{
		"off":              {queue.Adapt{}, true},
		"min":              {queue.Adapt{Min: rate(1)}, true},
		"both":             {queue.Adapt{Min: rate(1), Max: rate(10)}, true},
		"max alone":        {queue.Adapt{Max: rate(5)}, false},
		"max above rate":   {queue.Adapt{Min: rate(1), Max: rate(11)}, false},
		"min above max":    {queue.Adapt{Min: rate(6), Max: rate(5)}, false},
		"min above rate":   {queue.Adapt{Min: rate(11)}, false},
		"min without time": {queue.Adapt{Min: queue.Rate{Limit: 1}}, false},
	} {
		class := queue.NewClass("c", 1, rate(10))
		class.Adapt = c.adapt
		if err := class.Validate(); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
