package scheduler

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spout-queue/spout/queue"
)

// spoken is what a speaker told.
type spoken struct {
	events, calls int
	missed        map[string]int
	last          queue.Event
}

func (s *spoken) tell(_ context.Context, events []queue.Event, missed map[string]int) error {
	s.calls++
	s.events += len(events)
	s.last = events[len(events)-1]
	for class, n := range missed {
		s.missed[class] += n
	}
	return nil
}

func startSpeaking(t *testing.T) (*speaker, *spoken) {
	t.Helper()
	s, heard := newSpeaker(time.Now), &spoken{missed: map[string]int{}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		s.run(ctx, heard.tell)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return s, heard
}

func event(class string, n int, what, why string) queue.Event {
	return queue.Event{What: what, Class: class, Key: "k", ID: fmt.Sprint(n), Attempt: 1, Error: why}
}

// A worker tells while somebody asks, no more than it may, and counts the rest.
func TestSpeakerIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, heard := startSpeaking(t)
		s.say(event("c", 0, "started", ""), nil)
		synctest.Wait()
		if heard.events != 0 {
			t.Errorf("told %d events before anybody asked", heard.events)
		}
		s.ask()
		s.say(event("c", 1, "failed", strings.Repeat("é", queue.EventErrorMost)), nil)
		synctest.Wait()
		if heard.events != 1 || heard.last.ID != "1" || heard.last.Error != strings.Repeat("é", queue.EventErrorMost/2) {
			t.Errorf("told %+v", heard)
		}
		for n := range 1000 {
			s.say(event([]string{"c", "d"}[n%2], n, "done", ""), nil)
		}
		pause(t.Context(), 2*speakEvery)
		synctest.Wait()
		if heard.events != 1+speakMost || heard.missed["c"]+heard.missed["d"] != 1000-speakMost || heard.missed["d"] != (1000-speakMost)/2 {
			t.Errorf("told %d events in %d calls, and missed %v", heard.events, heard.calls, heard.missed)
		}

		pause(t.Context(), queue.AskedFor-time.Second)
		s.ask()
		pause(t.Context(), queue.AskedFor-time.Second)
		s.say(event("c", 2, "dead", ""), nil)
		synctest.Wait()
		if heard.last.ID != "2" {
			t.Errorf("asked again, it told %+v", heard.last)
		}
		pause(t.Context(), 2*time.Second)
		before := heard.calls
		s.say(event("c", 3, "done", ""), nil)
		synctest.Wait()
		if heard.calls != before || s.on.Load() {
			t.Errorf("it tells on when nobody asks: %+v", heard)
		}
	})
}

func BenchmarkSpeakerUnheard(b *testing.B) {
	started := Events(newSpeaker(time.Now).say).Started
	a := &Attempt{Departure: &queue.Departure{Class: "c", Key: "k", ID: "1", Attempt: 1}}
	for b.Loop() {
		started(b.Context(), a)
	}
}
