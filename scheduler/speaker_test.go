package scheduler

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

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

func departure(class string, n int) *queue.Departure {
	return &queue.Departure{Class: class, Key: "k", ID: fmt.Sprint(n), Attempt: 1}
}

// A worker tells while somebody asks, no more than it may, and counts the rest.
func TestSpeakerIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, heard := startSpeaking(t)
		s.say(departure("c", 0), "started", "", time.Time{})
		synctest.Wait()
		if heard.events != 0 {
			t.Errorf("told %d events before anybody asked", heard.events)
		}
		s.ask()
		s.say(departure("c", 1), "failed", strings.Repeat("é", queue.EventErrorMost), time.Time{})
		synctest.Wait()
		if heard.events != 1 || heard.last.ID != "1" || heard.last.Error != strings.Repeat("é", queue.EventErrorMost/2) {
			t.Errorf("told %+v", heard)
		}
		for n := range 1000 {
			s.say(departure([]string{"c", "d"}[n%2], n), "done", "", time.Time{})
		}
		pause(t.Context(), 2*speakEvery)
		synctest.Wait()
		if heard.events != 1+speakMost || heard.missed["c"]+heard.missed["d"] != 1000-speakMost || heard.missed["d"] != (1000-speakMost)/2 {
			t.Errorf("told %d events in %d calls, and missed %v", heard.events, heard.calls, heard.missed)
		}

		pause(t.Context(), queue.AskedFor-time.Second)
		s.ask()
		pause(t.Context(), queue.AskedFor-time.Second)
		s.say(departure("c", 2), "dead", "", time.Time{})
		synctest.Wait()
		if heard.last.ID != "2" {
			t.Errorf("asked again, it told %+v", heard.last)
		}
		pause(t.Context(), 2*time.Second)
		before := heard.calls
		s.say(departure("c", 3), "done", "", time.Time{})
		synctest.Wait()
		if heard.calls != before || s.on.Load() {
			t.Errorf("it tells on when nobody asks: %+v", heard)
		}
	})
}

// What a worker had that died is told by the one that takes it back.
func TestSpeakerOfTheDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSpeaker(time.Now)
		s.ask()
		crash := func(id string, state queue.State) queue.Crash {
			return queue.Crash{Class: "c", Key: "k", ID: id, Ref: "0-r", Attempt: 3, State: state, Error: "crash"}
		}
		s.observer().Reclaimed(queue.Reclaimed{Crashed: []queue.Crash{
			crash("waits", queue.Line), crash("dead", queue.Kept), crash("cancelled", queue.Cancelled),
		}})
		var got []string
		for _, e := range s.waiting {
			got = append(got, fmt.Sprintf("%s %s/%s %s %s %d %s", e.What, e.Class, e.Key, e.ID, e.Ref, e.Attempt, e.Error))
		}
		want := []string{
			"failed c/k waits 0-r 3 crash", "failed c/k dead 0-r 3 crash", "dead c/k dead 0-r 3 crash", "cancelled c/k cancelled 0-r 3 crash",
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	})
}

func BenchmarkSpeakerUnheard(b *testing.B) {
	s, d := newSpeaker(time.Now), departure("c", 1)
	for b.Loop() {
		s.say(d, "started", "", time.Time{})
	}
}
