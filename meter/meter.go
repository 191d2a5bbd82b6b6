package meter

import (
	"context"
	"errors"
	"fmt"
)

// Meter is a limit in a store. Make one with [New] and keep it.
type Meter struct {
	law     *law
	id      string // of the meters in the store
	store   Store
	keeper  keeper
	memory  *memoryKeeper // the keeper, if it is one
	options Options
	denials *denials // nil for none
	leases  *leases  // nil for none
	local   *fallback
	counts  counts
}

// New returns the meter of a limit. The error wraps [ErrInvalid]. It does not ask the store.
func New(store Store, l Limit, o Options) (*Meter, error) {
	w, err := newLaw(l)
	if err != nil {
		return nil, err
	}
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	if r, ok := store.(*redisStore); store == nil || ok && r.client == nil {
		return nil, fmt.Errorf("%w: the store is nil, or has a nil client; give Redis(client) or Memory()", ErrInvalid)
	}
	m := &Meter{law: w, id: o.Prefix + w.name(), store: store, keeper: store.open(w, o.Prefix), options: o}
	if o.DenialCache > 0 {
		m.denials = newDenials(o.DenialCache)
	}
	if o.Lease > 0 {
		m.leases = newLeases(o.Lease, w.limit.Period)
	}
	m.memory, _ = m.keeper.(*memoryKeeper)
	if r, ok := store.(*redisStore); ok && o.Away == AwayLocal {
		m.local, err = r.local.share(l, o.Share, m.id)
	}
	return m, err
}

// Limit returns the limit of the meter.
func (m *Meter) Limit() Limit { return m.law.limit }

// Check takes n units of key if they conform now, all or none. A cost of 0 takes nothing, conforms unless a penalty has
// closed the key, and tells the state of the meter. A key is 1 to 512 bytes, a cost 0 to 2^53. The error wraps
// [ErrInvalid], [ErrUnavailable] or [ErrFull]; the decision does not conform then.
func (m *Meter) Check(ctx context.Context, key string, n int64) (d Decision, err error) {
	if err := valid(key, n); err != nil {
		return d, err
	}
	var a answer
	if m.leases != nil && n > 0 && n <= m.law.most {
		err = m.leased(ctx, key, n, &a)
	} else {
		err = m.ask(ctx, key, call{op: opTake, least: n, most: n}, &a)
	}
	if err == nil {
		m.conclude(&a, n, &d)
	}
	return d, err
}

// Peek tells whether n units would conform now, and changes nothing. It asks the store, whatever the options say. Costs and
// errors are those of Check.
func (m *Meter) Peek(ctx context.Context, key string, n int64) (d Decision, err error) {
	if err := valid(key, n); err != nil {
		return d, err
	}
	var a answer
	if err := m.ask(ctx, key, call{op: opPeek, least: n, most: n}, &a); err != nil {
		return d, err
	}
	m.conclude(&a, 0, &d)
	return d, nil
}

// Take takes as many units of key as conform now, at most n, and tells how many. It conforms when it took any, or n is 0;
// otherwise RetryAfter is the time until one unit conforms. In shadow mode what is refused counts as taken. Costs and
// errors are those of Check.
func (m *Meter) Take(ctx context.Context, key string, n int64) (taken int64, d Decision, err error) {
	if err := valid(key, n); err != nil {
		return 0, d, err
	}
	var a answer
	if err := m.ask(ctx, key, call{op: opTake, least: min(n, 1), most: n}, &a); err != nil {
		return 0, d, err
	}
	m.conclude(&a, n, &d)
	if d.Shadow {
		return n, d, nil
	}
	return a.taken, d, nil
}

// Refund gives back up to n units of key that were taken and not used. A meter never holds less than nothing, and a
// fixed window or sliding counter gives back only what was taken in its present window. It always conforms; costs and
// errors are those of Check.
//
// What is given back late is not lost: a bucket cannot tell whose units have drained since. So in any time w up to
// Capacity + w * Count / Period units and those given back within w may have passed, even where the units given back were taken
// long before. Give back soon, or not at all.
func (m *Meter) Refund(ctx context.Context, key string, n int64) (Decision, error) {
	if err := valid(key, n); err != nil {
		return Decision{}, err
	}
	return m.refund(ctx, key, n, 0)
}

