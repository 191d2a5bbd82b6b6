package scheduler_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// Who listens hears what becomes of the jobs that workers have.
func TestWorkersTellOfJobs(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		s := newSite(t, rdb, 2)
		s.class(t, "c", time.Millisecond, func(c *queue.Class) {
			c.Retry.MaxAttempts, c.Retry.Backoff, c.Retry.MaxBackoff = 2, time.Millisecond, 2*time.Millisecond
		})
		handler := func(_ context.Context, task *asynq.Task) error {
			if task.Headers()["Spout-Key"] == "bad" {
				return errors.New("it was no use")
			}
			return nil
		}
		s.work(t, 0, handler, scheduler.Options{Freshness: time.Second})
		var mu sync.Mutex
		heard := map[string][]string{}
		var failed queue.Event
		listening := make(chan struct{})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			_ = s.client.Overhear(ctx, queue.Ear{
				Heard: func(e queue.Event) {
					mu.Lock()
					defer mu.Unlock()
					heard[e.Key] = append(heard[e.Key], e.What)
					if e.What == "failed" {
						failed = e
					}
				},
				Missed:    func(class string, n int) { t.Errorf("missed %d of %q", n, class) },
				Listening: sync.OnceFunc(func() { close(listening) }),
			})
		}()
		<-listening
		eventually(t, "all is told", func() bool { // the worker may begin to listen after us
			s.submit(t, "c/good", 1)
			s.submit(t, "c/bad", 1)
			mu.Lock()
			defer mu.Unlock()
			return slices.Contains(heard["good"], "done") && slices.Contains(heard["bad"], "dead")
		})
		stop()
		<-ended
		for _, want := range []struct{ key, what string }{{"good", "started"}, {"good", "done"}, {"bad", "started"}, {"bad", "failed"}, {"bad", "dead"}} {
			if !slices.Contains(heard[want.key], want.what) {
				t.Errorf("of %s was told %v, not %s", want.key, heard[want.key], want.what)
			}
		}
		if slices.Contains(heard["good"], "failed") || slices.Contains(heard["bad"], "done") {
			t.Errorf("was told %v", heard)
		}
		if failed.Class != "c" || failed.Error != "it was no use" || failed.Attempt < 1 || failed.Ref == "" || time.Since(failed.At) > patience {
			t.Errorf("the failure is %+v", failed)
		}
	})
}
