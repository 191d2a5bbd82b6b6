package scheduler

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spout-queue/spout/queue"
)

const (
	// speakMost is how many events are told at a time, and speakEvery the time between two: what is more is counted.
	speakMost  = 256
	speakEvery = 50 * time.Millisecond
)

// speaker tells what happens to the jobs of this worker while somebody listens.
type speaker struct {
	on    atomic.Bool
	asked chan struct{}
	any   chan struct{}
	now   func() time.Time

	mu      sync.Mutex
	waiting []queue.Event
	missed  map[string]int // by class
}

func newSpeaker(now func() time.Time) *speaker {
	return &speaker{asked: make(chan struct{}, 1), any: make(chan struct{}, 1), now: now}
}

// ask: somebody listens.
func (s *speaker) ask() {
	s.on.Store(true)
	poke(s.asked)
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// say never waits.
func (s *speaker) say(e queue.Event, _ []byte) {
	if !s.on.Load() {
		return
	}
	if len(e.Error) > queue.EventErrorMost {
		e.Error = strings.ToValidUTF8(e.Error[:queue.EventErrorMost], "")
	}
	e.At = s.now().UTC()
	s.mu.Lock()
	if len(s.waiting) < speakMost {
		s.waiting = append(s.waiting, e)
	} else {
		if s.missed == nil {
			s.missed = map[string]int{}
		}
		s.missed[e.Class]++
	}
	s.mu.Unlock()
	poke(s.any)
}

// run passes on what is said until ctx ends, and then what is left.
func (s *speaker) run(ctx context.Context, tell func(context.Context, []queue.Event, map[string]int) error) {
	silence := time.NewTimer(queue.AskedFor)
	defer silence.Stop()
	for {
		select {
		case <-s.asked:
			s.on.Store(true) // again, should silence have come between
			silence.Reset(queue.AskedFor)
		case <-silence.C: // nobody listens any more
			s.on.Store(false)
		case <-s.any:
			s.pass(ctx, tell)
			pause(ctx, speakEvery)
		case <-ctx.Done():
			s.pass(context.WithoutCancel(ctx), tell)
			return
		}
	}
}

// pass tells what waits to be told. What cannot be told is lost.
func (s *speaker) pass(ctx context.Context, tell func(context.Context, []queue.Event, map[string]int) error) {
	s.mu.Lock()
	events, missed := s.waiting, s.missed
	s.waiting, s.missed = nil, nil
	s.mu.Unlock()
	if len(events) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	_ = tell(ctx, events, missed)
}
