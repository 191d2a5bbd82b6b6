package scheduler_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// settlements sees how many verdicts each call carries, and may keep calls from happening.
type settlements struct {
	mu    sync.Mutex
	sizes []int
	takes time.Duration
	away  atomic.Bool
}

func (s *settlements) call(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
	if !settlement(cmd) {
		return next(ctx, cmd)
	}
	if s.away.Load() {
		return errRefused
	}
	pause(s.takes)
	s.mu.Lock()
	s.sizes = append(s.sizes, (len(cmd.Args())-5)/5)
	s.mu.Unlock()
	return next(ctx, cmd)
}

// Verdicts are collected for as long as a call is under way, and only then.
func TestVerdictsTravelTogether(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const jobs = 200
		s, calls := miniSite(t), &settlements{takes: 50 * time.Millisecond}
		s.class(t, "a", time.Millisecond)
		release := make(chan struct{})
		s.work(t, 0, func(context.Context, *asynq.Task) error {
			<-release
			return nil
		}, scheduler.Options{Concurrency: jobs + 1}, onCall(calls.call))
		s.submit(t, "a/k", jobs+1)
		s.await(t, "a/k", jobs+1)
		close(release)
		pause(time.Second)
		checkTotals(t, s, queue.Books{Admitted: jobs + 1, Departed: jobs + 1, Done: jobs + 1})
		calls.mu.Lock()
		sum := 0
		for _, n := range calls.sizes {
			sum += n
		}
		if sum != jobs+1 || slices.Max(calls.sizes) != queue.SettleMost || len(calls.sizes) > 5 {
			t.Errorf("verdicts of %d attempts went in batches of %v", jobs+1, calls.sizes)
		}
		calls.takes, calls.sizes = 0, nil
		calls.mu.Unlock()

		s.submit(t, "a/k", 1)
		s.await(t, "a/k", jobs+2)
		synctest.Wait() // no time passes
		checkTotals(t, s, queue.Books{Admitted: jobs + 2, Departed: jobs + 2, Done: jobs + 2})
	})
}

// What Redis could not be told it is told later: a job whose handler returned does not run again.
func TestVerdictsAreKept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, calls := miniSite(t), &settlements{}
		s.class(t, "a", 100*time.Millisecond)
		w := s.work(t, 0, nil, scheduler.Options{}, onCall(calls.call))
		calls.away.Store(true)
		s.submit(t, "a/k", 100)
		pause(time.Minute)
		checkTotals(t, s, queue.Books{Admitted: 100, Departed: 100})
		calls.away.Store(false)
		pause(2 * time.Second)
		checkTotals(t, s, queue.Books{Admitted: 100, Departed: 100, Done: 100})
		if err := checkOrder(s.seen("a/k"), 100); err != nil {
			t.Error(err)
		}
		if len(w.log.lines("settle failed")) != 1 || len(w.log.lines("settle works again")) != 1 {
			t.Error("the outage was not logged once")
		}
	})
}

// A worker that cannot reach Redis when it stops gives up after a while, and says what is lost.
func TestStopWithoutRedis(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, o := miniSite(t), &outages{}
		s.class(t, "a", time.Second)
		w := s.work(t, 0, takes(time.Second), scheduler.Options{}, o)
		s.submit(t, "a/k", 1)
		s.await(t, "a/k", 1)
		go o.during(errRefused, time.Minute)
		pause(2 * time.Second)
		begun := time.Now()
		w.cancel()
		<-w.ended
		if took := time.Since(begun); took > 15*time.Second {
			t.Errorf("the stop took %v", took)
		}
		want := fmt.Sprintf("worker %s could not take its leave of shard 0; 1 verdicts are lost", w.Name())
		if w.err == nil || !strings.Contains(w.err.Error(), want) {
			t.Errorf("it ended with %v, want %q", w.err, want)
		}
		w.err = nil
		pause(time.Minute)
	})
}