// refund gives back what was taken at a time, µs, 0 for whenever.
func (m *Meter) refund(ctx context.Context, key string, n, at int64) (d Decision, err error) {
	defer m.denials.forget(key) // afterwards: a refusal from before must not stay
	var a answer
	if err := m.ask(ctx, key, call{op: opRefund, least: n, arg: at}, &a); err != nil {
		return d, err
	}
	m.conclude(&a, 0, &d)
	return d, nil
}

// Reset makes the meter of key as if it had never been used, and opens it if a penalty closed it. What this process has
// leased for it is forgotten. Errors are those of Check.
func (m *Meter) Reset(ctx context.Context, key string) error {
	if err := valid(key, 0); err != nil {
		return err
	}
	defer m.denials.forget(key)
	m.leases.forget(key)
	err := m.keeper.reset(ctx, key)
	if errors.Is(err, ErrUnavailable) {
		return m.resetAway(ctx, key, err)
	}
	return err
}

// ask puts a call through everything between the caller and the store.
func (m *Meter) ask(ctx context.Context, key string, c call, a *answer) error {
	var err error
	switch {
	case m.memory != nil && m.denials == nil: // without a copy
		err = m.memory.answer(key, c, a)
	case m.denials != nil && c.op == opTake && c.arg == 0:
		if m.denials.find(key, c.least, a) {
			m.counts.add(cached)
			return nil
		}
		*a, err = m.askAndRemember(ctx, key, c)
	default:
		*a, err = m.keeper.do(ctx, key, c)
	}
	if err != nil {
		*a, err = m.away(ctx, key, c, err)
	}
	if err == nil && a.verdict == outOfRange {
		return fmt.Errorf("%w: %d more units of %q; settle less, or reset the key", ErrRange, c.least, clip(key))
	}
	return err
}

// askAndRemember asks the store, and keeps a refusal in the denial cache.
func (m *Meter) askAndRemember(ctx context.Context, key string, c call) (answer, error) {
	ticket := m.denials.ticket(key)
	a, err := m.keeper.do(ctx, key, c)
	if err == nil && a.verdict == refused && a.retry > 0 {
		m.denials.remember(ticket, key, c.least, a)
	}
	return a, err
}

// conclude puts an answer into the words of the package, lets it pass in shadow mode, and counts it if it was about
// taking any units. The decision is filled in where the caller wants it and before it is counted: a processor that copies
// what it has only just written waits for it, which was a fourth of a check in memory.
func (m *Meter) conclude(a *answer, asked int64, d *Decision) {
	d.Conform = a.verdict == conforming
	d.Limit, d.Remaining, d.ResetAfter = m.law.most, a.remaining, micros(a.reset)
	if d.Away = a.away; d.Away && m.local != nil {
		d.Limit = m.local.law.most
	}
	if !d.Conform {
		if d.Never = a.retry == never; !d.Never {
			d.RetryAfter = micros(a.retry)
		}
		d.Conform, d.Shadow = m.options.Shadow, m.options.Shadow
	}
	if asked > 0 {
		m.counts.decided(a, m.options.Shadow)
	}
}

const longestKey = 512

func valid(key string, n int64) error {
	if key != "" && len(key) <= longestKey && 0 <= n && n <= maxExact {
		return nil
	}
	return invalid(key, n)
}

func invalid(key string, n int64) error {
	switch {
	case key == "" || len(key) > longestKey:
		return fmt.Errorf("%w: key %q is not 1 to %d bytes", ErrInvalid, clip(key), longestKey)
	case n < 0:
		return fmt.Errorf("%w: cost %d of key %q is negative; use Refund to give units back", ErrInvalid, n, clip(key))
	default:
		return fmt.Errorf("%w: cost %d of key %q is above 2^53", ErrInvalid, n, clip(key))
	}
}
