package meter

import (
	"sync/atomic"
	"unsafe"
)

// Counts are totals since the meter was made. They are for metrics: read them when scraped.
type Counts struct {
	// Conformed and Refused count the decisions on a cost above zero of all calls but Peek and Refund, wherever they were made.
	// Refused includes Never and Shadow.
	Conformed, Refused int64
	// Never: refusals of a cost above the limit.
	Never int64
	// Shadow: refusals that passed in shadow mode.
	Shadow int64
	// Cached: refusals from the denial cache. Leased: what a lease let pass without the store.
	Cached, Leased int64
	// AwayClosed, AwayOpen and AwayLocal count calls that the store could not answer, by what was done with them.
	AwayClosed, AwayOpen, AwayLocal int64
}

// Counts returns the totals of the meter. Those of calls under way may be missing.
func (m *Meter) Counts() Counts {
	c := &m.counts
	return Counts{
		Conformed: c.sum(conformed), Refused: c.sum(denied), Never: c.sum(impossible), Shadow: c.sum(shadowed),
		Cached: c.sum(cached), Leased: c.sum(leasedOut),
		AwayClosed: c.sum(awayClosed), AwayOpen: c.sum(awayOpen), AwayLocal: c.sum(awayLocal),
	}
}

// total is one of the numbers of Counts.
type total int

const (
	conformed total = iota
	denied
	impossible
	shadowed
	cached
	leasedOut
	awayClosed
	awayOpen
	awayLocal
	totals
)

// counts are spread over cache lines, so that callers on different processors do not wait for each other's.
type counts [8]struct {
	n [totals]atomic.Int64
	_ [128 - 8*totals]byte
}

func (c *counts) add(t total) { c[stripe()].n[t].Add(1) }

// stripe is one of the cache lines, the same for one goroutine as a rule: each has a stack of its own. It costs a fifth of a
// random number.
func stripe() uintptr {
	var here byte
	return uintptr(unsafe.Pointer(&here)) >> 11 % 8 //nolint:gosec // only its value matters, not what it points to
}

func (c *counts) sum(t total) int64 {
	var n int64
	for i := range c {
		n += c[i].n[t].Load()
	}
	return n
}

func (c *counts) decided(a *answer, shadow bool) {
	if a.verdict == conforming {
		c.add(conformed)
		return
	}
	c.add(denied)
	if a.retry == never {
		c.add(impossible)
	}
	if shadow {
		c.add(shadowed)
	}
}
