package meter

import (
	"fmt"
	"time"
)

// Algorithm is how a limit counts.
type Algorithm string

// The algorithms. The first three are one law in three vocabularies and give the same answers: a debt that drains at
// the rate and may not rise above the capacity.
const (
	// GCRA is the generic cell rate algorithm of ITU-T I.371 (virtual scheduling), the default.
	GCRA Algorithm = "gcra"
	// TokenBucket is full at first, refills at the rate, and each unit takes a token (RFC 2697 speaks of it so).
	TokenBucket Algorithm = "token-bucket"
	// LeakyBucket is empty at first, leaks at the rate, and each unit must fit in (the continuous-state leaky bucket of
	// ITU-T I.371). It is a meter: nothing waits in it.
	LeakyBucket Algorithm = "leaky-bucket"
	// FixedWindow counts in windows one after the other; see [Align]. Up to 2 * Count pass within one period across an edge.
	FixedWindow Algorithm = "fixed-window"
	// SlidingLog remembers the time of each unit: never more than Count in any window (now - Period, now]. Exact, and as
	// large as Count, which is at most [MaxLog].
	SlidingLog Algorithm = "sliding-window-log"
	// SlidingCounter estimates the log from two counters: the last window weighted by its share that is still covered,
	// plus this one. Windows are aligned to the epoch.
	SlidingCounter Algorithm = "sliding-window-counter"
)

// Align is where the windows of a [FixedWindow] begin.
type Align string

// The alignments.
const (
	// AlignEpoch begins windows at multiples of the period since 1970-01-01 UTC, the default.
	AlignEpoch Align = "epoch"
	// AlignFirstEvent begins a window with the first event that conforms after the last window has ended.
	AlignFirstEvent Align = "first-event"
)

// MaxLog is the largest Count of a [SlidingLog]: it keeps some 10 bytes for each unit.
const MaxLog = 10_000

// Limit is a rate and a burst: Count units in each Period, at most Capacity of them at once.
type Limit struct {
	// Algorithm defaults to [GCRA].
	Algorithm Algorithm
	// Capacity is the largest burst, in units; it must be above zero. The window algorithms have none: 0, or Count.
	Capacity int64
	// Count is the units per Period, above zero.
	Count int64
	// Period is above zero, a whole number of microseconds, and at most 10 years.
	Period time.Duration
	// Align is for [FixedWindow] only.
	Align Align
	// Penalty, when set, closes a key that keeps asking.
	Penalty Penalty
}

// Penalty closes a key for longer once it was refused too often: Refusals within Within, counted from the first one,
// close it for For. While it is closed, everything but a refund is refused and refusals do not count. The zero value is
// none. [Meter.Reset] opens the key; a refund does not. Peeks and costs of 0 are never counted.
type Penalty struct {
	// Refusals is above zero, when any field is.
	Refusals int64
	// Within and For are above zero, whole microseconds, at most 10 years, when any field is.
	Within, For time.Duration
}

// String names the algorithm, the rate and, of a bucket, the capacity, as in "gcra 10/1s capacity 20".
func (l Limit) String() string {
	if l.windowed() {
		return fmt.Sprintf("%s %d/%v", l.algorithm(), l.Count, l.Period)
	}
	return fmt.Sprintf("%s %d/%v capacity %d", l.algorithm(), l.Count, l.Period, l.Capacity)
}

// Validate reports what is out of range. The error wraps [ErrInvalid]. [New] calls it.
func (l Limit) Validate() error {
	_, err := newLaw(l)
	return err
}

func (l Limit) algorithm() Algorithm {
	if l.Algorithm == "" {
		return GCRA
	}
	return l.Algorithm
}

func (l Limit) windowed() bool { return kindOf(l.Algorithm) != bucketKind }
