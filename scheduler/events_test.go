package scheduler

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/queue"
)

// What becomes of jobs is told once, also of those whose worker died: by the one that takes them back.
func TestEvents(t *testing.T) {
	t.Parallel()
	var got []string
	o := Events(func(e queue.Event, result []byte) {
		text := fmt.Sprintf("%s %s/%s %s %s %d %s%s", e.What, e.Class, e.Key, e.ID, e.Ref, e.Attempt, e.Error, result)
		if !e.Until.IsZero() {
			text += fmt.Sprintf(" until %s %v", e.Until.Format(time.TimeOnly), e.WholeClass)
		}
		got = append(got, text)
	})
	a := &Attempt{
		Departure: &queue.Departure{Class: "c", Key: "k", ID: "id", Ref: "0-r", Attempt: 2},
		Started:   time.Date(2026, 1, 1, 12, 0, 0, 0, time.FixedZone("", 3600)),
	}
	o.Started(t.Context(), a)
	for _, e := range []End{
		{Outcome: queue.Done, Result: []byte("yes")},
		{Outcome: queue.Failed, Error: "no"},
		{Outcome: queue.Dead, Error: "never"},
		{Outcome: queue.Stopped, Error: "told"},
		{Outcome: queue.Held, Error: "429", Run: time.Second, Hold: time.Minute, HoldClass: true},
		{Outcome: queue.Back},
	} {
		o.Ended(t.Context(), a, e)
	}
	o.Buried(a, "never")
	crash := func(id string, state queue.State) queue.Crash {
		return queue.Crash{Class: "c", Key: "k", ID: id, Ref: "0-r", Attempt: 3, State: state, Error: "crash"}
	}
	o.Reclaimed(queue.Reclaimed{Crashed: []queue.Crash{crash("waits", queue.Line), crash("dead", queue.Kept), crash("cancelled", queue.Cancelled)}})
	want := []string{
		"started c/k id 0-r 2 ", "done c/k id 0-r 2 yes", "failed c/k id 0-r 2 no", "failed c/k id 0-r 2 never", "cancelled c/k id 0-r 2 told",
		"held c/k id 0-r 2 429 until 11:01:01 true", "dead c/k id 0-r 2 never",
		"failed c/k waits 0-r 3 crash", "failed c/k dead 0-r 3 crash", "dead c/k dead 0-r 3 crash", "cancelled c/k cancelled 0-r 3 crash",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
