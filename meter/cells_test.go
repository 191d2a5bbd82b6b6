package meter_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spout-queue/spout/meter"
)

// Cells move while others use them, and keys of every length find their own.
func TestCellsMove(t *testing.T) {
	t.Parallel()
	m := newMeter(t, meter.Memory(), meter.Limit{Capacity: 64, Count: 1, Period: 24 * time.Hour}, meter.Options{})
	keys := keyNames(5000)
	for i := range keys {
		keys[i] = strings.Repeat("k", i%40) + keys[i]
	}
	var passed atomic.Int64
	at64(func(i int) {
		for j := range keys {
			if check(t, m, keys[(j+i*79)%len(keys)], 1).Conform {
				passed.Add(1)
			}
		}
	})
	if want := int64(64 * len(keys)); passed.Load() != want {
		t.Errorf("%d passed, want %d", passed.Load(), want)
	}
	for _, k := range keys {
		if d := check(t, m, k, 1); d.Conform {
			t.Fatalf("key %q: %+v, want it used up", k, d)
		}
	}
}

// What is collected while others use it is not lost: every key passes as often as it may, and no more are held than there are.
func TestCollectWhileUsed(t *testing.T) {
	t.Parallel()
	s := memoryAt(100_000)
	s.set(start)
	m := newMeter(t, s, perSecond(1, 1), meter.Options{})
	var clock, passed atomic.Int64
	at64(func(i int) {
		for j := range 400 {
			s.set(start + clock.Add(20_000)) // each call is in another sweep or two
			if check(t, m, fmt.Sprint(i, " ", j), 1).Conform {
				passed.Add(1)
			}
			check(t, m, "one of all", 1)
		}
	})
	if passed.Load() != 64*400 {
		t.Errorf("%d new keys passed, want all %d", passed.Load(), 64*400)
	}
	for i := range int64(600) { // until all but this one are idle and swept
		s.set(start + clock.Load() + 30_000_000 + i*100_000)
		check(t, m, "one of all", 1)
	}
	if n := meter.Keys(s.Store); n != 1 {
		t.Errorf("%d keys are held, want 1", n)
	}
}
