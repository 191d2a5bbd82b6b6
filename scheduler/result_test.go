package scheduler_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// writes is a handler that writes a result and then returns an error.
func writes(err error, results ...[]byte) asynq.HandlerFunc {
	return func(_ context.Context, task *asynq.Task) error {
		pause(100 * time.Millisecond)
		for _, result := range results {
			if _, err := task.ResultWriter().Write(result); err != nil {
				return err
			}
		}
		return err
	}
}

// What a handler wrote last reaches those who wait for the job's end, and is kept for the class's retention. One that fails
// leaves its error.
func TestResults(t *testing.T) {
	t.Parallel()
	large := bytes.Repeat([]byte("\x00\n\xff "), queue.ResultMost/4)
	for name, c := range map[string]struct {
		handle    asynq.HandlerFunc
		retention time.Duration
		want      queue.Ending
	}{
		"retained":     {writes(nil, []byte("first"), []byte("last")), time.Hour, queue.Ending{State: queue.Completed, Result: []byte("last")}},
		"not retained": {writes(nil, []byte("last")), 0, queue.Ending{State: queue.Completed, Result: []byte("last")}},
		"none":         {writes(nil), time.Hour, queue.Ending{State: queue.Completed}},
		"large":        {writes(nil, large), time.Hour, queue.Ending{State: queue.Completed, Result: large}},
		"too large": {
			writes(nil, append(bytes.Clone(large), "more"...)), time.Hour,
			queue.Ending{State: queue.Completed, Result: large},
		},
		"it fails": {
			writes(asynq.SkipRetry, []byte("half")), time.Hour,
			queue.Ending{State: queue.Kept, Error: asynq.SkipRetry.Error()},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := miniSite(t)
				s.class(t, "a", time.Second, func(class *queue.Class) { class.Retention = c.retention })
				ref := s.submitTyped(t, "a/k", "test", 1)[0].Ref
				awaited := make(chan queue.Ending, 1)
				go func() {
					ending, err := s.client.Await(t.Context(), ref)
					if err != nil {
						t.Errorf("await: %v", err)
					}
					awaited <- ending
				}()
				pause(time.Second)
				s.work(t, 0, c.handle, scheduler.Options{})
				compareEnding(t, <-awaited, c.want)
				pause(time.Second)
				ending, err := s.client.Await(t.Context(), ref)
				if c.retention == 0 {
					if !errors.Is(err, queue.ErrNotFound) {
						t.Errorf("await after the end: %+v, %v", ending, err)
					}
					return
				}
				mustDo(t, err)
				compareEnding(t, ending, c.want)
			})
		})
	}
}

func compareEnding(t *testing.T, got, want queue.Ending) {
	t.Helper()
	if got.State != want.State || got.Error != want.Error || !bytes.Equal(got.Result, want.Result) {
		t.Errorf("ended as %q, %q with %d bytes, want %q, %q with %d", got.State, got.Error, len(got.Result),
			want.State, want.Error, len(want.Result))
	}
	if ago := time.Since(got.At); ago < 0 || ago > 2*time.Second {
		t.Errorf("it ended %v ago", ago)
	}
}
