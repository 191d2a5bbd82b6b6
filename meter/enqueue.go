package meter

import (
	"context"
	"fmt"
	"time"
)

// OrEnqueue is Check; a call that is refused, but not for ever, is handed to submit with the time, by the clock of this
// machine, when the meter would let it pass. submit puts it into a line, such as a queue's Submit with a not-before, and
// its error is returned. Such a decision does not conform, and the call is in the line. The line paces what it holds:
// nothing is taken from the meter for it. Costs and errors are those of [Meter.Check]; a nil submit is [ErrInvalid].
func (m *Meter) OrEnqueue(ctx context.Context, key string, n int64,
	submit func(ctx context.Context, due time.Time) error,
) (Decision, error) {
	if submit == nil {
		return Decision{}, fmt.Errorf("%w: there is nothing to submit %q to", ErrInvalid, clip(key))
	}
	d, err := m.Check(ctx, key, n)
	if err != nil || d.Conform || d.Never {
		return d, err
	}
	if err := submit(ctx, time.Now().Add(d.RetryAfter)); err != nil {
		return d, fmt.Errorf("meter: %q was refused, and its place in the line too: %w", clip(key), err)
	}
	return d, nil
}
