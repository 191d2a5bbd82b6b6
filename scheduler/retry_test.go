package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

var errNotYet = errors.New("not yet")

// failing is a handler whose attempts fail up to the n-th.
func failing(n int) asynq.HandlerFunc {
	return func(_ context.Context, task *asynq.Task) error {
		if try, _ := strconv.Atoi(task.Headers()["Spout-Attempt"]); try <= n {
			return errNotYet
		}
		return nil
	}
}

// Jobs that fail twice each, on a network with delays: every attempt keeps its bucket's pace, whatever the order.
func TestRetries(t *testing.T) {
	t.Parallel()
	const interval, jobs, buckets = 200 * time.Millisecond, 40, 5
	for order, check := range map[queue.Order]func([]start) error{
		queue.Park: firstInOrder,
		queue.Tail: firstInOrder,
		queue.Hold: allInOrder,
	} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, redisWithoutTTL(t), 1)
				s.class(t, "a", interval, func(c *queue.Class) {
					c.Retry.Order, c.Retry.Backoff, c.Retry.MaxBackoff = order, 500*time.Millisecond, 3*time.Second
				})
				for n := range 2 {
					s.work(t, n, failing(2), scheduler.Options{}, jittery(uint64(n)))
				}
				for key := range buckets {
					s.submit(t, fmt.Sprintf("a/%d", key), jobs)
				}
				for key := range buckets {
					bucket := fmt.Sprintf("a/%d", key)
					s.await(t, bucket, 3*jobs)
					starts := s.seen(bucket)
					for _, err := range []error{
						check(starts), everyAttempt(starts, jobs, 3), checkPace(timesOf(starts), interval, catchUp+freshness),
					} {
						if err != nil {
							t.Errorf("%s: %v", bucket, err)
						}
					}
				}
				pause(time.Second)
				const total = jobs * buckets
				checkTotals(t, s, queue.Books{
					Admitted: total, Departed: 3 * total, Returned: 2 * total, Retried: 2 * total, Done: total,
				})
				checkAudit(t, s, "a")
			})
		})
	}
}

// firstInOrder checks that the first attempts came in order of admission.
func firstInOrder(starts []start) error {
	var first []start
	for _, s := range starts {
		if s.try == 1 {
			first = append(first, s)
		}
	}
	return checkOrder(first, len(first))
}

// allInOrder checks that nothing started before what stood before it was final.
func allInOrder(starts []start) error {
	if !slices.IsSortedFunc(starts, func(a, b start) int { return a.n - b.n }) {
		return fmt.Errorf("started in the order %v", starts)
	}
	return nil
}

// everyAttempt checks that each job started once for each of its attempts, which count from 1.
func everyAttempt(starts []start, jobs, attempts int) error {
	tries := make([]int, jobs)
	for _, s := range starts {
		tries[s.n]++
		if s.try != tries[s.n] {
			return fmt.Errorf("start %d of job %d says it is attempt %d", tries[s.n], s.n, s.try)
		}
	}
	for n, tries := range tries {
		if tries != attempts {
			return fmt.Errorf("job %d had %d attempts, want %d", n, tries, attempts)
		}
	}
	return nil
}

// checkAudit checks law 5.
func checkAudit(t *testing.T, s *site, class string) {
	t.Helper()
	accounts, err := s.client.Audit(t.Context(), class)
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range accounts {
		if len(a.Off) > 0 {
			t.Errorf("the books of %s do not balance: %q in %+v", class, a.Off, a)
		}
	}
}

// later is an error that says when to try again.
type later time.Duration

func (later) Error() string               { return "slow down" }
func (l later) RetryAfter() time.Duration { return time.Duration(l) }

