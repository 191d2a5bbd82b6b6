package meter

import (
	"fmt"
	"strings"
	"time"
)

// Options of a [Meter]. The zero value is the plain meter.
type Options struct {
	// Prefix begins every Redis key, at most 64 bytes without braces; end it with a separator, as the default "meter:" does.
	// Meters of different prefixes share nothing, in memory neither.
	Prefix string
	// Shadow: every call is decided, counted and reported, and passes; see [Decision.Shadow]. What would have been
	// refused is not taken. While Redis is away everything passes too, unless Away says otherwise.
	Shadow bool
	// DenialCache is the most refused keys this meter remembers, 0 (none) to 10,000,000. A remembered refusal answers
	// the same cost without the store until its retry-after, and never longer: nothing that would conform is
	// refused, except what a Refund, Settle, Cancel or Reset of another process has made room for meanwhile. Those of
	// this meter forget the refusal. Remaining and ResetAfter of such an answer are those of the refusal, less the time
	// since. For Redis; memory is faster without.
	DenialCache int
	// Lease is how many units a process takes ahead for a key, 0 (none) to 2^53, to answer the next calls without the
	// store. What is leased but not used lapses after the period of the limit. In any window, at most Lease more per
	// process than the limit may pass, since units may be used later than they were counted; over time not one more.
	// Remaining and ResetAfter of such an answer are those of the last lease.
	Lease int64
	// Away says what happens while Redis cannot be asked. Defaults to [AwayClosed], and in shadow mode to [AwayOpen].
	Away Away
	// Share is, with [AwayLocal], into how many parts the limit is split: the number of processes. Defaults to 1.
	Share int64
}

// Away is what a meter does while its store cannot be asked.
type Away string

// The policies. What they decide is marked [Decision.Away] and counted in [Counts].
const (
	// AwayClosed refuses: the call returns an error that wraps [ErrUnavailable].
	AwayClosed Away = "closed"
	// AwayOpen lets everything pass.
	AwayOpen Away = "open"
	// AwayLocal decides by a limit in memory, of capacity / Share and count / Share, at least 1 each.
	AwayLocal Away = "local"
)

const (
	defaultPrefix = "meter:"
	longestPrefix = 64
	mostDenials   = 10_000_000
)

// withDefaults fills in what was left empty.
func (o Options) withDefaults() Options {
	if o.Prefix == "" {
		o.Prefix = defaultPrefix
	}
	if o.Away == "" {
		o.Away = AwayClosed
		if o.Shadow {
			o.Away = AwayOpen
		}
	}
	if o.Share == 0 {
		o.Share = 1
	}
	return o
}

func (o Options) validate() error {
	bad := ""
	switch {
	case len(o.Prefix) > longestPrefix || strings.ContainsAny(o.Prefix, "{}"):
		bad = fmt.Sprintf("prefix %q is longer than %d bytes or has braces", clip(o.Prefix), longestPrefix)
	case o.DenialCache < 0 || o.DenialCache > mostDenials:
		bad = fmt.Sprintf("denial cache %d is not between 0 and %d", o.DenialCache, mostDenials)
	case o.Lease < 0 || o.Lease > maxExact:
		bad = fmt.Sprintf("lease %d is not between 0 and 2^53", o.Lease)
	case o.Away != AwayClosed && o.Away != AwayOpen && o.Away != AwayLocal:
		bad = fmt.Sprintf("away %q is none of closed, open and local", clip(string(o.Away)))
	case o.Share < 1 || o.Share > 1_000_000:
		bad = fmt.Sprintf("share %d is not between 1 and 1000000", o.Share)
	}
	if bad != "" {
		return fmt.Errorf("%w: options: %s", ErrInvalid, bad)
	}
	return nil
}

// share is a limit divided by the number of processes, at least one unit.
func (l Limit) share(parts int64) Limit {
	if l.windowed() {
		l.Count = max(1, l.Count/parts)
		l.Capacity = 0
		return l
	}
	l.Capacity = max(1, l.Capacity/parts)
	l.Period *= time.Duration(parts)
	return l
}
