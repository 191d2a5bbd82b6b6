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
func (s *speaker) say(d *queue.Departure, what, why string, until time.Time) {
	if !s.on.Load() {
		return
	}
	if len(why) > queue.EventErrorMost {
		why = strings.ToValidUTF8(why[:queue.EventErrorMost], "")
	}
	e := queue.Event{
		What: what, At: s.now().UTC(), Class: d.Class, Key: d.Key, ID: d.ID, Ref: d.Ref, Attempt: d.Attempt, Error: why, Until: until.UTC(),
	}
	s.mu.Lock()
	if len(s.waiting) < speakMost {
		s.waiting = append(s.waiting, e)
	} else {
		if s.missed == nil {
			s.missed = map[string]int{}
		}
		s.missed[d.Class]++
	}
	s.mu.Unlock()
	poke(s.any)
}

func (s *speaker) observer() Observer {
	return Observer{
		Started: func(ctx context.Context, a *Attempt) context.Context {
			s.say(a.Departure, "started", "", time.Time{})
			return ctx
		},
		Ended: func(_ context.Context, a *Attempt, e End) {
			switch e.Outcome {
			case queue.Done:
				s.say(a.Departure, "done", "", time.Time{})
			case queue.Failed, queue.Dead:
				s.say(a.Departure, "failed", e.Error, time.Time{})
			case queue.Stopped:
				s.say(a.Departure, "cancelled", e.Error, time.Time{})
			case queue.Held:
				s.say(a.Departure, "held", e.Error, a.Started.Add(e.Run+e.Hold))
			case queue.Back: // it goes on where it was
			}
		},
		Buried:    func(a *Attempt, why string) { s.say(a.Departure, "dead", why, time.Time{}) },
		Reclaimed: s.reclaimed,
	}
}

// reclaimed tells of jobs whose worker is gone: it cannot do so itself any more.
func (s *speaker) reclaimed(r queue.Reclaimed) {
	for _, c := range r.Crashed {
		d := &queue.Departure{Class: c.Class, Key: c.Key, ID: c.ID, Ref: c.Ref, Attempt: c.Attempt}
		if c.State != queue.Cancelled {
			s.say(d, "failed", c.Error, time.Time{})
		}
		if c.State != queue.Line {
			s.say(d, string(c.State), c.Error, time.Time{}) // dead or cancelled
		}
	}
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
