package scheduler_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// Jobs that do their worst are dead in the end, with what they did; all others are done.
func TestPoison(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const jobs = 10
		s := newSite(t, redisWithoutTTL(t), 2)
		s.class(t, "a", time.Second, func(c *queue.Class) {
			c.Timeout, c.Retry.MaxAttempts, c.Retry.MaxBackoff = 3*time.Second, 3, 2*time.Second
		})
		release := make(chan struct{})
		for n := range 2 {
			s.work(t, n, func(ctx context.Context, task *asynq.Task) error {
				switch task.Type() {
				case "panics":
					panic("out of cheese")
				case "nil map":
					return add(nil, "x")
				case "endless":
					<-release
				case "slow":
					<-ctx.Done()
					return ctx.Err()
				}
				return nil
			}, scheduler.Options{Concurrency: 10})
		}
		defer close(release)
		want := map[string]string{
			"panics":  "panic: out of cheese",
			"nil map": "panic: assignment to entry in nil map",
			"endless": "timed out after 3s and ignored it: the handler had not returned 1s later",
			"slow":    "timed out after 3s: context deadline exceeded",
		}
		refs := map[string]string{}
		for typ := range want {
			s.submit(t, "a/"+typ, jobs/2)
			refs[typ] = s.submitTyped(t, "a/"+typ, typ, 1)[0].Ref
			s.submit(t, "a/"+typ, jobs/2)
		}
		for typ := range want {
			s.await(t, "a/"+typ, jobs+3)
		}
		pause(10 * time.Second)
		for typ, text := range want {
			job, err := s.client.Job(t.Context(), refs[typ])
			if err != nil || job.State != queue.Kept || job.Error != text || len(job.History) != 3 {
				t.Errorf("%s: %+v, %v", typ, job, err)
			}
		}
		checkTotals(t, s, queue.Books{Admitted: 44, Departed: 52, Returned: 8, Retried: 8, Done: 40, Dead: 4})
		checkAudit(t, s, "a")
	})
}

// add is a handler's mistake.
func add(counts map[string]int, name string) error {
	counts[name]++
	return nil
}

// crowd watches over the suspects of the workers.
type crowd struct {
	s *site

	mu      sync.Mutex
	running map[int]int // suspects by worker
	most    int
	seen    int
}

// guard counts a suspect while the function runs.
func (c *crowd) guard(ctx context.Context, worker int, task *asynq.Task, run func()) {
	job, err := c.s.client.Job(ctx, task.Headers()["Spout-Ref"])
	if err == nil && job.Crashes >= 2 {
		c.add(worker, 1)
		defer c.add(worker, -1)
	}
	run()
}

func (c *crowd) add(worker, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.running[worker] += n
	c.most = max(c.most, c.running[worker])
	c.seen += max(n, 0)
}

// A job that takes its workers down is dead after max_crashes of them. Those that ran beside it are not: as suspects they
// run one at a time on each worker, and are done.
func TestCrashes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const innocents, crashes = 12, 3
		s := newSite(t, redisWithoutTTL(t), 2)
		s.class(t, "a", 5*time.Second, func(c *queue.Class) { c.MaxCrashes, c.Timeout = crashes, time.Minute })
		c := &crowd{s: s, running: map[int]int{}}
		var hired atomic.Int64
		var hire func()
		hire = func() {
			number, f, next := int(hired.Add(1)), &fate{}, hire
			s.work(t, number, func(ctx context.Context, task *asynq.Task) error {
				c.guard(ctx, number, task, func() {
					if task.Type() == "kills" {
						f.freeze()
						go next()
					}
					pause(700 * time.Millisecond)
				})
				f.pass()
				return nil
			}, scheduler.Options{Concurrency: 20}, f)
			t.Cleanup(f.melt)
		}
		for range 2 {
			hire()
		}
		for key := range innocents {
			s.submit(t, fmt.Sprintf("a/%d", key), 1)
		}
		ref := s.submitTyped(t, "a/poison", "kills", 1)[0].Ref
		pause(2 * time.Minute)
		job, err := s.client.Job(t.Context(), ref)
		if err != nil || job.State != queue.Kept || job.Crashes != crashes || len(job.History) != crashes {
			t.Fatalf("the poison: %+v, %v", job, err)
		}
		for _, a := range job.History {
			if a.Outcome != "crashed" || !strings.HasPrefix(a.Error, "crash: its worker "+a.Worker+" died or froze") {
				t.Errorf("history: %+v", a)
			}
		}
		books := s.books(t, "a")
		if books.Done != innocents || books.Dead != 1 || books.Waiting() != 0 {
			t.Errorf("books: %+v", books)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		t.Logf("%d workers, %d starts of suspects", hired.Load(), c.seen)
		if c.most != 1 || c.seen < 5 {
			t.Errorf("%d starts of suspects, up to %d at once on a worker", c.seen, c.most)
		}
		checkAudit(t, s, "a")
	})
}
