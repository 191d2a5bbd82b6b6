package queue_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

// shop is a client with one shard, a clock and a worker.
type shop struct {
	t      *testing.T
	c      *queue.Client
	rdb    *redis.Client
	now    int64
	outlet *queue.Outlet
}

func newShop(t *testing.T, rdb *redis.Client) *shop {
	t.Helper()
	s := &shop{t: t, c: openAt(t, rdb, 1), rdb: rdb, now: start}
	s.outlet = s.c.Outlet("w", 0)
	return s
}

func (s *shop) advance(d time.Duration) {
	s.t.Helper()
	s.now += d.Microseconds()
	must(s.t, s.c.SetClock(s.t.Context(), s.now))
}

// depart takes what may leave now and tells the ids.
func (s *shop) depart(want int) []queue.Departure {
	s.t.Helper()
	d, err := s.outlet.Depart(s.t.Context(), queue.Ask{Want: want})
	must(s.t, err)
	return d.Jobs
}

func (s *shop) one() queue.Departure {
	s.t.Helper()
	jobs := s.depart(1)
	if len(jobs) != 1 {
		s.t.Fatalf("%d jobs departed, want 1", len(jobs))
	}
	return jobs[0]
}

func (s *shop) none() {
	s.t.Helper()
	if jobs := s.depart(10); len(jobs) > 0 {
		s.t.Fatalf("job %s departed, want none", jobs[0].ID)
	}
}

func (s *shop) settle(d queue.Departure, outcome queue.Outcome, change ...func(*queue.Verdict)) bool {
	s.t.Helper()
	v := queue.Verdict{Ref: d.Ref, Stamp: d.Stamp, Class: d.Class, Outcome: outcome, Error: "it broke", Due: d.Due, Started: d.Due}
	for _, f := range change {
		f(&v)
	}
	verdicts := []queue.Verdict{v}
	taken, err := s.outlet.Settle(s.t.Context(), verdicts)
	must(s.t, err)
	j, err := s.c.Job(s.t.Context(), d.Ref)
	if dead := err == nil && j.State == queue.Kept; dead && taken[0] && !verdicts[0].Buried || verdicts[0].Buried && err == nil && !dead {
		s.t.Errorf("job %s is said to be dead: %v; it is %+v, %v", d.ID, verdicts[0].Buried, j, err)
	}
	return taken[0]
}

func after(d time.Duration) func(*queue.Verdict) {
	return func(v *queue.Verdict) { v.RetryAfter = &d }
}

// audited checks that the books balance.
func (s *shop) audited() queue.Books {
	s.t.Helper()
	accounts, err := s.c.Audit(s.t.Context(), "c")
	must(s.t, err)
	for _, a := range accounts {
		if a.Off != nil || a.Moved != 0 {
			s.t.Errorf("the books do not balance: %+v", a)
		}
	}
	books, err := s.c.Books(s.t.Context(), "c")
	must(s.t, err)
	return books
}

func (s *shop) state(ref string) queue.JobState {
	s.t.Helper()
	j, err := s.c.Job(s.t.Context(), ref)
	must(s.t, err)
	return j
}

func TestRetryOrders(t *testing.T) {
	t.Parallel()
	for order, want := range map[queue.Order]string{
		queue.Park: "0 1 0 2", // 0 failed; 1 leaves while it waits; then it comes first again
		queue.Hold: "0 0 1 2",
		queue.Tail: "0 1 2 0",
	} {
		t.Run(string(order), func(t *testing.T) {
			t.Parallel()
			onBoth(t, func(t *testing.T, rdb *redis.Client) {
				t.Helper()
				s := newShop(t, rdb)
				put(t, s.c, "c", 10, "1/1s", func(c *queue.Class) { c.Retry.Order = order })
				receipts := admit(t, s.c, newJobs("c", "k", 3)...)
				var got []string
				first := s.one()
				got = append(got, strings.TrimPrefix(first.ID, "j"))
				s.settle(first, queue.Failed, after(1500*time.Millisecond))
				if j := s.state(receipts[0].Ref); order == queue.Park && (j.State != queue.Later || j.NotBefore.UnixMicro() != s.now+1_500_000) {
					t.Errorf("parked: %+v", j)
				}
				for range 10 {
					s.advance(500 * time.Millisecond)
					for _, d := range s.depart(10) {
						got = append(got, strings.TrimPrefix(d.ID, "j"))
						if d.ID == "j0" && d.Attempt != 2 {
							t.Errorf("attempt %d of j0, want 2", d.Attempt)
						}
						s.settle(d, queue.Done)
					}
				}
				if strings.Join(got, " ") != want {
					t.Errorf("left in the order %v, want %s", got, want)
				}
				if b := s.audited(); b.Done != 3 || b.Retried != 1 || b.Departed != 4 {
					t.Errorf("%+v", b)
				}
			})
		})
	}
}

