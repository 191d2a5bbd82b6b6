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
		others := []string{"b", "c", "d", "e", "f", "g", "h"}
		for _, class := range others {
			s.class(t, class, 100*time.Millisecond)
		}
		var calls atomic.Int64
		w := s.work(t, 0, nil, scheduler.Options{Classes: []string{"a"}}, counting(&calls))
		s.submit(t, "a/k", 20)
		s.await(t, "a/k", 20)
		pause(time.Minute)
		calls.Store(0)
		for _, class := range others {
			s.submit(t, class+"/k", 20)
			pause(100 * time.Millisecond)
		}
		if n := calls.Load(); n > 2 {
			t.Errorf("%d calls in less than a second in which only others had work", n)
		}
		pause(10 * time.Second)
		for _, class := range others {
			if books := s.books(t, class); books.Departed != 0 || books.Waiting() != 20 {
				t.Errorf("books of %s: %+v", class, books)
			}
		}
		w.stop(t)
		s.work(t, 1, nil, scheduler.Options{Classes: []string{"b", "c"}})
		s.await(t, "b/k", 20)
	})
}

// When the worker that moved something last does not call, another one takes over a few milliseconds after the next due.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const interval, jobs = 100 * time.Millisecond, 200
		s := miniSite(t)
		s.class(t, "a", interval)
		away := []*outages{{}, {}}
		for n, o := range away {
			s.work(t, n, nil, scheduler.Options{}, o)
		}
		s.submit(t, "a/k", jobs)
		for n := range 10 {
			away[n%2].during(errRefused, time.Second)
			pause(time.Second) // it comes back
		}
		s.await(t, "a/k", jobs)
		starts, by := s.seen("a/k"), map[int]int{}
		for i, start := range starts {
			by[start.worker]++
			if i > 0 && start.at.Sub(starts[i-1].at) > interval+6*time.Millisecond {
				t.Errorf("start %d came %v after the one before it", i, start.at.Sub(starts[i-1].at))
			}
		}
		if by[0] < jobs/4 || by[1] < jobs/4 {
			t.Errorf("the two workers started %v", by)
		}
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
