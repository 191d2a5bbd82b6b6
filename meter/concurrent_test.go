package meter_test

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spout-queue/spout/meter"
)

const callers = 64

// at64 runs f in as many goroutines at once.
func at64(f func(i int)) {
	var group sync.WaitGroup
	for i := range callers {
		group.Go(func() { f(i) })
	}
	group.Wait()
}

// Many callers of one key never get more than the limit, and all of it.
func TestNeverExceeds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s meter.Store) {
		t.Helper()
		for i, l := range limits(100) {
			l.Period = 24 * time.Hour // nothing comes back meanwhile
			m := newMeter(t, s, l, meter.Options{})
			key := fmt.Sprint("k", i)
			var passed atomic.Int64
			at64(func(int) {
				for range 5 {
					d, err := m.Check(t.Context(), key, 1)
					if err != nil {
						t.Error(err)
					}
					if d.Conform {
						passed.Add(1)
					}
				}
			})
			if passed.Load() != 100 {
				t.Errorf("%v: %d passed, want 100", l, passed.Load())
			}
			if c := m.Counts(); c.Conformed != 100 || c.Refused != callers*5-100 {
				t.Errorf("%v: counts %+v", l, c)
			}
		}
	})
}

func TestTakeAndRefundTogether(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s meter.Store) {
		t.Helper()
		for i, l := range limits(100) {
			l.Period = 24 * time.Hour
			m := newMeter(t, s, l, meter.Options{})
			key := fmt.Sprint("k", i)
			at64(func(int) {
				n, _, err := m.Take(t.Context(), key, 7)
				if err == nil {
					_, err = m.Refund(t.Context(), key, n)
				}
				if err != nil {
					t.Error(err)
				}
			})
			if d := check(t, m, key, 0); d.Remaining != 100 {
				t.Errorf("%v: %+v after everything went back", l, d)
			}
		}
	})
}

// Two limits at once, from many callers in both orders: neither is exceeded, and nothing is taken in vain.
func TestAllNeverExceeds(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s meter.Store) {
		t.Helper()
		wide := newMeter(t, s, meter.Limit{Capacity: 100, Count: 1, Period: 24 * time.Hour}, meter.Options{})
		narrow := newMeter(t, s, meter.Limit{Algorithm: meter.FixedWindow, Count: 60, Period: 24 * time.Hour, Align: meter.AlignFirstEvent}, meter.Options{})
		var passed atomic.Int64
		at64(func(i int) {
			claims := []meter.Claim{{Meter: wide, Key: "all", Cost: 1}, {Meter: narrow, Key: "one", Cost: 1}}
			if i%2 == 1 {
				claims[0], claims[1] = claims[1], claims[0]
			}
			for range 3 {
				d, err := meter.CheckAll(t.Context(), claims...)
				if err != nil {
					t.Error(err)
				}
				if d.Conform {
					passed.Add(1)
				}
			}
		})
		if passed.Load() != 60 {
			t.Errorf("%d passed, want 60", passed.Load())
		}
		if d := check(t, wide, "all", 0); d.Remaining != 40 {
			t.Errorf("the wide limit: %+v, want 40 remaining", d)
		}
	})
}

// In any window no more passes through leases than the limit and a lease per process.
func TestLeasesAreBounded(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s meter.Store) {
		t.Helper()
		l := meter.Limit{Capacity: 100, Count: 1, Period: 24 * time.Hour}
		var processes [4]*meter.Meter
		for i := range processes {
			processes[i] = newMeter(t, s, l, meter.Options{Lease: 10})
		}
		var passed atomic.Int64
		at64(func(i int) {
			for range 4 {
				d, err := processes[i%len(processes)].Check(t.Context(), "k", 1)
				if err != nil {
					t.Error(err)
				}
				if d.Conform {
					passed.Add(1)
				}
			}
		})
		var leased int64
		for _, m := range processes {
			leased += m.Counts().Leased
		}
		// What a process has left of its last lease, nobody else gets: at most 9 each.
		if n := passed.Load(); n > 100 || n < 100-9*int64(len(processes)) || leased < n/2 {
			t.Errorf("%d passed, %d of them without the store; want at most 100, and most", n, leased)
		}
	})
}
