package meter

import "time"

// Decision is the answer to one call. Durations are whole microseconds, rounded up.
type Decision struct {
	// Conform: it may happen. With a cost above zero it has been counted, unless this was a peek.
	Conform bool
	// Limit is the largest cost that can ever conform: the capacity, or the count of a window. Of a decision by a local share
	// while Redis is away, it is that of the share.
	Limit int64
	// Remaining is the largest cost that would conform now, after this call.
	Remaining int64
	// RetryAfter is, after a refusal, the time until the same cost conforms if nothing else happens. It is 0 when Conform,
	// or Never.
	RetryAfter time.Duration
	// ResetAfter is the time until the meter is as if it had never been used, 0 when it is.
	ResetAfter time.Duration
	// Never: the cost is above Limit and can never conform.
	Never bool
	// Shadow: it was refused, and passes only because the meter is in shadow mode. RetryAfter or Never is set.
	Shadow bool
	// Away: the store could not be asked, and the policy of [Options.Away] decided.
	Away bool
}
