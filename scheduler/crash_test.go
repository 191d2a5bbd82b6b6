package scheduler_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// endings are the contexts' errors that handlers saw when they returned, by task id.
type endings struct {
	mu  sync.Mutex
	saw map[string]error
}

// heedless is a handler that takes its time whatever its context says, and remembers what that said in the end.
func (e *endings) heedless(d time.Duration, f *fate) asynq.HandlerFunc {
	return func(ctx context.Context, _ *asynq.Task) error {
		pause(d)
		if f != nil {
			f.pass()
		}
		id, _ := asynq.GetTaskID(ctx)
		e.mu.Lock()
		defer e.mu.Unlock()
		e.saw[id] = ctx.Err()
		return nil
	}
}

// What a worker that dies has out runs elsewhere soon, at the bucket's pace. When it was only frozen and comes back, its
// handlers have been told to end, nothing it says about those jobs counts, and it takes part again.
func TestWorkerFreezes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const interval, jobs, buckets, takes = 2 * time.Second, 40, 5, 700 * time.Millisecond
		s, ends := newSite(t, redisWithoutTTL(t), 2), &endings{saw: map[string]error{}}
		s.class(t, "a", interval, func(c *queue.Class) { c.Retention = time.Hour })
		ice := &fate{}
		frozen := s.work(t, 0, ends.heedless(takes, ice), scheduler.Options{}, ice)
		t.Cleanup(ice.melt)
		for key := range buckets {
			s.submit(t, fmt.Sprintf("a/%d", key), jobs)
		}
		pause(interval + takes/2)
		other := s.work(t, 1, ends.heedless(takes, nil), scheduler.Options{})
		out := outOf(t, s, 0, frozen) + outOf(t, s, 1, frozen)
		ice.freeze()
		begun := time.Now()
		pause(30 * time.Second)
		thawed := time.Now()
		ice.melt()
		for key := range buckets {
			s.await(t, fmt.Sprintf("a/%d", key), jobs+1)
		}
		pause(time.Second)

		again, late := checkRunAgain(t, s, interval, begun), 0
		ends.mu.Lock()
		defer ends.mu.Unlock()
		for key := range buckets {
			for _, start := range s.seen(fmt.Sprintf("a/%d", key)) {
				if start.worker == 0 && start.at.After(begun.Add(freshness)) && start.at.Before(thawed) {
					t.Errorf("a start by the frozen worker: %+v", start)
				}
				if start.worker == 0 && start.at.After(thawed) {
					late++
				}
			}
		}
		if again != out || out != buckets {
			t.Errorf("%d jobs were out, %d ran again", out, again)
		}
		if late == 0 {
			t.Error("the frozen worker does not take part again")
		}
		cut := 0
		for _, err := range ends.saw {
			if err != nil {
				cut++
			}
		}
		if cut != out {
			t.Errorf("the contexts of %d handlers ended, want %d", cut, out)
		}
		total := int64(jobs * buckets)
		checkTotals(t, s, queue.Books{
			Admitted: total, Departed: total + int64(out), Returned: int64(out), Done: total, Refused: int64(out),
		})
		checkAudit(t, s, "a")
		if n := len(other.log.lines("worker is gone")); n != 2 { // one for each shard
			t.Errorf("the other worker reclaimed %d times", n)
		}
		if len(frozen.log.lines("handlers of this shard were told to end")) == 0 {
			t.Error("the frozen worker does not say that it lost contact")
		}
	})
}

// checkRunAgain checks the buckets of class a after a worker died: pace, order of first attempts, and when what it had
// out started again. It tells how many did.
func checkRunAgain(t *testing.T, s *site, interval time.Duration, died time.Time) (again int) {
	t.Helper()
	for _, bucket := range s.buckets() {
		starts := s.seen(bucket)
		if err := checkPace(timesOf(starts), interval, catchUp+freshness); err != nil {
			t.Errorf("%s: %v", bucket, err)
		}
		if err := firstInOrder(starts); err != nil {
			t.Errorf("%s: %v", bucket, err)
		}
		for _, start := range starts {
			if start.try == 1 {
				continue
			}
			again++
			if after := start.at.Sub(died); start.try != 2 || start.worker == 0 || after < 9*time.Second || after > 15*time.Second {
				t.Errorf("%s: started again %v after its worker died: %+v", bucket, after, start)
			}
		}
	}
	return again
}

