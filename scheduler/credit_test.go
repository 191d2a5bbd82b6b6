package scheduler_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

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
