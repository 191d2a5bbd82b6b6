package meter

import (
	"fmt"
	"strconv"
	"time"
)

const (
	// maxExact is the largest whole number below which a double, and so Lua, is exact.
	maxExact  = 1<<53 - 1
	maxPeriod = 10 * 366 * 24 * time.Hour
)

// law is a limit in whole numbers, as the stores compute with it.
type law struct {
	limit Limit
	kind  kind
	most  int64 // the largest cost that can conform

	// Buckets: debt is in microseconds times count. Count and period are divided by their greatest common divisor, so that
	// 200,000 a day (5 in 2,160,000 µs) stays far below 2^53.
	unit  int64 // debt of one unit
	drain int64 // debt that drains in a microsecond
	full  int64 // debt of the capacity

	window int64 // microseconds
	first  bool  // the first event opens a window

	strikes, within, closure int64 // the penalty; microseconds
}

// kind is which arithmetic decides.
type kind uint8

const (
	bucketKind kind = iota
	fixedKind
	counterKind
	logKind
)

func kindOf(a Algorithm) kind {
	switch a {
	case FixedWindow:
		return fixedKind
	case SlidingCounter:
		return counterKind
	case SlidingLog:
		return logKind
	default: // three names of one
		return bucketKind
	}
}

func newLaw(l Limit) (*law, error) {
	l.Algorithm = l.algorithm()
	if err := l.check(); err != nil {
		return nil, fmt.Errorf("%w: limit %s: %w", ErrInvalid, l, err)
	}
	w := &law{
		limit: l, kind: kindOf(l.Algorithm), most: l.Capacity, window: l.Period.Microseconds(), first: l.Align == AlignFirstEvent,
		strikes: l.Penalty.Refusals, within: l.Penalty.Within.Microseconds(), closure: l.Penalty.For.Microseconds(),
	}
	if l.windowed() {
		w.most = l.Count
		return w, w.checkWindow()
	}
	g := gcd(l.Count, w.window)
	w.unit, w.drain = w.window/g, l.Count/g
	if w.unit > maxExact/l.Capacity {
		return nil, fmt.Errorf("%w: limit %s: capacity * period / gcd(count, period) in µs is above 2^53; "+
			"choose a smaller capacity or a rounder rate", ErrInvalid, l)
	}
	w.full = l.Capacity * w.unit
	return w, nil
}

// checkWindow leaves the sliding counter room for two full windows.
func (w *law) checkWindow() error {
	l := w.limit
	switch {
	case w.kind == counterKind && l.Count > w.mostForced():
		return fmt.Errorf("%w: limit %s: count * period in µs is above 2^52; choose a smaller count or a shorter period", ErrInvalid, l)
	case w.kind == logKind && l.Count > MaxLog:
		return fmt.Errorf("%w: limit %s: a log of more than %d is too large; use %s", ErrInvalid, l, MaxLog, SlidingCounter)
	}
	return nil
}

// mostForced is how far a settlement may drive the counter of one window.
func (w *law) mostForced() int64 {
	switch w.kind {
	case counterKind:
		return maxExact / 2 / w.window
	case logKind:
		return 2 * MaxLog
	default:
		return maxExact
	}
}

func (l Limit) check() error {
	switch l.Algorithm {
	case GCRA, TokenBucket, LeakyBucket, FixedWindow, SlidingLog, SlidingCounter:
	default:
		return fmt.Errorf("algorithm %q is not one of this package's", clip(string(l.Algorithm)))
	}
	switch {
	case l.Count < 1 || l.Count > maxExact:
		return fmt.Errorf("count %d is not between 1 and 2^53", l.Count)
	case l.windowed() && l.Capacity != 0 && l.Capacity != l.Count:
		return fmt.Errorf("capacity %d: a window has none; leave it 0 or give the count", l.Capacity)
	case !l.windowed() && l.Capacity < 1:
		return fmt.Errorf("capacity %d must be above zero", l.Capacity)
	case l.Align != "" && l.Algorithm != FixedWindow:
		return fmt.Errorf("align %q is for %s only", clip(string(l.Align)), FixedWindow)
	case l.Align != "" && l.Align != AlignEpoch && l.Align != AlignFirstEvent:
		return fmt.Errorf("align %q is neither %s nor %s", clip(string(l.Align)), AlignEpoch, AlignFirstEvent)
	}
	if err := checkSpan("period", l.Period); err != nil {
		return err
	}
	return l.Penalty.check()
}

func (p Penalty) check() error {
	if p == (Penalty{}) {
		return nil
	}
	if p.Refusals < 1 || p.Refusals > maxExact {
		return fmt.Errorf("penalty: refusals %d is not between 1 and 2^53", p.Refusals)
	}
	if err := checkSpan("penalty: within", p.Within); err != nil {
		return err
	}
	return checkSpan("penalty: for", p.For)
}

func checkSpan(what string, d time.Duration) error {
	switch {
	case d < time.Microsecond || d > maxPeriod:
		return fmt.Errorf("%s %v is not between 1µs and 10 years", what, d)
	case d%time.Microsecond != 0:
		return fmt.Errorf("%s %v is not a whole number of microseconds", what, d)
	}
	return nil
}

// name tells one rate from another in the keys of a store: what changes the meaning of a meter's state is in it, in full, so that
// no two share a name.
func (w *law) name() string {
	kind, a, b := "b", w.unit, w.drain
	if w.kind != bucketKind {
		a, b = w.most, w.window
	}
	switch {
	case w.kind == fixedKind && w.first:
		kind = "o" // opened by an event
	case w.kind == fixedKind:
		kind = "f"
	case w.kind == counterKind:
		kind = "c"
	case w.kind == logKind:
		kind = "l"
	}
	return kind + strconv.FormatInt(a, 36) + "." + strconv.FormatInt(b, 36)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}
