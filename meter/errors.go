package meter

import (
	"errors"
	"fmt"
	"time"
)

// Why nothing was decided.
var (
	// ErrInvalid: a limit, option, key or cost is out of its range. Nothing was changed.
	ErrInvalid = errors.New("meter: invalid")
	// ErrUnavailable: Redis could not be reached or did not answer; whether the call counted is unknown.
	ErrUnavailable = errors.New("meter: unavailable")
	// ErrFull: the memory store holds its most keys, all in use. Nothing was changed.
	ErrFull = errors.New("meter: memory is full")
	// ErrRange: the debt of a meter would leave the range of exact numbers, 2^53. Nothing was changed.
	ErrRange = errors.New("meter: out of exact range")
)

// RefusedError is how [Meter.Wait] reports that the cost will not conform in time. Nothing was taken.
type RefusedError struct {
	// Key that was asked for.
	Key string
	// Decision of the refusal.
	Decision Decision
}

// Error says when the cost would conform.
func (e *RefusedError) Error() string {
	if e.Decision.Never {
		return fmt.Sprintf("meter: %q: the cost is above the limit of %d and can never conform", clip(e.Key), e.Decision.Limit)
	}
	return fmt.Sprintf("meter: %q: the cost does not conform in time; retry after %v", clip(e.Key), e.Decision.RetryAfter)
}

// RetryAfter is the time until the cost would conform, 0 when it never does.
func (e *RefusedError) RetryAfter() time.Duration { return e.Decision.RetryAfter }

// clip shortens what a message quotes.
func clip(s string) string {
	const most = 80
	if len(s) > most {
		return s[:most] + "…"
	}
	return s
}
