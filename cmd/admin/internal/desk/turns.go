package desk

import (
	"context"
	"sync"
)

// turns lets those who change the same target do it one after the other: of two who pause it at once, one has changed something. Other
// programs are not asked; the log may have both then.
type turns struct {
	mu sync.Mutex
	of map[Target]*turn
}

// turn is that of one target.
type turn struct {
	taken chan struct{}
	users int
}

// take waits for the turn of a target, and returns what ends it.
func (t *turns) take(ctx context.Context, target Target) (leave func(), err error) {
	t.mu.Lock()
	one := t.of[target]
	if one == nil {
		if t.of == nil {
			t.of = map[Target]*turn{}
		}
		one = &turn{taken: make(chan struct{}, 1)}
		t.of[target] = one
	}
	one.users++
	t.mu.Unlock()
	forget := func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(t.of, target)
		}
	}
	select {
	case one.taken <- struct{}{}:
		return func() { <-one.taken; forget() }, nil
	case <-ctx.Done():
		forget()
		return nil, ctx.Err()
	}
}
