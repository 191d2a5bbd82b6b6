package httpmeter

import (
	"context"
	"sync"
	"time"
)

// holds are the keys that servers have asked to wait for. The zero value is ready.
type holds struct {
	mu    sync.Mutex
	until map[string]time.Time
	sweep int // how many entries there may be before those that are over are dropped
}

const minSweep = 64

// left is how long key is held from now on.
func (h *holds) left(key string, now time.Time) time.Duration {
	h.mu.Lock()
	defer h.mu.Unlock()
	return max(h.until[key].Sub(now), 0)
}

// extend holds key until after from now, and tells whether that is later than before.
func (h *holds) extend(key string, now time.Time, after time.Duration) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	until := now.Add(after)
	if !until.After(h.until[key]) {
		return false
	}
	if len(h.until) >= max(h.sweep, minSweep) {
		for k, u := range h.until {
			if !u.After(now) {
				delete(h.until, k)
			}
		}
		h.sweep = 2 * len(h.until)
	}
	if h.until == nil {
		h.until = make(map[string]time.Time)
	}
	h.until[key] = until
	return true
}

// wait returns when key is not held: at once, or when the hold is over. It fails when ctx ends, and at once when it would.
func (h *holds) wait(ctx context.Context, key string) error {
	for ctx.Err() == nil {
		now := time.Now()
		left := h.left(key, now)
		if left == 0 {
			return nil
		}
		if deadline, ok := ctx.Deadline(); ok && deadline.Before(now.Add(left)) {
			return &HeldError{Key: key, After: left}
		}
		timer := time.NewTimer(left)
		select {
		case <-timer.C: // another answer may have extended it
		case <-ctx.Done():
			timer.Stop()
		}
	}
	return context.Cause(ctx)
}
