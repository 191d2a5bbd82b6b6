package meter

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// fallback is the share of a limit that one process decides by itself while the store is away.
type fallback struct {
	memory *memory
	law    *law
	keeper keeper
}

// share opens the share of a limit. It has meters of its own, by the id of the whole meter: two limits may have equal shares.
func (m *memory) share(l Limit, parts int64, id string) (*fallback, error) {
	if l.Period > maxPeriod/time.Duration(parts) {
		return nil, fmt.Errorf("%w: limit %s: a share of 1/%d has a period above 10 years", ErrInvalid, l, parts)
	}
	w, err := newLaw(l.share(parts))
	if err != nil {
		return nil, fmt.Errorf("share of 1/%d: %w", parts, err)
	}
	return &fallback{m, w, m.open(w, id+" ")}, nil
}

// away decides what the store could not, because of cause.
func (m *Meter) away(ctx context.Context, key string, c call, cause error) (answer, error) {
	if !errors.Is(cause, ErrUnavailable) {
		return answer{}, cause
	}
	switch m.options.Away {
	case AwayOpen:
		m.counts.add(awayOpen)
		return answer{verdict: conforming, taken: c.most, away: true}, nil
	case AwayLocal:
		m.counts.add(awayLocal)
		a, err := m.local.keeper.do(ctx, key, c)
		a.away = true
		return a, err
	default:
		m.counts.add(awayClosed)
		return answer{}, cause
	}
}

func (m *Meter) resetAway(ctx context.Context, key string, cause error) error {
	_, err := m.away(ctx, key, call{op: opPeek}, cause)
	if err == nil && m.local != nil {
		return m.local.keeper.reset(ctx, key)
	}
	return err
}
