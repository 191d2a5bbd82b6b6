package queue_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// TestDropOldestAndMaxJobs: a class at its bound admits what makes room for itself, and nothing else.
func TestDropOldestAndMaxJobs(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c := openAt(t, rdb, 4)
		put(t, c, "c", 2, "1/1s", func(c *queue.Class) { c.MaxJobs, c.Overflow = 4, queue.DropOldest })
		r := admit(t, c, newJobs("c", "a", 2)...)
		admit(t, c, newJobs("c", "b", 2)...)
		if full := refused(t, c, newJob("c", "third", "x")); full.Reason != queue.ReasonClassFull {
			t.Errorf("%+v; want class_full", full)
		}
		if last := admit(t, c, newJob("c", "a", "new"))[0]; last.Dropped != r[0].Ref || last.Level != 2 {
			t.Errorf("%+v; want %s dropped", last, r[0].Ref)
		}
		many := c.SubmitMany(t.Context(), []queue.Job{newJob("c", "a", "1"), newJob("c", "a", "2"), newJob("c", "a", "3")})
		if many[0].Receipt.Dropped != r[1].Ref || many[2].Receipt.Dropped != many[0].Receipt.Ref {
			t.Errorf("%+v; want what was admitted first dropped first", many)
		}
		if books, err := c.Books(t.Context(), "c"); err != nil || books.Waiting() != 4 || books.Dropped != 4 || books.Admitted != 8 {
			t.Errorf("books: %+v, %v", books, err)
		}
	})
}

// TestNewBound: a class that gets a bound of what is out counts what is out already, even when the change was repeated
// because it failed half way.
func TestNewBound(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s, ctx := newShop(t, rdb), t.Context()
		class := put(t, s.c, "c", 10, "1/1s")
		admit(t, s.c, newJobs("c", "k", 6)...)
		var out []queue.Departure
		for range 3 {
			out = append(out, s.one())
			s.advance(time.Second)
		}
		class.MaxInFlight = 2
		cut := &tap{answer: failThird()}
		rdb.AddHook(cut)
		if _, err := s.c.Classes().Put(ctx, class); !errors.Is(err, queue.ErrUnavailable) {
			t.Fatalf("put that fails half way: %v", err)
		}
		cut.answer = nil
		class, err := s.c.Classes().Put(ctx, class)
		must(t, err)
		if b, err := s.c.Buckets().Get(ctx, "c", "k"); err != nil || b.Out != 3 {
			t.Errorf("%+v, %v; want 3 out", b, err)
		}
		s.none()
		s.settle(out[0], queue.Done)
		s.none()
		s.settle(out[1], queue.Back)
		if d := s.one(); d.ID != "j1" {
			t.Errorf("%s left, want the one that was given back", d.ID)
		}
		s.advance(time.Second)
		s.none()
		s.audited()
		class.MaxInFlight = 0
		_, err = s.c.Classes().Put(ctx, class)
		must(t, err)
		s.one()
		if b, err := s.c.Buckets().Get(ctx, "c", "k"); err != nil || b.Out != -1 {
			t.Errorf("%+v, %v; want none counted", b, err)
		}
		s.advance(time.Second)
		class.Retry.Order = queue.Hold
		_, err = s.c.Classes().Put(ctx, class)
		must(t, err)
		if b, err := s.c.Buckets().Get(ctx, "c", "k"); err != nil || b.Out != 3 {
			t.Errorf("%+v, %v; want 3 out", b, err)
		}
		s.none()
		s.audited()
	})
}

// failThird cuts the connection at the second script call, which comes after a class was stored.
func failThird() func(redis.Cmder, func() error) error {
	calls := 0
	return func(cmd redis.Cmder, next func() error) error {
		if cmd.Name() == "evalsha" {
			if calls++; calls == 2 {
				return &net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}
			}
		}
		return next()
	}
}

