package meter

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Wait takes n units of key and sleeps until they conform. It fails at once, with a [*RefusedError] and nothing taken,
// when the cost can never conform or not before the deadline of ctx. When ctx ends while it sleeps, the units go back and
// the error is the one of ctx. Costs and other errors are those of [Meter.Check].
//
// Buckets reserve ahead, so that waiters pass in the order they came; windows cannot, and a waiter asks again after each
// retry-after. A penalty counts those refusals.
func (m *Meter) Wait(ctx context.Context, key string, n int64) error {
	for {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("meter: wait for %q: %w", clip(key), err)
		}
		within := longestWait(ctx)
		r, err := m.Reserve(ctx, key, n, within)
		if err != nil {
			return err
		}
		d := r.Decision
		switch {
		case d.Conform:
			return r.sleep(ctx)
		case d.Never || d.RetryAfter > within:
			return &RefusedError{Key: key, Decision: d}
		}
		if err := sleep(ctx, d.RetryAfter); err != nil {
			return fmt.Errorf("meter: wait for %q: %w", clip(key), err)
		}
	}
}

// longestWait is the time left until the deadline of ctx.
func longestWait(ctx context.Context) time.Duration {
	deadline, ok := ctx.Deadline()
	if !ok {
		return maxPeriod
	}
	return min(maxPeriod, max(0, time.Until(deadline)))
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Reservation is what [Meter.Reserve] took, for a cost that is known only afterwards: bytes, tokens of a language model.
// Finish it once, with Settle or Cancel; what is never finished stays taken.
type Reservation struct {
	// Decision of the reservation. When it does not conform, nothing was taken.
	Decision Decision
	// Delay until it may happen, at most what Reserve was given; 0 for now.
	Delay time.Duration

	meter *Meter
	key   string
	at    int64 // when the units were taken, µs
	mu    sync.Mutex
	taken int64
	open  bool // to be settled
}

// Reserve takes n units of key that conform within the given time, 0 for now, at most 10 years. Only buckets can take
// ahead: under a window algorithm the units must conform now. Costs and errors are those of [Meter.Check].
func (m *Meter) Reserve(ctx context.Context, key string, n int64, within time.Duration) (*Reservation, error) {
	if err := valid(key, n); err != nil {
		return nil, err
	}
	if within < 0 || within > maxPeriod {
		return nil, fmt.Errorf("%w: within %v is not between 0 and 10 years", ErrInvalid, within)
	}
	var a answer
	if err := m.ask(ctx, key, call{op: opTake, least: n, most: n, arg: within.Microseconds()}, &a); err != nil {
		return nil, err
	}
	r := &Reservation{meter: m, key: key, at: a.at, taken: n}
	m.conclude(&a, n, &r.Decision)
	if d := &r.Decision; d.Conform && !d.Shadow {
		r.Delay, r.open = micros(a.retry), !d.Away
	}
	return r, nil
}

// Settle replaces the reserved cost by the actual one, 0 or more units: the rest goes back as by [Meter.Refund], and what is above it is taken
// even if it does not conform, so that later calls pay for it. A window that is over, or a bucket's debt that has drained,
// takes nothing back. The error wraps [ErrRange] when the meter cannot hold the cost, or is one of [Meter.Check]; the
// reservation can then be settled again. Otherwise a second call does nothing, as does one on a reservation that did not
// conform, or that was decided while the store was away.
func (r *Reservation) Settle(ctx context.Context, actual int64) error {
	if err := valid(r.key, actual); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.open {
		return nil
	}
	var err error
	switch {
	case actual < r.taken:
		_, err = r.meter.refund(ctx, r.key, r.taken-actual, r.at)
	case actual > r.taken:
		err = r.meter.ask(ctx, r.key, call{op: opForce, least: actual - r.taken}, &answer{})
	}
	r.open = err != nil
	return err
}

// Cancel is Settle(ctx, 0).
func (r *Reservation) Cancel(ctx context.Context) error { return r.Settle(ctx, 0) }

// sleep waits out the delay. Who gives up gives back, even though ctx is over.
func (r *Reservation) sleep(ctx context.Context) error {
	err := sleep(ctx, r.Delay)
	if err == nil {
		return nil
	}
	const patience = 5 * time.Second
	after, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if lost := r.Cancel(after); lost != nil {
		return fmt.Errorf("meter: wait for %q: %w (and the units could not be given back: %w)", clip(r.key), err, lost)
	}
	return fmt.Errorf("meter: wait for %q: %w", clip(r.key), err)
}
