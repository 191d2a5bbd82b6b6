package meter_test

import (
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/spout-queue/spout/meter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// passed is a cost that conformed at a time, µs.
type passed struct{ at, cost int64 }

// In every window of length w at most capacity + rate * w passes a bucket, and at most Count a log's period.
func TestNoWindowHasMore(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t)
		l.Penalty = meter.Penalty{}
		if l.Algorithm == meter.FixedWindow || l.Algorithm == meter.SlidingCounter { // their windows have edges
			l = meter.Limit{Algorithm: meter.SlidingLog, Count: min(l.Count, 100), Period: l.Period}
		}
		s := memoryAt(10)
		m := newMeter(t, s, l, meter.Options{})
		now, period := start, l.Period.Microseconds()
		var trace []passed
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += rapid.Int64Range(0, period).Draw(t, "elapsed")
			s.set(now)
			cost := rapid.Int64Range(1, 5).Draw(t, "cost")
			if check(t, m, "k", cost).Conform {
				trace = append(trace, passed{now, cost})
			}
		}
		for i, first := range trace {
			var sum int64
			for _, last := range trace[i:] {
				sum += last.cost
				if w := last.at - first.at; exceeds(l, sum, w, period) {
					t.Fatalf("%v: %d passed within %d µs: %v", l, sum, w, trace)
				}
			}
		}
	})
}

// exceeds tells whether so many units within w µs, both ends included, are more than the limit.
func exceeds(l meter.Limit, units, w, period int64) bool {
	if l.Algorithm == meter.SlidingLog {
		return w < period && units > l.Count
	}
	return float64(units-l.Capacity)*float64(period) > float64(w)*float64(l.Count)*(1+1e-12)
}

// What is refused conforms after retry-after, and not a microsecond before.
func TestRetryAfterIsExact(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		l := drawLimit(t)
		l.Penalty = meter.Penalty{}
		s := memoryAt(10)
		m := newMeter(t, s, l, meter.Options{})
		now := start
		for range rapid.IntRange(1, 30).Draw(t, "steps") {
			now += rapid.Int64Range(0, l.Period.Microseconds()).Draw(t, "elapsed")
			s.set(now)
			cost := rapid.Int64Range(1, 5).Draw(t, "cost")
			d := check(t, m, "k", cost)
			if d.Conform || d.Never {
				continue
			}
			s.set(now + d.RetryAfter.Microseconds() - 1)
			if early := check(t, m, "k", cost); early.Conform || early.RetryAfter != time.Microsecond {
				t.Fatalf("%v: a microsecond before %v: %+v", l, d.RetryAfter, early)
			}
			now += d.RetryAfter.Microseconds()
			s.set(now)
			if late := check(t, m, "k", cost); !late.Conform {
				t.Fatalf("%v: after %v: %+v", l, d.RetryAfter, late)
			}
		}
	})
}
