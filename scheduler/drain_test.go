package scheduler_test

import (
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// errRefused is what a client gets where nothing listens.
var errRefused = &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}

// A worker that serves some classes leaves the others alone, and does not look when they wake.
func TestClassesServed(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := miniSite(t)
		s.class(t, "a", 100*time.Millisecond)
		s.class(t, "b", 100*time.Millisecond)
		var calls atomic.Int64
		w := s.work(t, 0, nil, scheduler.Options{Classes: []string{"a"}}, counting(&calls))
		s.submit(t, "a/k", 20)
		s.await(t, "a/k", 20)
		pause(time.Minute)
		calls.Store(0)
		for range 20 {
			s.submit(t, "b/k", 1)
			pause(50 * time.Millisecond)
		}
		if n := calls.Load(); n > 3 {
			t.Errorf("%d calls in a second in which only others had work", n)
		}
		if n := len(s.seen("b/k")); n > 0 {
			t.Errorf("%d jobs of class b started", n)
		}
		if books := s.books(t, "b"); books.Departed != 0 || books.Waiting() != 20 {
			t.Errorf("books of b: %+v", books)
		}
		w.stop(t)
		s.work(t, 1, nil, scheduler.Options{Classes: []string{"b", "c"}})
		s.await(t, "b/k", 20)
	})
}

// counting counts calls for departures.
func counting(n *atomic.Int64) onCall {
	return func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		if _, ok := departure(cmd); ok {
			n.Add(1)
		}
		return next(ctx, cmd)
	}
}

// Nothing to do costs a call a second, for heartbeat and lost hints; a job that comes starts at once all the same.
func TestIdleWorker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := miniSite(t)
		s.class(t, "a", time.Second)
		var calls atomic.Int64
		s.work(t, 0, nil, scheduler.Options{}, counting(&calls))
		pause(time.Minute)
		if n := calls.Load(); n < 55 || n > 65 {
			t.Errorf("%d calls in an idle minute", n)
		}
		for i := range 3 {
			before := time.Now()
			s.submit(t, "a/k", 1)
			s.await(t, "a/k", i+1)
			// The worker that moved something last is the one to be on time.
			if late := time.Since(before); late > 6*time.Millisecond || i > 0 && late > 0 {
				t.Errorf("job %d started %v after it was submitted", i, late)
			}
			pause(10*time.Second + 333*time.Millisecond)
		}
	})
}

// A hint that comes while a call is under way counts: that call may have been too early to see what it is about.
func TestWakeDuringCall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := miniSite(t)
		s.class(t, "a", time.Second)
		executed := make(chan struct{})
		s.work(t, 0, nil, scheduler.Options{}, onCall(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			err := next(ctx, cmd)
			if _, ok := departure(cmd); ok {
				select {
				case executed <- struct{}{}:
				default:
				}
				pause(10 * time.Millisecond)
			}
			return err
		}))
		pause(10 * time.Second)
		for i := range 5 {
			<-executed
			before := time.Now()
			s.submit(t, "a/k", 1)
			s.await(t, "a/k", i+1)
			if late := time.Since(before); late > 40*time.Millisecond {
				t.Errorf("job %d started %v after it was submitted", i, late)
			}
			pause(3 * time.Second)
		}
	})
}

// A worker whose slots are all taken calls when one is free, and does not fall into a frenzy when that call fails.
func TestFailuresWhileSlotsAreTaken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := miniSite(t)
		s.class(t, "a", 10*time.Millisecond)
		var away atomic.Bool
		var failures atomic.Int64
		w := s.work(t, 0, takes(time.Second), scheduler.Options{Concurrency: 2},
			onCall(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
				if _, ok := departure(cmd); ok && away.Load() {
					failures.Add(1)
					pause(time.Millisecond)
					return errRefused
				}
				return next(ctx, cmd)
			}))
		s.submit(t, "a/k", 100)
		pause(5*time.Second + 500*time.Millisecond)
		away.Store(true)
		pause(10 * time.Second)
		away.Store(false)
		if n := failures.Load(); n < 5 || n > 30 {
			t.Errorf("%d failed calls in ten seconds", n)
		}
		if len(w.log.lines("departures failed")) != 1 {
			t.Error("the failure was not logged once")
		}
		pause(5 * time.Second)
		if len(w.log.lines("departures work again")) != 1 {
			t.Error("the recovery was not logged once")
		}
		s.await(t, "a/k", 100)
		if err := checkOrder(s.seen("a/k"), 100); err != nil {
			t.Error(err)
		}
	})
}

// takes is a handler that takes its time.
func takes(d time.Duration) asynq.HandlerFunc {
	return func(context.Context, *asynq.Task) error {
		pause(d)
		return nil
	}
}

