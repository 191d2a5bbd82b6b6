package meter_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/meter"
)

// eachAsleep runs test in a bubble, where time passes when all sleep, on miniredis and in memory.
func eachAsleep(t *testing.T, test func(t *testing.T, s meter.Store)) {
	t.Helper()
	t.Run("miniredis", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, meter.Redis(redistest.MiniDial(t))) })
	})
	t.Run("memory", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(t, meter.Memory()) })
	})
}

// Waiters on a bucket pass one interval apart, in the order they came.
func TestWaitPaces(t *testing.T) {
	t.Parallel()
	eachAsleep(t, func(t *testing.T, s meter.Store) {
		t.Helper()
		m := newMeter(t, s, perSecond(2, 4), meter.Options{})
		began := time.Now()
		for i, want := range []int64{0, 0, 250, 500, 750} {
			must(t, m.Wait(t.Context(), "k", 1))
			if got := time.Since(began).Milliseconds(); got != want {
				t.Errorf("call %d passed after %d ms, want %d", i, got, want)
			}
		}
		must(t, m.Wait(t.Context(), "k", 2)) // both from the future
		if got := time.Since(began); got != 1250*time.Millisecond {
			t.Errorf("a cost of 2 passed after %v", got)
		}
	})
}

func TestWaitOnWindow(t *testing.T) {
	t.Parallel()
	eachAsleep(t, func(t *testing.T, s meter.Store) {
		t.Helper()
		for _, l := range limits(3)[3:] {
			l.Period = time.Minute
			m := newMeter(t, s, l, meter.Options{})
			for range 7 {
				must(t, m.Wait(t.Context(), "k", 1))
			}
			if d := check(t, m, "k", 3); d.Conform {
				t.Errorf("%v: %+v after seven waits", l, d)
			}
		}
	})
}

func TestWaitFailsAtOnce(t *testing.T) {
	t.Parallel()
	eachAsleep(t, func(t *testing.T, s meter.Store) {
		t.Helper()
		m := newMeter(t, s, perSecond(1, 1), meter.Options{})
		check(t, m, "k", 1)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		err := m.Wait(ctx, "k", 1)
		late, ok := errors.AsType[*meter.RefusedError](err)
		if !ok || late.RetryAfter() != time.Second || time.Since(began) != 0 {
			t.Errorf("a deadline too near: %v after %v", err, time.Since(began))
		}
		never, ok := errors.AsType[*meter.RefusedError](m.Wait(t.Context(), "k", 2))
		if !ok || !never.Decision.Never || never.RetryAfter() != 0 {
			t.Errorf("a cost above the capacity: %v", never)
		}
		if d := check(t, m, "k", 0); d.ResetAfter != time.Second {
			t.Errorf("failures took something: %+v", d)
		}
	})
}

func TestWaitCancelled(t *testing.T) {
	t.Parallel()
	eachAsleep(t, func(t *testing.T, s meter.Store) {
		t.Helper()
		m := newMeter(t, s, perSecond(1, 1), meter.Options{})
		check(t, m, "k", 1)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(300*time.Millisecond, cancel)
		if err := m.Wait(ctx, "k", 1); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		if d := check(t, m, "k", 0); d.ResetAfter != 700*time.Millisecond {
			t.Errorf("after a cancelled wait: %+v, want only the first call's debt", d)
		}
		if err := m.Wait(ctx, "k", 1); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled before: %v", err)
		}
	})
}

func TestReserveAndSettle(t *testing.T) {
	t.Parallel()
	eachClocked(t, func(t *testing.T, s clocked) {
		t.Helper()
		s.set(start)
		m := newMeter(t, s, perSecond(100, 100), meter.Options{})
		ctx := t.Context()
		remains := func(what string, want int64) {
			t.Helper()
			if d := check(t, m, "k", 0); d.Remaining != want {
				t.Errorf("%s: %d remain, want %d", what, d.Remaining, want)
			}
		}
		r, err := m.Reserve(ctx, "k", 60, 0)
		must(t, err)
		remains("reserved 60", 40)
		must(t, r.Settle(ctx, 25))
		remains("settled 25", 75)
		must(t, r.Settle(ctx, 0))
		remains("settled again", 75)

		r, err = m.Reserve(ctx, "k", 10, 0)
		must(t, err)
		must(t, r.Settle(ctx, 200)) // 225 are owed
		if d := check(t, m, "k", 1); d.Conform || d.RetryAfter != 1260*time.Millisecond {
			t.Errorf("settled above the capacity: %+v", d)
		}
		if r, err = m.Reserve(ctx, "k", 1, time.Second); err != nil || r.Decision.Conform {
			t.Errorf("reserve within too little: %+v, %v", r, err)
		}
		must(t, r.Settle(ctx, 500)) // it took nothing
		r, err = m.Reserve(ctx, "k", 1, 2*time.Second)
		if err != nil || !r.Decision.Conform || r.Delay != 1260*time.Millisecond {
			t.Errorf("reserve ahead: %+v, %v", r, err)
		}
		must(t, r.Cancel(ctx))
		if err := r.Settle(ctx, -1); !errors.Is(err, meter.ErrInvalid) {
			t.Errorf("a negative cost: %v", err)
		}
		r, err = m.Reserve(ctx, "other", 1, 0)
		must(t, err)
		if err := r.Settle(ctx, 1<<53-1); !errors.Is(err, meter.ErrRange) {
			t.Errorf("a cost beyond the range: %v", err)
		}
		must(t, r.Settle(ctx, 2))
	})
}

// What was taken in a window that is over does not come back into the next.
func TestCancelAfterWindow(t *testing.T) {
	t.Parallel()
	eachClocked(t, func(t *testing.T, s clocked) {
		t.Helper()
		for _, l := range limits(10)[3:] {
			s.set(start)
			m := newMeter(t, s, l, meter.Options{})
			r, err := m.Reserve(t.Context(), "k", 4, 0)
			must(t, err)
			s.set(start + 2*time.Hour.Microseconds())
			check(t, m, "k", 3)
			must(t, r.Cancel(t.Context()))
			if d := check(t, m, "k", 0); d.Remaining != 7 {
				t.Errorf("%v: %+v, want 7 remaining", l, d)
			}
			must(t, m.Reset(t.Context(), "k"))
		}
	})
}