// A failure may say when the next attempt is worth it, and then neither the class's backoff nor its largest counts.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := miniSite(t)
		s.class(t, "a", 100*time.Millisecond, func(c *queue.Class) { c.Retry.Backoff, c.Retry.MaxBackoff = time.Hour, 2*time.Hour })
		waits := []time.Duration{10 * time.Minute, 0, 700 * time.Millisecond, -time.Minute}
		s.work(t, 0, func(_ context.Context, task *asynq.Task) error {
			if try, _ := strconv.Atoi(task.Headers()["Spout-Attempt"]); try <= len(waits) {
				return fmt.Errorf("call: %w", later(waits[try-1]))
			}
			return nil
		}, scheduler.Options{})
		s.submit(t, "a/k", 1)
		s.await(t, "a/k", len(waits)+1)
		starts := s.seen("a/k")
		for i, wait := range waits {
			want := max(wait, 100*time.Millisecond) // the interval
			if took := starts[i+1].at.Sub(starts[i].at); took < max(wait, want-catchUp) || took > want+10*time.Millisecond {
				t.Errorf("after retry-after %v the next attempt came %v later", wait, took)
			}
		}
	})
}

// Attempts are counted; those that were given back are not.
func TestAttemptsAreCounted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answers := []error{back(true), errNotYet, back(true), back(true), errNotYet, back(true), nil}
		s := miniSite(t)
		s.class(t, "a", 100*time.Millisecond, func(c *queue.Class) { c.Retry.MaxAttempts = 3 })
		s.work(t, 0, func(context.Context, *asynq.Task) error {
			return answers[len(s.seen("a/k"))-1]
		}, scheduler.Options{})
		s.submit(t, "a/k", 1)
		s.await(t, "a/k", len(answers))
		var tries []int
		for _, start := range s.seen("a/k") {
			tries = append(tries, start.try)
		}
		if diff := cmp.Diff([]int{1, 1, 2, 2, 2, 3, 3}, tries); diff != "" {
			t.Error(diff)
		}
		pause(time.Second)
		checkTotals(t, s, queue.Books{Admitted: 1, Departed: 7, Returned: 6, Retried: 2, Stale: 4, Done: 1})
	})
}

// A job that fails for good is dead at once, another one after its last attempt; its history says when what happened.
func TestDeadAfterAttempts(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err      error
		attempts int
	}{
		"max attempts": {errNotYet, 3},
		"skip retry":   {fmt.Errorf("%w: %w", errNotYet, asynq.SkipRetry), 1},
		"revoked":      {fmt.Errorf("%w: %w", later(time.Second), asynq.SkipRetry), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := miniSite(t)
				s.class(t, "a", time.Second, func(c *queue.Class) { c.Retry.MaxAttempts = 3 })
				w := s.work(t, 0, func(_ context.Context, task *asynq.Task) error {
					pause(100 * time.Millisecond)
					if string(task.Payload()) == "0" {
						return c.err
					}
					return nil
				}, scheduler.Options{})
				ref := s.submitTyped(t, "a/k", "test", 5)[0].Ref
				s.await(t, "a/k", 4+c.attempts)
				pause(time.Minute)
				checkTotals(t, s, queue.Books{
					Admitted: 5, Departed: int64(4 + c.attempts), Returned: int64(c.attempts - 1), Retried: int64(c.attempts - 1),
					Done: 4, Dead: 1,
				})
				job, err := s.client.Job(t.Context(), ref)
				if err != nil || job.State != queue.Kept || len(job.History) != c.attempts {
					t.Fatalf("job: %+v, %v", job, err)
				}
				checkHistory(t, s, job, w.Name())
			})
		})
	}
}

// checkHistory compares the failed attempts of a job with what its handler saw.
func checkHistory(t *testing.T, s *site, job queue.JobState, worker string) {
	t.Helper()
	var starts []start
	for _, start := range s.seen(job.Class + "/" + job.Key) {
		if start.n == 0 {
			starts = append(starts, start)
		}
	}
	for i, a := range job.History {
		ended := starts[i].at.Add(100 * time.Millisecond)
		if a.Number != i+1 || a.Outcome != "failed" || a.Error != job.Error || a.Worker != worker ||
			a.Started.Sub(starts[i].at).Abs() > time.Millisecond || a.Ended.Sub(ended).Abs() > time.Millisecond ||
			a.Departed.Before(a.Due) || a.Started.Before(a.Departed.Add(-time.Millisecond)) {
			t.Errorf("attempt %d, which started at %v: %+v", i+1, starts[i].at, a)
		}
	}
}
