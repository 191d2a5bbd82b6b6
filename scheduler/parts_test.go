package scheduler

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestSlotsCount(t *testing.T) {
	t.Parallel()
	s := newSlots(8)
	if got := s.take(5); got != 5 {
		t.Errorf("took %d of 8, want 5", got)
	}
	if ch, _ := s.wait(); ch != nil {
		t.Error("3 of 8 are not enough")
	}
	if got := s.take(5); got != 3 {
		t.Errorf("took %d of 3", got)
	}
	if got := s.take(5); got != 0 {
		t.Errorf("took %d of none", got)
	}
	none, long := s.wait()
	s.put(0)
	if closed(none) {
		t.Error("woke for nothing")
	}
	s.put(1)
	if !closed(none) || long != poll {
		t.Errorf("with none left, a slot that came back did not wake, or it waited %v", long)
	}
	few, short := s.wait()
	if closed(few) || short != busyWait {
		t.Errorf("one of 8 is enough, or it waited %v", short)
	}
	s.put(1)
	if !closed(few) {
		t.Error("two of 8 did not wake")
	}
	if ch, _ := s.wait(); ch != nil {
		t.Error("two of 8 are not enough")
	}
	if s := newSlots(1); s.few != 1 {
		t.Errorf("a worker with one slot waits for %d", s.few)
	}
}

func closed(ch <-chan struct{}) bool {
	select {
	case <-ch:
		return true
	default:
		return false
	}
}

func TestBackoffGrowsToASecond(t *testing.T) {
	t.Parallel()
	var b backoff
	var got []time.Duration
	for range 8 {
		got = append(got, b.next()/time.Millisecond)
	}
	if diff := cmp.Diff([]time.Duration{20, 40, 80, 160, 320, 640, 1000, 1000}, got); diff != "" {
		t.Error(diff)
	}
	for range 100 {
		if d := b.next(); d != time.Second {
			t.Fatalf("after %d failures it waits %v", b.failures, d)
		}
	}
}

func TestClockTranslates(t *testing.T) {
	t.Parallel()
	ours := time.Now()
	theirs := time.UnixMicro(1_700_000_000_000_000)
	c := clock{theirs: theirs, ours: ours}
	for _, d := range []time.Duration{-time.Hour, 0, time.Microsecond, 24 * time.Hour} {
		if got := c.local(theirs.Add(d)).Sub(ours); got != d {
			t.Errorf("%v later is %v later here", d, got)
		}
	}
}

func TestJitterIsBounded(t *testing.T) {
	t.Parallel()
	low, high := time.Hour, time.Duration(0)
	for range 1000 {
		d := jittered(slack)
		low, high = min(low, d), max(high, d)
	}
	if low < slack || high >= 2*slack || high-low < slack/2 {
		t.Errorf("from %v to %v", low, high)
	}
}
