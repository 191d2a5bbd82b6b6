package scheduler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// upstream is a service with a limit, as many calls in any window, that refuses what is more.
type upstream struct {
	limit  int
	window time.Duration
	random *rand.Rand    // when not nil it refuses at random, one in thirty, instead of by its limit,
	asks   time.Duration // and for how long a caller shall stay away then
	class  bool          // it asks the whole class to

	mu      sync.Mutex
	served  []time.Time
	refused []time.Time
	closed  []span // times in which nobody was to call
	early   int    // calls in those
}

type span struct{ from, to time.Time }

// refusal is the error of a refused call.
type refusal struct {
	after time.Duration
	class bool
}

func (r *refusal) Error() string               { return fmt.Sprintf("answered 429, retry after %v", r.after) }
func (r *refusal) Hold() (time.Duration, bool) { return r.after, r.class }
func (r *refusal) Throttled() bool             { return true }

func (u *upstream) call(context.Context, *asynq.Task) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	now := time.Now()
	if n := len(u.closed); n > 0 && now.After(u.closed[n-1].from) && now.Before(u.closed[n-1].to) {
		u.early++
	}
	var wait time.Duration
	switch {
	case u.random == nil:
		wait = u.full(now)
	case u.random.IntN(30) == 0:
		wait = u.asks
	}
	if wait <= 0 {
		u.served = append(u.served, now)
		return nil
	}
	u.refused = append(u.refused, now)
	u.closed = append(u.closed, span{now, now.Add(wait)})
	return &refusal{wait, u.class}
}

// full is how long there is no room in the window (now - window, now], 0 when there is.
func (u *upstream) full(now time.Time) time.Duration {
	n := len(u.served) - u.limit
	if n < 0 {
		return 0
	}
	return max(0, u.window-now.Sub(u.served[n]))
}

// Ten minutes at 95 % of a strict limit: nothing is refused.
func TestBelowTheLimitNothingIsRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const jobs = 2850
		s, u := newSite(t, redisWithoutTTL(t), 1), &upstream{limit: 5, window: time.Second}
		s.class(t, "a", 0, func(c *queue.Class) { c.Rate = queue.Rate{Limit: 19, Period: 4 * time.Second} })
		for n := range 2 {
			s.work(t, n, u.call, scheduler.Options{}, jittery(uint64(n)))
		}
		s.submit(t, "a/k", jobs)
		began := time.Now()
		s.await(t, "a/k", jobs)
		if took := time.Since(began); took > 605*time.Second {
			t.Errorf("%d jobs took %v, want 10m", jobs, took)
		}
		if len(u.refused) > 0 {
			t.Errorf("%d calls were refused", len(u.refused))
		}
	})
}

// A service that now and then asks to be left alone for 5 s is, by all keys if it says so, and called again at the full rate
// within an interval.
func TestHoldsAreKept(t *testing.T) {
	t.Parallel()
	for name, class := range map[string]bool{"bucket": false, "class": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const jobs, interval = 300, 100 * time.Millisecond
				s := newSite(t, redisWithoutTTL(t), 2)
				u := &upstream{asks: 5 * time.Second, random: rand.New(rand.NewPCG(1, 2)), class: class}
				s.class(t, "a", interval, func(c *queue.Class) { c.Retry.MaxAttempts = 1 })
				for n := range 2 {
					s.work(t, n, u.call, scheduler.Options{}, jittery(uint64(n)))
				}
				keys := []string{"a/k"}
				if class {
					keys = append(keys, "a/l", "a/m")
				}
				for _, key := range keys {
					s.submit(t, key, jobs)
				}
				for _, key := range keys {
					s.awaitServed(t, u, len(keys)*jobs)
					if err := checkPace(timesOf(s.seen(key)), interval, catchUp+freshness); err != nil {
						t.Errorf("%s: %v", key, err)
					}
				}
				if len(u.closed) < 5 {
					t.Fatalf("only %d refusals", len(u.closed))
				}
				if u.early > allowedEarly(class) {
					t.Errorf("%d calls came before their time", u.early)
				}
				if !class {
					checkReturn(t, u, interval)
				}
				checkAudit(t, s, "a")
			})
		})
	}
}

// allowedEarly: calls of other buckets that were under way when one heard of the hold of the class.
func allowedEarly(class bool) int {
	if class {
		return 20
	}
	return 0
}

// checkReturn checks that after each hold the first call comes within an interval, and the following ones at the full rate.
func checkReturn(t *testing.T, u *upstream, interval time.Duration) {
	t.Helper()
	for _, c := range u.closed {
		n := 0
		for _, at := range u.served {
			if at.After(c.to) && at.Before(c.to.Add(10*interval)) {
				n++
			}
		}
		for _, d := range u.closed {
			if d.from.After(c.from) && d.from.Before(c.to.Add(10*interval)) {
				n = 10 // another hold
			}
		}
		if last := u.served[len(u.served)-1]; n < 9 && last.After(c.to.Add(10*interval)) {
			t.Errorf("in the ten intervals after the hold until %v there were %d calls", c.to, n)
		}
	}
}

// awaitServed waits until n calls have been served.
func (s *site) awaitServed(t *testing.T, u *upstream, n int) {
	t.Helper()
	for range 3_000 {
		u.mu.Lock()
		have := len(u.served)
		u.mu.Unlock()
		if have >= n {
			pause(time.Second)
			return
		}
		pause(100 * time.Millisecond)
	}
	t.Fatalf("%d of %d calls were served, %d refused, %d starts", len(u.served), n, len(u.refused), s.began.Load())
}

// A class that asks for more than its service bears settles close below what it does, and says what that is.
func TestAdaptsToTheUpstream(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, u := newSite(t, redisWithoutTTL(t), 1), &upstream{limit: 38, window: 10 * time.Second} // 3.8 a second
		s.class(t, "a", 200*time.Millisecond, func(c *queue.Class) {
			c.Adapt.Min = queue.Rate{Limit: 1, Period: time.Second}
		})
		s.work(t, 0, u.call, scheduler.Options{})
		s.submit(t, "a/k", 2600)
		pause(3 * time.Minute)
		u.mu.Lock()
		settled, before := len(u.served), len(u.refused)
		u.mu.Unlock()
		const minutes = 6
		pause(minutes * time.Minute)
		u.mu.Lock()
		served, refused := len(u.served)-settled, len(u.refused)-before
		u.mu.Unlock()
		b, err := s.client.Buckets().Get(t.Context(), "a", "k")
		if err != nil || b.Adapted == nil {
			t.Fatalf("%+v, %v; want a bucket that has adapted", b, err)
		}
		perSecond, sustained := float64(served)/(minutes*60), 5*b.Adapted.Sustained
		t.Logf("%.2f/s served, %d refused in %d minutes; sustained %.2f/s of 3.8", perSecond, refused, minutes, sustained)
		if perSecond < 3.2 || sustained < 3.4 || sustained > 4.2 {
			t.Errorf("%.2f/s served, sustained %.2f/s; the upstream bears 3.8", perSecond, sustained)
		}
		if refused > served/50 {
			t.Errorf("%d of %d calls were refused", refused, served+refused)
		}
		if err := checkPace(timesOf(s.seen("a/k")), 200*time.Millisecond, catchUp+freshness); err != nil {
			t.Errorf("above the class's rate: %v", err)
		}
	})
}
