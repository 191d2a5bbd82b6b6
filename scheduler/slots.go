package scheduler

import "sync"

// slots counts how many attempts may still start. Shards take from it before they ask for departures, so that nothing
// departs that cannot start at once.
type slots struct {
	mu    sync.Mutex
	free  int
	freed chan struct{} // closed and renewed when slots come back
}

func newSlots(n int) *slots { return &slots{free: n, freed: make(chan struct{})} }

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
	if n == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free == 0 { // only then can anybody wait
		close(s.freed)
		s.freed = make(chan struct{})
	}
	s.free += n
}

// wait returns a channel that is closed once slots have come back, nil when there are some.
func (s *slots) wait() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.free > 0 {
		return nil
	}
	return s.freed
}
