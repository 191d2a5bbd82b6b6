package scheduler_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// back is an error with which a handler gives its attempt back.
type back bool

func (back) Error() string    { return "connection not ready in time" }
func (b back) GiveBack() bool { return bool(b) }

// Whatever a handler does, its job gets one verdict: done, dead and kept with its error, or back in its bucket.
func TestVerdicts(t *testing.T) {
	t.Parallel()
	const timeout = 2 * time.Second
	returns := func(err error) asynq.HandlerFunc {
		return func(context.Context, *asynq.Task) error { return err }
	}
	for name, c := range map[string]struct {
		handle asynq.HandlerFunc
		dead   string        // the error it is kept with; empty for done
		after  time.Duration // from start to verdict
	}{
		"ok":           {handle: returns(nil)},
		"error":        {handle: returns(errors.New("no such order")), dead: "no such order"},
		"no give-back": {handle: returns(back(false)), dead: "connection not ready in time"},
		"unknown type": {
			handle: returns(fmt.Errorf("no handler for type %q: %w", "test", asynq.SkipRetry)),
			dead:   `no handler for type "test"`,
		},
		"panic":       {handle: func(context.Context, *asynq.Task) error { panic("boom") }, dead: "panic: boom"},
		"in time":     {handle: takes(timeout - time.Millisecond), after: timeout - time.Millisecond},
		"late and ok": {handle: takes(timeout + time.Millisecond), after: timeout + time.Millisecond},
		"timeout": {
			handle: func(ctx context.Context, _ *asynq.Task) error {
				<-ctx.Done()
				return fmt.Errorf("call: %w", ctx.Err())
			},
			dead: "timed out after 2s: call: context deadline exceeded", after: timeout,
		},
		"deaf": {
			handle: takes(10 * time.Second),
			dead:   "timed out after 2s and ignored it: the handler had not returned 1s later", after: timeout + time.Second,
		},
		"long error": {handle: returns(errors.New(strings.Repeat("ü", 5000))), dead: strings.Repeat("ü", 2048)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := miniSite(t)
				s.class(t, "a", time.Millisecond, func(c *queue.Class) {
					c.Timeout, c.Retry.MaxAttempts = timeout, 1
				})
				s.work(t, 0, c.handle, scheduler.Options{})
				ref := s.submitTyped(t, "a/k", "test", 1)[0].Ref
				s.await(t, "a/k", 1)
				pause(c.after - time.Microsecond)
				if c.after > 0 {
					checkTotals(t, s, queue.Books{Admitted: 1, Departed: 1})
				}
				pause(10 * time.Millisecond)
				job, err := s.client.Job(t.Context(), ref)
				if c.dead == "" {
					if !errors.Is(err, queue.ErrNotFound) {
						t.Errorf("a job that is done: %+v, %v", job, err)
					}
					checkTotals(t, s, queue.Books{Admitted: 1, Departed: 1, Done: 1})
					return
				}
				checkTotals(t, s, queue.Books{Admitted: 1, Departed: 1, Dead: 1})
				dead, err := s.client.Jobs(t.Context(), "a", "", true, 10)
				if err != nil || len(dead) != 1 {
					t.Fatalf("dead: %v, %v", dead, err)
				}
				want := queue.JobState{
					Ref: ref, Class: "a", Key: "k", Type: "test", State: queue.Kept, Payload: json.RawMessage("0"),
					Attempts: 1, Error: c.dead, History: []queue.Attempt{{Number: 1, Outcome: "failed", Error: c.dead}},
				}
				ignore := cmp.Options{
					cmpopts.IgnoreFields(queue.JobState{}, "ID", "AdmittedAt", "EstimatedStart", "EndedAt"),
					cmpopts.IgnoreFields(queue.Attempt{}, "Departed", "Due", "Started", "Ended", "Worker"),
				}
				if diff := cmp.Diff(want, dead[0], ignore); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// A deaf handler keeps its slot until it returns, so that there are never more at work than slots, and what it says then
// counts no more.
func TestDeafHandlerKeepsItsSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := miniSite(t)
		s.class(t, "a", time.Second, func(c *queue.Class) { c.Timeout, c.Retry.MaxAttempts = time.Second, 1 })
		release := make(chan struct{})
		w := s.work(t, 0, func(_ context.Context, task *asynq.Task) error {
			if task.Headers()["Spout-Key"] == "deaf" {
				<-release
			}
			return nil
		}, scheduler.Options{Concurrency: 1})
		s.submit(t, "a/deaf", 1)
		s.await(t, "a/deaf", 1)
		s.submit(t, "a/other", 1)
		pause(time.Minute)
		checkTotals(t, s, queue.Books{Admitted: 2, Departed: 1, Dead: 1})
		if n := len(s.seen("a/other")); n > 0 {
			t.Error("another job took its slot")
		}
		close(release)
		s.await(t, "a/other", 1)
		pause(time.Millisecond)
		checkTotals(t, s, queue.Books{Admitted: 2, Departed: 2, Dead: 1, Done: 1})
		if lines := w.log.lines("level=WARN"); len(lines) != 1 || !strings.Contains(lines[0], "handler ignores the end") {
			t.Errorf("logged %q", lines)
		}
	})
}

