package scheduler

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/spout-queue/spout/queue"
)

func startAt(key string, at time.Time) *Attempt {
	return &Attempt{
		Departure: &queue.Departure{Class: "c", Key: key, Attempt: 1, Number: at.UnixMicro(), Due: at.Add(-time.Millisecond)},
		Started:   at, Lateness: time.Millisecond,
	}
}

// The ring holds the starts of a minute, and no more than that or than it may.
func TestStartsAreForgotten(t *testing.T) {
	t.Parallel()
	now := time.UnixMicro(1_700_000_000_000_000)
	count := func(t *tally, since time.Time) (n int) {
		for range t.starts.since(since.UnixMicro()) {
			n++
		}
		return n
	}
	slow := newTally()
	for i := range 10_000 { // one a second, for hours
		slow.add(startAt("k", now.Add(time.Duration(i)*time.Second)))
	}
	if n, room := count(slow, time.Time{}), len(slow.starts.ring); n != 61 || room != 64 {
		t.Errorf("%d starts of a second each in a ring of %d, want 61 in 64", n, room)
	}
	fast := newTally()
	for i := range 100_000 { // 20,000 a second
		fast.add(startAt(fmt.Sprint("k", i%4), now.Add(time.Duration(i)*50*time.Microsecond)))
	}
	end := now.Add(100_000 * 50 * time.Microsecond)
	if n := count(fast, time.Time{}); n != startsKept {
		t.Errorf("%d starts, want %d", n, startsKept)
	}
	flow := fast.flow(end)
	for bucket, rate := range flow {
		if rate < 4990 || rate > 5010 {
			t.Errorf("%s starts %.0f times a second, want 5000", bucket, rate)
		}
	}
	if len(flow) != 4 {
		t.Errorf("%d buckets, want 4", len(flow))
	}
	list := fast.of("c/k1", end.Add(-time.Minute))
	if len(list) != startsMost || !list[len(list)-1].Started.After(list[0].Started) || list[0].Lateness != time.Millisecond {
		t.Errorf("%d starts of a bucket: %v to %v", len(list), list[0], list[len(list)-1])
	}
	if flow := fast.flow(end.Add(time.Minute)); len(flow) != 0 {
		t.Errorf("a minute later: %v", flow)
	}
}

func TestTimingsAreTaken(t *testing.T) {
	t.Parallel()
	tally := newTally()
	tally.add(startAt("k", time.Now()))
	second := startAt("k", time.Now())
	second.Attempt = 2 // waited for other reasons
	tally.add(second)
	taken := tally.take()
	if len(taken) != 1 || taken["c"].Lateness.Count() != 2 || taken["c"].Wait.Count() != 1 {
		t.Errorf("%+v", taken)
	}
	if again := tally.take(); len(again) != 0 {
		t.Errorf("taken twice: %v", again)
	}
}

// BenchmarkTally is what one start costs to be remembered.
func BenchmarkTally(b *testing.B) {
	tally := newTally()
	o := observers{tally.observer()}
	a := startAt("k", time.Now())
	b.ReportAllocs()
	for b.Loop() {
		o.started(context.Background(), a)
		a.Started = a.Started.Add(50 * time.Microsecond)
	}
}

// What went back is told, and is no start.
func TestTallyBack(t *testing.T) {
	t.Parallel()
	now := time.UnixMicro(1_700_000_000_000_000)
	of := newTally()
	is := of.observer()
	a := startAt("k", now)
	is.Started(t.Context(), a)
	is.Ended(t.Context(), a, End{Outcome: queue.Done})
	is.Ended(t.Context(), a, End{Outcome: queue.Held, Run: time.Second})
	is.Ended(t.Context(), a, End{Outcome: queue.Back})
	is.Returned(a, ReturnedStale)
	list := of.of("c/k", now.Add(-time.Minute))
	if len(list) != 4 || list[0].Back || !list[1].Back || !list[1].Started.Equal(now.Add(time.Second)) || !list[2].Back || !list[3].Back || !list[3].Due.Equal(a.Due) {
		t.Errorf("%+v", list)
	}
	if flow := of.flow(now.Add(time.Second)); flow["c/k"] != 1/5. {
		t.Errorf("%v", flow)
	}
}
