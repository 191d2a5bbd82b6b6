package meter

import (
	"context"
	"fmt"
	"math"
	"net/url"
	"time"
)

// Throttle is redis-cell's CL.THROTTLE: GCRA with count units per period seconds and a burst of maxBurst + 1, of which
// quantity are asked for. It returns, in this order: 0 allowed or 1 limited; the limit, maxBurst + 1; the remaining; the
// seconds until a retry, -1 when allowed or when the quantity can never pass; the seconds until the key is as new. Seconds
// are rounded up. A quantity of 0 asks for the state. The error is that of [New] or [Meter.Check].
func Throttle(ctx context.Context, store Store, key string, maxBurst, count, period, quantity int64) ([5]int64, error) {
	if maxBurst < 0 || maxBurst > maxExact || period < 1 || period > int64(maxPeriod/time.Second) {
		return [5]int64{}, fmt.Errorf("%w: max burst %d must be 0 or more and period %d between 1 second and 10 years",
			ErrInvalid, maxBurst, period)
	}
	m, err := New(store, Limit{Capacity: maxBurst + 1, Count: count, Period: time.Duration(period) * time.Second}, Options{})
	if err != nil {
		return [5]int64{}, err
	}
	d, err := m.Check(ctx, key, quantity)
	if err != nil {
		return [5]int64{}, err
	}
	reply := [5]int64{0, d.Limit, d.Remaining, -1, seconds(d.ResetAfter)}
	if !d.Conform {
		reply[0] = 1
		if !d.Never {
			reply[3] = seconds(d.RetryAfter)
		}
	}
	return reply, nil
}

// seconds rounds up.
func seconds(d time.Duration) int64 { return ceilDiv(int64(d), int64(time.Second)) }

// Funnel is the leaky bucket as books on Redis show it, is_action_allowed(user, action, capacity, rate): a funnel of
// capacity units that leaks rate units a second, into which one more is poured if it fits. The rate is between 1e-6 and
// 1e6 and taken as the nearest fraction with a denominator up to 1,000,000. The key is "user:action", each escaped as in a
// query. The error is that of
// [New] or [Meter.Check].
func Funnel(ctx context.Context, store Store, user, action string, capacity int64, rate float64) (Decision, error) {
	const least, most = 1e-6, 1e6
	if !(rate >= least && rate <= most) { // NaN is neither
		return Decision{}, fmt.Errorf("%w: rate %v is not between 1e-6 and 1e6 a second", ErrInvalid, rate)
	}
	count, period := fraction(rate, 1_000_000)
	m, err := New(store, Limit{
		Algorithm: LeakyBucket, Capacity: capacity, Count: count, Period: time.Duration(period) * time.Second,
	}, Options{})
	if err != nil {
		return Decision{}, err
	}
	return m.Check(ctx, url.QueryEscape(user)+":"+url.QueryEscape(action), 1)
}

// fraction is the continued fraction of x as far as its denominator allows: 0.5 is 1/2 and 0.3333333333333333 is 1/3.
func fraction(x float64, mostDenominator int64) (numerator, denominator int64) {
	const close = 1e-9
	p0, q0, p1, q1 := int64(0), int64(1), int64(1), int64(0)
	for rest := x; ; rest = 1 / (rest - math.Floor(rest)) {
		whole := int64(rest)
		p2, q2 := whole*p1+p0, whole*q1+q0
		if q2 > mostDenominator {
			return p1, q1
		}
		p0, q0, p1, q1 = p1, q1, p2, q2
		if math.Abs(float64(p1)/float64(q1)-x) <= x*close {
			return p1, q1
		}
	}
}