// A handler may give its attempt back, when its departure is no longer good: the job departs again, at its bucket's pace
// and before those behind it. How long it is good it can ask, but not for ever.
func TestGiveBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const times = 5
		s := miniSite(t)
		s.class(t, "a", time.Second)
		var left []time.Duration // -1 for no answer
		s.work(t, 0, func(ctx context.Context, task *asynq.Task) error {
			if string(task.Payload()) != "0" {
				return nil
			}
			until, ok := scheduler.FreshUntil(ctx)
			if !ok {
				left = append(left, -1)
			} else {
				left = append(left, time.Until(until))
				pause(time.Until(until))
			}
			if len(left) <= times {
				return fmt.Errorf("call: %w", back(true))
			}
			return nil
		}, scheduler.Options{Freshness: 100 * time.Millisecond})
		s.submit(t, "a/k", 3)
		s.await(t, "a/k", times+3)
		if diff := cmp.Diff([]int{0, 0, 0, 0, 0, 0, 1, 2}, s.numbers("a/k")); diff != "" {
			t.Error(diff)
		}
		if err := checkPace(timesOf(s.seen("a/k")), time.Second, catchUp+100*time.Millisecond); err != nil {
			t.Error(err)
		}
		const G = 100 * time.Millisecond
		if diff := cmp.Diff([]time.Duration{G, G, G, -1, -1, -1}, left); diff != "" {
			t.Errorf("time that was left: %s", diff)
		}
		pause(time.Millisecond)
		checkTotals(t, s, queue.Books{
			Admitted: 3, Departed: times + 3, Returned: times, Stale: times, Done: 3,
		})
	})
	if _, ok := scheduler.FreshUntil(t.Context()); ok {
		t.Error("there is a departure outside of a handler")
	}
}

// What a handler sees.
func TestWhatHandlersSee(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type sight struct {
			TaskID, WriterID, Type, Payload string
			Headers                         map[string]string
			Left                            time.Duration
		}
		s := miniSite(t)
		s.class(t, "plain", time.Second, func(c *queue.Class) { c.Timeout = time.Hour })
		s.class(t, "open", time.Second, func(c *queue.Class) {
			c.Timeout = time.Minute
			c.HTTP = queue.HTTP{AllowPrivate: true, Hosts: []string{"localhost"}}
		})
		seen := make(chan sight, 1)
		s.work(t, 0, func(ctx context.Context, task *asynq.Task) error {
			id, _ := asynq.GetTaskID(ctx)
			deadline, _ := ctx.Deadline()
			if _, err := task.ResultWriter().Write([]byte("written")); err != nil {
				t.Errorf("write a result: %v", err)
			}
			seen <- sight{id, task.ResultWriter().TaskID(), task.Type(), string(task.Payload()), task.Headers(), time.Until(deadline)}
			return nil
		}, scheduler.Options{})
		for class, want := range map[string]sight{
			"plain": {Left: time.Hour, Headers: map[string]string{}},
			"open":  {Left: time.Minute, Headers: map[string]string{"Spout-Http": `{"allow_private":true,"hosts":["localhost"]}`}},
		} {
			receipt, err := s.client.Submit(t.Context(), queue.Job{
				Class: class, Key: "日本/ x", ID: "id 1", Type: "mail:send", Payload: []byte(` {"to" : "ann"} `),
			})
			if err != nil {
				t.Fatal(err)
			}
			got := <-seen
			want.Type, want.Payload = "mail:send", `{"to":"ann"}`
			want.TaskID, want.WriterID = got.TaskID, got.TaskID
			for name, value := range map[string]string{
				"Class": class, "Key": "日本/ x", "Id": "id 1", "Ref": receipt.Ref, "Attempt": "1",
				"Due": receipt.EstimatedStart.Format(queue.TimeFormat),
			} {
				want.Headers["Spout-"+name] = value
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if ref, stamp, _ := strings.Cut(got.TaskID, ":"); ref != receipt.Ref || len(stamp) < 15 {
				t.Errorf("task id %q of %s", got.TaskID, receipt.Ref)
			}
		}
	})
}