// TestCancelledIsNotTheNextOne: what a worker hears of a cancelled job does not end the attempt of another job that came
// under the same identity since.
func TestCancelledIsNotTheNextOne(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s, ctx := newShop(t, rdb), t.Context()
		put(t, s.c, "c", 10, "1/1s")
		ref := admit(t, s.c, newJob("c", "k", "j"))[0].Ref
		d := s.one()
		if state, err := s.c.Cancel(ctx, ref); state != queue.Out || err != nil {
			t.Fatalf("%s, %v; want it out", state, err)
		}
		s.settle(d, queue.Done) // before the worker heard of that
		admit(t, s.c, newJob("c", "k", "j"))
		s.advance(time.Second)
		next, err := s.outlet.Depart(ctx, queue.Ask{Want: 1})
		if err != nil || len(next.Jobs) != 1 || len(next.Cancelled) != 0 {
			t.Fatalf("%+v, %v; want the new one, and nothing cancelled", next, err)
		}
		if state, err := s.c.Cancel(ctx, ref); state != queue.Out || err != nil {
			t.Fatalf("%s, %v; want it out", state, err)
		}
		next, err = s.outlet.Depart(ctx, queue.Ask{Want: 1})
		if err != nil || !slices.Equal(next.Cancelled, []string{ref}) {
			t.Errorf("%+v, %v; want it to hear of %s", next, err, ref)
		}
	})
}

// TestCancelIsToldUntilItIsHeard: a reply that is lost takes no cancellation with it.
func TestCancelIsToldUntilItIsHeard(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		line := &unreliable{}
		rdb.AddHook(line)
		s, ctx := newShop(t, rdb), t.Context()
		put(t, s.c, "c", 10, "1/1s")
		ref := admit(t, s.c, newJob("c", "k", "j"))[0].Ref
		d := s.one()
		_, err := s.c.Cancel(ctx, ref)
		must(t, err)
		for range 2 {
			line.next = replyLost
			if _, err := s.outlet.Depart(ctx, queue.Ask{}); !errors.Is(err, queue.ErrUnknown) {
				t.Fatalf("%v, want the reply lost", err)
			}
		}
		for _, want := range [][]string{{ref}, nil} {
			told, err := s.outlet.Depart(ctx, queue.Ask{})
			if err != nil || !slices.Equal(told.Cancelled, want) {
				t.Errorf("%+v, %v; want it to hear of %v", told, err, want)
			}
		}
		if !s.settle(d, queue.Failed) {
			t.Error("it was not settled")
		}
		if b := s.audited(); b.CancelledOut != 1 || b.Retried != 0 || b.Waiting() != 0 {
			t.Errorf("%+v; want it cancelled, not retried", b)
		}
	})
}

// TestManyAtOnce: what is done by hundreds is done completely: a worker that dies with hundreds of jobs, a class that gets a
// bound, dead jobs that are purged.
func TestManyAtOnce(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s, ctx := newShop(t, rdb), t.Context()
		const n = 250
		class := put(t, s.c, "c", 10, "1/1s", func(c *queue.Class) { c.MaxCrashes = 3 })
		for k := range n {
			admit(t, s.c, newJob("c", fmt.Sprint("k", k), "j"))
		}
		for crash := range 2 {
			s.advance(time.Second)
			name := fmt.Sprint("crash ", crash)
			if got := departWith(ctx, t, s.c.Outlet(name, 0)); got != n {
				t.Fatalf("%d departed, want %d", got, n)
			}
			class.MaxInFlight = 1 + crash
			_, err := s.c.Classes().Put(ctx, class)
			must(t, err)
			s.audited()
			beats, err := s.c.Beats(ctx, 0)
			must(t, err)
			if r, err := s.c.Reclaim(ctx, 0, name, beats[name]); err != nil || r.Returned != n || r.Dead != 0 {
				t.Fatalf("%+v, %v; want all returned", r, err)
			}
			s.audited()
			class, err = s.c.Classes().Get(ctx, "c")
			must(t, err)
		}
		s.advance(time.Second)
		if d, err := s.outlet.Depart(ctx, queue.Ask{Want: 100, Suspect: true}); err != nil || len(d.Jobs) != 1 || d.Suspects == 0 {
			t.Errorf("%+v, %v; want one suspect", d, err)
		}
		if waiting, dead, err := s.c.Classes().Purge(ctx, "c"); waiting != n-1 || dead != 0 || err != nil {
			t.Errorf("purged %d and %d, %v; want %d", waiting, dead, err, n-1)
		}
		s.audited()
	})
}

// departWith departs all that may leave, with one outlet.
func departWith(ctx context.Context, t *testing.T, outlet *queue.Outlet) int {
	t.Helper()
	for n := 0; ; {
		d, err := outlet.Depart(ctx, queue.Ask{Want: 100, Suspect: true})
		must(t, err)
		if n += len(d.Jobs); len(d.Jobs) == 0 {
			return n
		}
	}
}