func TestLastAttempt(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 10, "1/1s", func(c *queue.Class) {
			c.Retry = queue.Retry{MaxAttempts: 3, Backoff: 100 * time.Millisecond, MaxBackoff: 300 * time.Millisecond, Order: queue.Park}
		})
		ref := admit(t, s.c, newJob("c", "k", "j"))[0].Ref
		for n := 1; n <= 3; n++ {
			s.advance(time.Second)
			d := s.one()
			if d.Attempt != n {
				t.Errorf("attempt %d, want %d", d.Attempt, n)
			}
			s.settle(d, queue.Failed)
			s.none()
		}
		j := s.state(ref)
		if j.State != queue.Kept || j.Attempts != 3 || len(j.History) != 3 || j.History[2].Error != "it broke" || j.Error != "it broke" {
			t.Errorf("%+v", j)
		}
		r, err := s.c.Dead().Retry(t.Context(), ref)
		if err != nil || r.Position != 1 {
			t.Errorf("retry: %+v, %v", r, err)
		}
		s.advance(time.Second)
		if d := s.one(); d.Attempt != 4 || !s.settle(d, queue.Done) {
			t.Errorf("revived: %+v", d)
		}
		if b := s.audited(); b.Dead != 1 || b.Revived != 1 || b.Done != 1 || b.DeadKept() != 0 {
			t.Errorf("%+v", b)
		}
	})
}

func TestReclaim(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 10, "1000/1s", func(c *queue.Class) { c.MaxInFlight = 2 })
		refs := admit(t, s.c, newJobs("c", "k", 3)...)
		s.advance(time.Second)
		d := s.one()
		s.advance(time.Second)
		s.one()
		s.advance(time.Second)
		s.none() // two are in flight
		beats, err := s.c.Beats(t.Context(), 0)
		must(t, err)
		stale, err := s.c.Reclaim(t.Context(), 0, "w", "1")
		if err != nil || !stale.Refused {
			t.Errorf("reclaimed a worker that lives: %+v %v", stale, err)
		}
		r, err := s.c.Reclaim(t.Context(), 0, "w", beats["w"])
		if err != nil || r.Returned != 2 || r.Refused {
			t.Fatalf("reclaim: %+v, %v", r, err)
		}
		if s.settle(d, queue.Done) {
			t.Error("a reclaimed departure was settled")
		}
		if _, err := s.outlet.Depart(t.Context(), queue.Ask{Want: 1}); !errors.Is(err, queue.ErrRefused) {
			t.Errorf("a reclaimed worker went on: %v", err)
		}
		s.advance(time.Second)
		again := s.one()
		if again.ID != "j0" || again.Attempt != 2 {
			t.Errorf("came back: %+v", again)
		}
		if j := s.state(refs[0].Ref); j.Crashes != 1 || j.History[0].Outcome != "crashed" {
			t.Errorf("%+v", j)
		}
		if b := s.audited(); b.Returned != 2 || b.Refused != 1 {
			t.Errorf("%+v", b)
		}
	})
}

func TestSuspectsRunApart(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 10, "1000/1s")
		var refs []string
		for i := range 3 {
			refs = append(refs, admit(t, s.c, newJob("c", fmt.Sprint(i), "j"))[0].Ref)
		}
		crash := func(n int, ask queue.Ask) queue.Departures {
			t.Helper()
			s.advance(time.Second)
			name := fmt.Sprint("crash ", n)
			d, err := s.c.Outlet(name, 0).Depart(t.Context(), ask)
			must(t, err)
			_, err = s.c.Reclaim(t.Context(), 0, name, "1")
			must(t, err)
			return d
		}
		for n := range 2 {
			if d := crash(n, queue.Ask{Want: 10, Suspect: true}); len(d.Jobs) != 3 {
				t.Fatalf("crash %d: %d jobs", n, len(d.Jobs))
			}
		}
		if d := crash(3, queue.Ask{Want: 10}); len(d.Jobs) != 0 || d.Suspects != 3 {
			t.Fatalf("suspects left without being asked for: %+v", d)
		}
		d := crash(4, queue.Ask{Want: 10, Suspect: true})
		if len(d.Jobs) != 1 || d.Suspects != 2 || !d.Jobs[0].Suspect {
			t.Fatalf("%+v", d)
		}
		for _, ref := range refs {
			j := s.state(ref)
			if condemned := ref == d.Jobs[0].Ref; condemned != (j.State == queue.Kept) || condemned && !strings.Contains(j.Error, "crash") {
				t.Errorf("%+v", j)
			}
		}
		s.audited()
	})
}