// What happens to all at the same time is no reason to take anybody for dead.
func TestNobodyIsReaped(t *testing.T) {
	t.Parallel()
	const jobs, buckets, interval = 60, 3, time.Second
	for name, during := range map[string]func(o *outages, fates []*fate){
		"no redis":      func(o *outages, _ []*fate) { o.during(errRefused, time.Minute) },
		"hanging redis": func(o *outages, _ []*fate) { o.during(nil, time.Minute) },
		"all were frozen, the watcher comes back first": func(_ *outages, fates []*fate) {
			for _, f := range fates {
				f.freeze()
			}
			pause(20 * time.Second)
			fates[0].melt()
			pause(6 * time.Second)
			fates[1].melt()
			fates[2].melt()
		},
		"a short freeze": func(_ *outages, fates []*fate) {
			fates[1].freeze()
			pause(6 * time.Second)
			fates[1].melt()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, o := newSite(t, redisWithoutTTL(t), 2), &outages{}
				s.class(t, "a", interval)
				var workers []*worker
				var fates []*fate
				for n := range 3 {
					w, f := s.mortal(t, n, takes(3*time.Second), scheduler.Options{}, o)
					workers, fates = append(workers, w), append(fates, f)
				}
				for key := range buckets {
					s.submit(t, fmt.Sprintf("a/%d", key), jobs)
				}
				pause(10*time.Second + 500*time.Millisecond)
				during(o, fates)
				for key := range buckets {
					s.await(t, fmt.Sprintf("a/%d", key), jobs)
				}
				pause(10 * time.Second)
				for _, bucket := range s.buckets() {
					checkBucket(t, s, bucket, interval, jobs)
				}
				if books := s.books(t, "a"); books.Done != buckets*jobs || books.Returned != books.Stale || books.Refused > 0 {
					t.Errorf("books: %+v", books)
				}
				for n, w := range workers {
					if lines := w.log.lines("worker is gone"); len(lines) > 0 {
						t.Errorf("worker %d: %q", n, lines)
					}
				}
			})
		})
	}
}

// checkBucket checks a bucket whose jobs started once each.
func checkBucket(t *testing.T, s *site, bucket string, interval time.Duration, jobs int) {
	t.Helper()
	starts := s.seen(bucket)
	if err := checkOrder(starts, jobs); err != nil {
		t.Errorf("%s: %v", bucket, err)
	}
	if err := checkPace(timesOf(starts), interval, catchUp+freshness); err != nil {
		t.Errorf("%s: %v", bucket, err)
	}
}

// The clock of Redis jumps an hour ahead, or an hour back for a while: nobody is taken for dead, and no handler is told to
// end.
func TestClockSteps(t *testing.T) {
	t.Parallel()
	for name, step := range map[string]time.Duration{"ahead": time.Hour, "back": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const jobs, interval = 60, time.Second
				m, rdb := serverWithoutTTL(t)
				s := newSite(t, rdb, 1)
				s.class(t, "a", interval)
				c := &setClock{m: m}
				var workers []*worker
				for n := range 2 {
					workers = append(workers, s.work(t, n, takes(3*time.Second), scheduler.Options{}, onCall(c.call)))
				}
				for key := range 4 {
					s.submit(t, fmt.Sprintf("a/%d", key), jobs)
				}
				pause(20*time.Second + 400*time.Millisecond)
				stepped := time.Now()
				c.set(step)
				if step < 0 {
					pause(time.Minute)
					stepped = time.Now()
					c.set(0)
				}
				for key := range 4 {
					bucket := fmt.Sprintf("a/%d", key)
					s.await(t, bucket, jobs)
					checkStepped(t, bucket, s.seen(bucket), stepped, interval, jobs)
				}
				if books := s.books(t, "a"); books.Done != 4*jobs || books.Returned != 0 {
					t.Errorf("books: %+v", books)
				}
				for n, w := range workers {
					if lines := w.log.lines("level=WARN"); len(lines) > 0 {
						t.Errorf("worker %d: %q", n, lines)
					}
				}
			})
		})
	}
}

// checkStepped checks a bucket whose clock was set at a time: it may then leave at once, or one interval later.
func checkStepped(t *testing.T, bucket string, starts []start, stepped time.Time, interval time.Duration, jobs int) {
	t.Helper()
	if err := checkOrder(starts, jobs); err != nil {
		t.Errorf("%s: %v", bucket, err)
	}
	var before, after []time.Time
	for _, s := range starts {
		if s.at.Before(stepped) {
			before = append(before, s.at)
		} else {
			after = append(after, s.at)
		}
	}
	for _, times := range [][]time.Time{before, after} {
		if err := checkPace(times, interval, catchUp+freshness); err != nil {
			t.Errorf("%s: %v", bucket, err)
		}
	}
	if len(after) > 0 && after[0].Sub(stepped) > 2*interval {
		t.Errorf("%s: it stood still for %v", bucket, after[0].Sub(stepped))
	}
}
