package desk_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/queue"
)

// What is so already is no change: of a bucket by itself, whatever its class is.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	s := setup(t) // with both classes paused
	ctx := access.With(t.Context(), access.Person{Name: "ann", Role: access.Operator})
	bucket, until := desk.Target{Class: "own", Key: "k"}, time.Now().Add(time.Hour)
	type deed = func(context.Context, desk.Target) (bool, error)
	hold := func(until time.Time) deed {
		return func(ctx context.Context, t desk.Target) (bool, error) { return s.desk.Hold(ctx, t, until) }
	}
	for i, c := range []struct {
		do     deed
		target desk.Target
		want   bool
	}{
		{s.desk.Pause, whole("own"), false},
		{s.desk.Pause, bucket, true}, // by itself it was open
		{s.desk.Pause, bucket, false},
		{s.desk.Unhold, bucket, false},
		{hold(until), bucket, true},
		{hold(until), bucket, false},
		{hold(until.Add(time.Second)), bucket, true},
		{s.desk.Drain, bucket, true},
		{s.desk.Drain, bucket, false},
		{s.desk.Resume, bucket, true},
		{s.desk.Resume, bucket, false},
		{s.desk.Unhold, bucket, true},
		{hold(until), whole("own"), true},
		{hold(until), whole("own"), false},
		{s.desk.Resume, whole("own"), true},
		{s.desk.Resume, whole("own"), false},
	} {
		if changed, err := c.do(ctx, c.target); changed != c.want || err != nil {
			t.Errorf("%d: changed %t, want %t: %v", i, changed, c.want, err)
		}
	}
	s.checkLog(t, "resume", "hold", "unhold", "resume", "drain", "hold", "hold", "pause")
}

// Of many who pause the same at once, one has changed something.
func TestAtOnce(t *testing.T) {
	t.Parallel()
	s := setup(t)
	ctx := access.With(t.Context(), access.Person{Name: "ann", Role: access.Operator})
	var changes atomic.Int64
	var many sync.WaitGroup
	for range 20 {
		many.Go(func() {
			changed, err := s.desk.Pause(ctx, desk.Target{Class: "own", Key: "at once"})
			if err != nil {
				t.Error(err)
			}
			if changed {
				changes.Add(1)
			}
		})
	}
	many.Wait()
	if changes.Load() != 1 {
		t.Errorf("%d of 20 changed it", changes.Load())
	}
	s.checkLog(t, "pause")
}

// What moved no job is no change, however often somebody asks: the log keeps ten thousand.
func TestNothingMoved(t *testing.T) {
	t.Parallel()
	s := setup(t)
	ctx := access.With(t.Context(), access.Person{Name: "ann", Role: access.Admin})
	for range 3 {
		_, retried := s.desk.RetryDead(ctx, whole("own"), time.Unix(1, 0), nil)
		_, purged := s.desk.Purge(ctx, desk.Target{Class: "own", Key: "nobody's"})
		_, dropped := s.desk.PurgeDead(ctx, desk.Target{Class: "own", Key: "nobody's"})
		if err := errors.Join(retried, purged, dropped); err != nil {
			t.Fatal(err)
		}
	}
	s.checkLog(t)
}

// A job that is out and was told to end is told no second time.
func TestCancelledTwice(t *testing.T) {
	t.Parallel()
	s := setup(t)
	if err := s.client.Classes().Resume(t.Context(), "own"); err != nil {
		t.Fatal(err)
	}
	receipt, err := s.client.Submit(t.Context(), queue.Job{Class: "own", Key: "out", Payload: []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	outlet := s.client.Outlet("another worker", 0)
	for isOut := false; !isOut; {
		out, err := outlet.Depart(t.Context(), queue.Ask{Want: 10})
		if err != nil {
			t.Fatal(err)
		}
		isOut = slices.ContainsFunc(out.Jobs, func(d queue.Departure) bool { return d.Ref == receipt.Ref })
	}
	ctx := access.With(t.Context(), access.Person{Name: "ann", Role: access.Operator})
	for range 2 {
		if state, err := s.desk.Cancel(ctx, receipt.Ref); state != queue.Out || err != nil {
			t.Errorf("cancelled: %s, %v", state, err)
		}
	}
	s.checkLog(t, "cancel job")
}