// Never more attempts at once than slots, over all shards; and slots that come free are used at once.
func TestSlots(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const slots, buckets, jobs = 3, 10, 6
		s := newSite(t, redisWithoutTTL(t), 4)
		s.class(t, "a", time.Millisecond)
		var mu sync.Mutex
		running, most := 0, 0
		s.work(t, 0, func(context.Context, *asynq.Task) error {
			mu.Lock()
			running++
			most = max(most, running)
			mu.Unlock()
			pause(time.Second)
			mu.Lock()
			running--
			mu.Unlock()
			return nil
		}, scheduler.Options{Concurrency: slots})
		begun := time.Now()
		for i := range buckets {
			s.submit(t, fmt.Sprintf("a/%d", i), jobs)
		}
		for i := range buckets {
			s.await(t, fmt.Sprintf("a/%d", i), jobs)
		}
		took := time.Since(begun)
		pause(2 * time.Second) // until they return
		mu.Lock()
		defer mu.Unlock()
		if most != slots || running != 0 {
			t.Errorf("%d attempts at once with %d slots, %d in the end", most, slots, running)
		}
		if least := buckets * jobs / slots * time.Second; took > least+least/10 {
			t.Errorf("took %v, with all slots in use it takes %v", took, least)
		}
		if books := s.books(t, "a"); books.Departed != buckets*jobs {
			t.Errorf("departures that did not start: %+v", books)
		}
	})
}

// No credit builds up while nothing drains a bucket: no workers, no Redis, a Redis that hangs, a bucket or class paused.
func TestNoCreditForLostTime(t *testing.T) {
	t.Parallel()
	const outage = time.Minute
	for name, during := range map[string]func(*testing.T, *site, *outages, *worker){
		"no worker": func(t *testing.T, s *site, _ *outages, w *worker) {
			t.Helper()
			w.stop(t)
			pause(outage)
			s.work(t, 1, nil, scheduler.Options{})
		},
		"no redis": func(_ *testing.T, _ *site, o *outages, _ *worker) { o.during(errRefused, outage) },
		"hanging redis": func(_ *testing.T, _ *site, o *outages, _ *worker) {
			o.during(nil, outage)
		},
		"paused class": func(t *testing.T, s *site, _ *outages, _ *worker) {
			t.Helper()
			mustDo(t, s.client.Classes().Pause(t.Context(), "a"))
			pause(outage)
			mustDo(t, s.client.Classes().Resume(t.Context(), "a"))
		},
		"paused buckets": func(t *testing.T, s *site, _ *outages, _ *worker) {
			t.Helper()
			mustDo(t, s.client.Buckets().Pause(t.Context(), "a", "slow"), s.client.Buckets().Pause(t.Context(), "a", "other"))
			pause(outage)
			mustDo(t, s.client.Buckets().Resume(t.Context(), "a", "slow"), s.client.Buckets().Resume(t.Context(), "a", "other"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, o := miniSite(t), &outages{}
				s.class(t, "a", 700*time.Millisecond)
				w := s.work(t, 0, nil, scheduler.Options{}, o)
				begun := time.Now()
				s.submit(t, "a/slow", 100)
				s.submit(t, "a/other", 100)
				pause(20 * time.Second)
				during(t, s, o, w)
				checkGap(t, s, begun.Add(20*time.Second), outage)
			})
		})
	}
}

// outages make a Redis unreachable.
type outages struct {
	mu   sync.Mutex
	err  error
	over chan struct{} // not nil while it lasts
}

func (o *outages) during(err error, d time.Duration) {
	o.mu.Lock()
	o.err, o.over = err, make(chan struct{})
	o.mu.Unlock()
	pause(d)
	o.mu.Lock()
	close(o.over)
	o.over = nil
	o.mu.Unlock()
}

// DialHook implements redis.Hook.
func (o *outages) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (o *outages) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook implements redis.Hook.
func (o *outages) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		o.mu.Lock()
		err, over := o.err, o.over
		o.mu.Unlock()
		if over == nil {
			return next(ctx, cmd)
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-over:
			return next(ctx, cmd)
		}
	}
}

func mustDo(tb testing.TB, errs ...error) {
	tb.Helper()
	for _, err := range errs {
		if err != nil {
			tb.Fatal(err)
		}
	}
}

// checkGap checks two buckets of class a around an outage at from.
func checkGap(t *testing.T, s *site, from time.Time, outage time.Duration) {
	t.Helper()
	interval := queue.Rate{Limit: 1, Period: 700 * time.Millisecond}.Interval()
	resumed := from.Add(outage)
	for _, bucket := range []string{"a/slow", "a/other"} {
		s.await(t, bucket, 100)
		starts := s.seen(bucket)
		if err := checkOrder(starts, 100); err != nil {
			t.Errorf("%s: %v", bucket, err)
		}
		if err := checkPace(timesOf(starts), interval, catchUp+freshness); err != nil {
			t.Errorf("%s: %v", bucket, err)
		}
		during, soon := 0, 0
		for _, start := range starts {
			switch after := start.at.Sub(resumed); {
			case start.at.After(from.Add(freshness)) && after < 0:
				during++
			case after >= 0 && after <= 10*interval:
				soon++
			}
		}
		if during > 0 {
			t.Errorf("%s: %d starts during the %v", bucket, during, outage)
		}
		if soon < 9 || soon > 11 { // resuming takes up to a second
			t.Errorf("%s: %d starts in the ten intervals after it", bucket, soon)
		}
	}
	if books := s.books(t, "a"); books.Done != 200 || books.Waiting() != 0 {
		t.Errorf("books: %+v", books)
	}
}
