package meter

import "math/bits"

// decideBucket is gcra, token bucket and leaky bucket: a debt D that drains, D ← max(0, D − Δ·count), and that a unit
// raises by period (both over their gcd). In GCRA's words D/count is TAT − now; in a token bucket's, capacity minus
// tokens; in a leaky bucket's, the level. lua/bucket.lua says the same.
func (w *law) decideBucket(s *state, now int64, c call, a *answer) {
	a.verdict, a.at = conforming, max(now, s.last)
	debt := drained(s.load, a.at-s.last, w.drain)
	switch c.op {
	case opPeek, opTake:
		a.verdict, a.retry, a.taken = w.admit(debt, c)
		debt += a.taken * w.unit
	case opForce:
		if c.least > (maxExact-debt)/w.unit {
			a.verdict = outOfRange
			break
		}
		a.taken = c.least
		debt += a.taken * w.unit
	case opRefund:
		if c.least > debt/w.unit {
			debt = 0
		} else {
			debt -= c.least * w.unit
		}
	}
	a.remaining = max(0, w.full-debt) / w.unit
	a.reset = ceilDiv(debt, w.drain)
	if a.taken > 0 || c.op == opRefund && c.least > 0 {
		s.load, s.last = debt, a.at
		s.forget(a)
	}
}

// admit decides over c at a debt: the verdict, the wait, and what is taken. Units are taken ahead when their wait is
// allowed; more than the least only from what conforms now.
func (w *law) admit(debt int64, c call) (v verdict, wait, taken int64) {
	if c.least == 0 {
		return conforming, 0, 0
	}
	if c.least > w.most {
		return refused, never, 0
	}
	need := c.least * w.unit
	over := debt - (w.full - need)
	if over > 0 {
		wait = ceilDiv(over, w.drain)
	}
	switch {
	case wait > c.arg || debt > maxExact-need:
		return refused, wait, 0
	case c.op == opPeek:
		return conforming, wait, 0
	case over > 0 || c.most == c.least:
		return conforming, wait, c.least
	}
	return conforming, 0, min(c.most, (w.full-debt)/w.unit)
}

// drained is what is left of a debt. The product of time and rate may need more than 64 bits.
func drained(debt, elapsed, rate int64) int64 {
	high, low := bits.Mul64(uint64(elapsed), uint64(rate)) //nolint:gosec // neither is below zero
	if high > 0 || low >= uint64(debt) {                   //nolint:gosec // nor is this
		return 0
	}
	return debt - int64(low) //nolint:gosec // below the debt
}

// ceilDiv is the quotient of x >= 0 rounded up.
func ceilDiv(x, y int64) int64 {
	if y == 1 { // a rate of one unit in so many microseconds
		return x
	}
	q := x / y
	if q*y < x {
		q++
	}
	return q
}
