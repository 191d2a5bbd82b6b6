package meter_test

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/meter"
)

func TestBadLimits(t *testing.T) {
	t.Parallel()
	good := perSecond(10, 10)
	change := func(f func(*meter.Limit)) meter.Limit {
		l := good
		f(&l)
		return l
	}
	for name, l := range map[string]meter.Limit{
		"zero":                  {},
		"unknown algorithm":     change(func(l *meter.Limit) { l.Algorithm = "sliding" }),
		"no count":              change(func(l *meter.Limit) { l.Count = 0 }),
		"negative count":        change(func(l *meter.Limit) { l.Count = -1 }),
		"no capacity":           change(func(l *meter.Limit) { l.Capacity = 0 }),
		"negative capacity":     change(func(l *meter.Limit) { l.Capacity = -1 }),
		"no period":             change(func(l *meter.Limit) { l.Period = 0 }),
		"negative period":       change(func(l *meter.Limit) { l.Period = -time.Second }),
		"period in nanoseconds": change(func(l *meter.Limit) { l.Period = 1500 }),
		"period of 11 years":    change(func(l *meter.Limit) { l.Period = 11 * 366 * 24 * time.Hour }),
		"overflow":              {Capacity: 1 << 40, Count: 1, Period: time.Hour},
		"largest overflow":      {Capacity: math.MaxInt64, Count: math.MaxInt64, Period: math.MaxInt64 / 1000 * 1000},
		"counter overflow":      {Algorithm: meter.SlidingCounter, Count: 1 << 40, Period: time.Hour},
		"log too long":          {Algorithm: meter.SlidingLog, Count: meter.MaxLog + 1, Period: time.Hour},
		"window with capacity":  {Algorithm: meter.FixedWindow, Capacity: 3, Count: 5, Period: time.Hour},
		"align of a bucket":     change(func(l *meter.Limit) { l.Align = meter.AlignEpoch }),
		"unknown align":         {Algorithm: meter.FixedWindow, Count: 5, Period: time.Hour, Align: "noon"},
		"half a penalty":        change(func(l *meter.Limit) { l.Penalty.Refusals = 3 }),
		"negative penalty":      change(func(l *meter.Limit) { l.Penalty = meter.Penalty{Refusals: -1, Within: 1000, For: 1000} }),
	} {
		err := l.Validate()
		if !errors.Is(err, meter.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
		if _, err := meter.New(meter.Memory(), l, meter.Options{}); !errors.Is(err, meter.ErrInvalid) {
			t.Errorf("%s: New says %v, want ErrInvalid", name, err)
		}
	}
	must(t, good.Validate())
	must(t, meter.Limit{Capacity: 200_000, Count: 200_000, Period: 24 * time.Hour}.Validate())
}

func TestBadOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []meter.Options{
		{Prefix: "{x}"},
		{Prefix: strings.Repeat("x", 65)},
		{DenialCache: -1},
		{Lease: -1},
		{Away: "somewhere"},
		{Share: -1},
		{Away: meter.AwayLocal, Share: 1 << 30},
	} {
		if _, err := meter.New(meter.Memory(), perSecond(1, 1), o); !errors.Is(err, meter.ErrInvalid) {
			t.Errorf("%+v: %v, want ErrInvalid", o, err)
		}
	}
	for name, store := range map[string]meter.Store{"no store": nil, "no client": meter.Redis(nil)} {
		if _, err := meter.New(store, perSecond(1, 1), meter.Options{}); !errors.Is(err, meter.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}

func TestBadCalls(t *testing.T) {
	t.Parallel()
	m := newMeter(t, meter.Memory(), perSecond(10, 10), meter.Options{})
	ctx := t.Context()
	for _, c := range []struct {
		key  string
		cost int64
	}{{"k", -1}, {"k", math.MinInt64}, {"k", math.MaxInt64}, {"", 1}, {strings.Repeat("k", 513), 1}} {
		_, check := m.Check(ctx, c.key, c.cost)
		_, peek := m.Peek(ctx, c.key, c.cost)
		_, _, take := m.Take(ctx, c.key, c.cost)
		_, refund := m.Refund(ctx, c.key, c.cost)
		_, reserve := m.Reserve(ctx, c.key, c.cost, 0)
		_, all := meter.CheckAll(ctx, meter.Claim{Meter: m, Key: c.key, Cost: c.cost})
		_, line := m.OrEnqueue(ctx, c.key, c.cost, nil)
		for i, err := range []error{check, peek, take, refund, reserve, all, line, m.Wait(ctx, c.key, c.cost)} {
			if !errors.Is(err, meter.ErrInvalid) {
				t.Errorf("key %.10q cost %d: call %d: %v, want ErrInvalid", c.key, c.cost, i, err)
			}
		}
	}
	if _, err := m.OrEnqueue(ctx, "k", 1, nil); !errors.Is(err, meter.ErrInvalid) {
		t.Errorf("no line to go to: %v", err)
	}
	if _, err := m.Reserve(ctx, "k", 1, -1); !errors.Is(err, meter.ErrInvalid) {
		t.Errorf("negative within: %v", err)
	}
	if d := check(t, m, "k", 0); d.Remaining != 10 {
		t.Errorf("bad calls changed the meter: %+v", d)
	}
}

// FuzzLimit: every limit that validates is exact up to its capacity.
func FuzzLimit(f *testing.F) {
	f.Add(int64(200_000), int64(200_000), int64(86_400_000_000))
	f.Fuzz(func(t *testing.T, capacity, count, period int64) {
		l := meter.Limit{Capacity: capacity, Count: count, Period: time.Duration(period) * time.Microsecond}
		if l.Validate() != nil {
			return
		}
		m := newMeter(t, memoryAt(10), l, meter.Options{})
		d := check(t, m, "k", capacity)
		if !d.Conform || d.Remaining != 0 || d.ResetAfter <= 0 {
			t.Fatalf("%v: the whole capacity: %+v", l, d)
		}
		if d := check(t, m, "k", 1); d.Conform || d.RetryAfter <= 0 || d.RetryAfter > l.Period {
			t.Fatalf("%v: one more: %+v", l, d)
		}
	})
}
