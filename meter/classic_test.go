package meter_test

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/spout-queue/spout/meter"
)

// The replies that testdata/meter.json notes for CL.THROTTLE k 15 30 60.
func TestThrottle(t *testing.T) {
	t.Parallel()
	eachClocked(t, func(t *testing.T, s clocked) {
		t.Helper()
		s.set(start)
		throttle := func(quantity int64, want [5]int64) {
			t.Helper()
			got, err := meter.Throttle(t.Context(), s.Store, "k", 15, 30, 60, quantity)
			if err != nil || got != want {
				t.Errorf("quantity %d: %v, %v; want %v", quantity, got, err, want)
			}
		}
		throttle(1, [5]int64{0, 16, 15, -1, 2})
		throttle(15, [5]int64{0, 16, 0, -1, 32})
		throttle(1, [5]int64{1, 16, 0, 2, 32})
		throttle(17, [5]int64{1, 16, 0, -1, 32})
		s.set(start + 1)
		throttle(1, [5]int64{1, 16, 0, 2, 32}) // 1.999999 s are rounded up
		throttle(0, [5]int64{0, 16, 0, -1, 32})
	})
	for _, bad := range [][4]int64{{-1, 30, 60, 1}, {15, 0, 60, 1}, {15, 30, 0, 1}, {15, 30, math.MaxInt64, 1}, {15, 30, 60, -1}, {math.MaxInt64, 1, 1, 1}} {
		if _, err := meter.Throttle(t.Context(), meter.Memory(), "k", bad[0], bad[1], bad[2], bad[3]); !errors.Is(err, meter.ErrInvalid) {
			t.Errorf("%v: %v, want ErrInvalid", bad, err)
		}
	}
}

func TestFunnel(t *testing.T) {
	t.Parallel()
	eachClocked(t, func(t *testing.T, s clocked) {
		t.Helper()
		s.set(start)
		for i := range 20 {
			d, err := meter.Funnel(t.Context(), s.Store, "laoqian", "reply", 15, 0.5)
			if err != nil || d.Conform != (i < 15) {
				t.Errorf("call %d: %+v, %v", i, d, err)
			}
		}
		third, err := meter.Funnel(t.Context(), s.Store, "a", "b", 1, 1.0/3)
		if err != nil || third.ResetAfter != 3*time.Second {
			t.Errorf("a third a second: %+v, %v", third, err)
		}
		if d, err := meter.Funnel(t.Context(), s.Store, "a:b", "", 1, 1.0/3); err != nil || !d.Conform {
			t.Errorf("another user and action share a key: %+v, %v", d, err)
		}
	})
	for _, rate := range []float64{0, -1, math.NaN(), math.Inf(1), 1e-7, 1e7} {
		if _, err := meter.Funnel(t.Context(), meter.Memory(), "u", "a", 1, rate); !errors.Is(err, meter.ErrInvalid) {
			t.Errorf("rate %v: %v, want ErrInvalid", rate, err)
		}
	}
}

func TestOrEnqueue(t *testing.T) {
	t.Parallel()
	m := newMeter(t, meter.Memory(), meter.Limit{Capacity: 1, Count: 1, Period: time.Hour}, meter.Options{})
	var due []time.Time
	submit := func(_ context.Context, at time.Time) error {
		due = append(due, at)
		return nil
	}
	for i, cost := range []int64{1, 1, 2} {
		d, err := m.OrEnqueue(t.Context(), "k", cost, submit)
		if err != nil || d.Conform != (i == 0) || d.Never != (i == 2) {
			t.Errorf("call %d: %+v, %v", i, d, err)
		}
	}
	if len(due) != 1 || time.Until(due[0]) > time.Hour || time.Until(due[0]) < 59*time.Minute {
		t.Errorf("handed over: %v, want one in an hour", due)
	}
	full := errors.New("full")
	if _, err := m.OrEnqueue(t.Context(), "k", 1, func(context.Context, time.Time) error { return full }); !errors.Is(err, full) {
		t.Errorf("a full line: %v", err)
	}
}

func TestClaims(t *testing.T) {
	t.Parallel()
	store := meter.Memory()
	a := newMeter(t, store, perSecond(5, 1), meter.Options{})
	b := newMeter(t, store, perSecond(5, 2), meter.Options{})
	other := newMeter(t, meter.Memory(), perSecond(5, 1), meter.Options{})
	for name, claims := range map[string][]meter.Claim{
		"none":      {},
		"too many":  make([]meter.Claim, 101),
		"no meter":  {{Key: "k", Cost: 1}},
		"twice":     {{Meter: a, Key: "k", Cost: 1}, {Meter: a, Key: "k", Cost: 1}},
		"two homes": {{Meter: a, Key: "k", Cost: 1}, {Meter: other, Key: "j", Cost: 1}},
	} {
		if _, err := meter.CheckAll(t.Context(), claims...); !errors.Is(err, meter.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
	check(t, b, "k", 5)
	d, err := meter.CheckAll(t.Context(), meter.Claim{Meter: a, Key: "k", Cost: 6}, meter.Claim{Meter: b, Key: "k", Cost: 1})
	if err != nil || d.Conform || !d.Never || d.RetryAfter != 0 || len(d.Refused) != 2 {
		t.Errorf("one never, one not yet: %+v, %v", d, err)
	}
}
