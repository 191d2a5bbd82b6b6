package scheduler

import (
	"sync"
	"time"
)

// slots counts how many attempts may still start. Shards take from it before they ask for departures, so that nothing
// departs that cannot start at once.
type slots struct {
	mu   sync.Mutex
	free int
	few  int           // fewer than this are hardly worth a call
	any  chan struct{} // closed and renewed when the first slot comes back
	many chan struct{} // closed and renewed when few have become enough
}

func newSlots(n int) *slots {
	return &slots{free: n, few: max(1, n/4), any: make(chan struct{}), many: make(chan struct{})}
}

// take takes up to most slots without waiting.
func (s *slots) take(most int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := min(s.free, most)
	s.free -= n
	return n
}

// put gives slots back.
func (s *slots) put(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.free
	s.free += n
	if before == 0 && s.free > 0 {
		close(s.any)
		s.any = make(chan struct{})
	}
	if before < s.few && s.free >= s.few {
		close(s.many)
		s.many = make(chan struct{})
	}
}

// busyWait is how long a worker that has few slots left waits for more: one call for several costs little more than one
// call for each.
const busyWait = 2 * time.Millisecond

// wait tells a busy worker what to wait for before it asks for departures again, and how long at most: for any slot while
// there is none, for more of them while there are few. A nil channel means that there are enough.
func (s *slots) wait() (<-chan struct{}, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.free == 0:
		return s.any, poll
	case s.free < s.few:
		return s.many, busyWait
	default:
		return nil, 0
	}
}