func TestCancel(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 10, "1/1s", func(c *queue.Class) { c.Retention = time.Hour })
		r := admit(t, s.c, newJobs("c", "k", 3)...)
		cancel := func(ref string, want queue.State) {
			t.Helper()
			if got, err := s.c.Cancel(t.Context(), ref); err != nil || got != want {
				t.Errorf("cancel: %v, %v; want %v", got, err, want)
			}
		}
		cancel(r[1].Ref, queue.Cancelled)
		d := s.one()
		s.settle(d, queue.Failed, after(10*time.Second))
		cancel(r[0].Ref, queue.Cancelled) // while it is parked
		s.advance(time.Second)
		d = s.one()
		if d.ID != "j2" {
			t.Errorf("%s left", d.ID)
		}
		cancel(r[2].Ref, queue.Out)
		told, err := s.outlet.Depart(t.Context(), queue.Ask{})
		if err != nil || len(told.Cancelled) != 1 || told.Cancelled[0] != d.Ref {
			t.Errorf("told: %+v, %v", told, err)
		}
		s.settle(d, queue.Stopped)
		for _, r := range r {
			if j := s.state(r.Ref); j.State != queue.Cancelled {
				t.Errorf("%+v", j)
			}
		}
		if _, err := s.c.Cancel(t.Context(), r[0].Ref); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("cancelled twice: %v", err)
		}
		if b := s.audited(); b.Cancelled != 2 || b.CancelledOut != 1 || b.Waiting()+b.Out() != 0 {
			t.Errorf("%+v", b)
		}
	})
}

func TestDropOldest(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 2, "1/1s", func(c *queue.Class) { c.Overflow, c.Retention = queue.DropOldest, time.Hour })
		r := admit(t, s.c, newJobs("c", "k", 4)...)
		if r[2].Dropped != r[0].Ref || r[3].Dropped != r[1].Ref || r[3].Position != 2 || r[3].Level != 2 {
			t.Errorf("%+v", r)
		}
		if j := s.state(r[0].Ref); j.State != queue.Dropped {
			t.Errorf("%+v", j)
		}
		if d := s.one(); d.ID != "j2" {
			t.Errorf("%s left first", d.ID)
		}
		if b := s.audited(); b.Dropped != 2 || b.Admitted != 4 {
			t.Errorf("%+v", b)
		}
	})
}

func TestHoldAndDrain(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 10, "1/1s")
		admit(t, s.c, newJobs("c", "k", 3)...)
		b := s.c.Buckets()
		must(t, b.Hold(t.Context(), "c", "k", time.UnixMicro(s.now+5_000_000)))
		s.advance(4 * time.Second)
		s.none()
		s.advance(time.Second)
		s.settle(s.one(), queue.Done)
		must(t, b.Hold(t.Context(), "c", "k", time.UnixMicro(s.now+5_000_000)))
		must(t, b.Unhold(t.Context(), "c", "k"))
		must(t, b.Drain(t.Context(), "c", "k"))
		if _, err := s.c.Submit(t.Context(), newJob("c", "k", "new")); !errors.Is(err, queue.ErrDraining) {
			t.Errorf("submit: %v", err)
		}
		for range 2 {
			s.advance(time.Second)
			s.settle(s.one(), queue.Done)
		}
		s.advance(time.Minute)
		s.none()
		if _, err := s.c.Submit(t.Context(), newJob("c", "k", "new")); queue.ReasonOf(err) != queue.ReasonDraining {
			t.Errorf("submit into the empty bucket: %v", err)
		}
		must(t, b.Resume(t.Context(), "c", "k"))
		admit(t, s.c, newJob("c", "k", "new"))
		s.audited()
	})
}

func TestAwait(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 10, "1000/1s")
		r := admit(t, s.c, newJob("c", "k", "j"))[0]
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		type ended struct {
			e   queue.Ending
			err error
		}
		all := make(chan ended)
		for range 3 {
			go func() {
				e, err := s.c.Await(ctx, r.Ref)
				all <- ended{e, err}
			}()
		}
		for rdb.SCard(ctx, "{spout:0}:awaits").Val() == 0 {
			must(t, ctx.Err())
		}
		d := s.one()
		s.settle(d, queue.Done, func(v *queue.Verdict) { v.Result = []byte("42") })
		for range 3 {
			if got := <-all; !errors.Is(got.err, queue.ErrNotFound) && (got.err != nil || got.e.State != queue.Completed || string(got.e.Result) != "42") {
				t.Errorf("%+v", got)
			}
		}
		if _, err := s.c.Await(ctx, r.Ref); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("await of a job that is gone: %v", err)
		}
	})
}

func TestRollback(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 10, "1/1s")
		admit(t, s.c, newJobs("c", "k", 3)...)
		s.one()
		s.advance(5 * time.Second)
		must(t, rdb.Set(t.Context(), "{spout:0}:server", "another - 0", 0).Err())
		if mini := rdb.Info(t.Context(), "server").Err() != nil; mini { // it has no identity: the worker's calls are what is lost
			must(t, rdb.Set(t.Context(), "{spout:0}:server", "- - 0", 0).Err())
			s.depart(0)
			must(t, rdb.HSet(t.Context(), "{spout:0}:workers", "w", 1).Err())
		}
		d, err := s.outlet.Depart(t.Context(), queue.Ask{Want: 10})
		must(t, err)
		if len(d.Jobs) != 0 || d.Rollback == nil || d.Rollback.Since.UnixMicro() != s.now {
			t.Fatalf("%+v", d)
		}
		s.advance(999 * time.Millisecond)
		s.none()
		s.advance(time.Millisecond)
		s.one()
	})
}
