package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// A running job that is cancelled ends: its context says so, and what its handler does then decides.
func TestCancelRunning(t *testing.T) {
	t.Parallel()
	const settled = time.Second + 100*time.Millisecond // a grace, and a call
	for name, c := range map[string]struct {
		after func() error // what the handler does when its context has ended
		by    time.Duration
		books queue.Books
		error string
	}{
		"it heeds": {
			after: func() error { return errors.New("rpc error: code = Canceled") },
			by:    100 * time.Millisecond, books: queue.Books{CancelledOut: 1},
			error: "the job was cancelled: rpc error: code = Canceled",
		},
		"it cleans up": {
			after: func() error {
				pause(500 * time.Millisecond)
				return asynq.SkipRetry
			},
			by: 600 * time.Millisecond, books: queue.Books{CancelledOut: 1},
			error: "the job was cancelled",
		},
		"it succeeds": {after: func() error { return nil }, by: 100 * time.Millisecond, books: queue.Books{Done: 1}},
		"it ignores it": {
			after: func() error {
				pause(10 * time.Second)
				return errNotYet
			},
			by: settled, books: queue.Books{CancelledOut: 1},
			error: "cancelled; the handler had not returned 1s later",
		},
		"it panics": {
			after: func() error { panic("boom") },
			by:    100 * time.Millisecond, books: queue.Books{CancelledOut: 1}, error: "panic: boom",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, redisWithoutTTL(t), 1)
				s.class(t, "a", time.Second, func(c *queue.Class) { c.Retention = time.Hour })
				w := s.work(t, 0, func(ctx context.Context, task *asynq.Task) error {
					if string(task.Payload()) != "0" {
						return nil
					}
					<-ctx.Done()
					return c.after()
				}, scheduler.Options{})
				ref := s.submitTyped(t, "a/k", "test", 3)[0].Ref
				pause(300 * time.Millisecond)
				if state, err := s.client.Cancel(t.Context(), ref); err != nil || state != queue.Out {
					t.Fatalf("cancel: %q, %v", state, err)
				}
				pause(c.by)
				want := c.books
				want.Admitted, want.Departed = 3, 1
				if c.by > 700*time.Millisecond { // the next one left meanwhile
					want.Departed++
					want.Done++
				}
				checkTotals(t, s, want)
				pause(time.Minute)
				checkCancelled(t, s, ref, w, c.books, c.error)
			})
		})
	}
}

// checkCancelled checks what is left of the first of three jobs.
func checkCancelled(t *testing.T, s *site, ref string, w *worker, want queue.Books, text string) {
	t.Helper()
	want.Admitted, want.Departed, want.Done = 3, 3, want.Done+2
	checkTotals(t, s, want)
	checkAudit(t, s, "a")
	if got := fmt.Sprint(s.numbers("a/k")); got != "[0 1 2]" {
		t.Errorf("started: %s", got)
	}
	job, err := s.client.Job(t.Context(), ref)
	if err != nil || len(job.History) != 1 {
		t.Fatalf("job: %+v, %v", job, err)
	}
	state := queue.Cancelled
	if text == "" {
		state = queue.Completed
	}
	if a := job.History[0]; job.State != state || a.Error != text || a.Worker != w.Name() {
		t.Errorf("job: %+v", job)
	}
}

// A job that fails after it was cancelled on a worker that has not heard of it does not come back.
func TestCancelUnheard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, f := newSite(t, redisWithoutTTL(t), 1), &fate{}
		s.class(t, "a", time.Second, func(c *queue.Class) { c.Retention = time.Hour })
		s.work(t, 0, func(context.Context, *asynq.Task) error {
			pause(2 * time.Second)
			return errNotYet
		}, scheduler.Options{}, f)
		ref := s.submitTyped(t, "a/k", "test", 1)[0].Ref
		pause(time.Second)
		f.freeze()
		_, err := s.client.Cancel(t.Context(), ref)
		mustDo(t, err)
		pause(2 * time.Second)
		f.melt()
		pause(time.Minute)
		checkTotals(t, s, queue.Books{Admitted: 1, Departed: 1, CancelledOut: 1})
		if job, err := s.client.Job(t.Context(), ref); err != nil || job.State != queue.Cancelled {
			t.Errorf("job: %+v, %v", job, err)
		}
		checkAudit(t, s, "a")
	})
}
