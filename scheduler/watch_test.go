package scheduler

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// glance is one look at the beats: when, what was seen, and who is dead then.
type glance struct {
	at    float64 // s
	beats map[string]string
	dead  []string
}

// glances are looks every 1.5 s from one time to another at one worker.
func glances(from, to float64, beat string) (all []glance) {
	for at := from; at <= to; at += 1.5 {
		all = append(all, glance{at: at, beats: map[string]string{"w": beat}})
	}
	return all
}

func TestObserve(t *testing.T) {
	t.Parallel()
	for name, looks := range map[string][]glance{
		"it stands still": append(glances(0, 9, "5"),
			glance{at: 9.999, beats: map[string]string{"w": "5"}},
			glance{at: 10, beats: map[string]string{"w": "5"}, dead: []string{"w"}},
			glance{at: 11, beats: map[string]string{"w": "5"}, dead: []string{"w"}},
			glance{at: 12, beats: map[string]string{}},
			glance{at: 13, beats: map[string]string{"w": "5"}}),
		"it moved late": append(glances(0, 9, "5"), append(glances(9.9, 19.5, "6"),
			glance{at: 19.9, beats: map[string]string{"w": "6"}, dead: []string{"w"}})...),
		"it began anew, which is a change": append(glances(0, 9, "500"), glances(9.9, 19.5, "1")...),
		"the watch looked away": append(append(glances(0, 6, "5"), glances(10.1, 20, "5")...),
			glance{at: 20.1, beats: map[string]string{"w": "5"}, dead: []string{"w"}}),
		"nearly": append(append(glances(0, 6, "5"), glance{at: 10, beats: map[string]string{"w": "5"}, dead: []string{"w"}}),
			glance{at: 14.1, beats: map[string]string{"w": "5"}}),
		"itself": {
			{at: 0, beats: map[string]string{"me": "5"}},
			{at: 4, beats: map[string]string{"me": "5"}},
			{at: 8, beats: map[string]string{"me": "5"}},
			{at: 12, beats: map[string]string{"me": "5"}},
		},
		"two": {
			{at: 0, beats: map[string]string{"v": "1", "w": "5"}},
			{at: 3, beats: map[string]string{"v": "1", "w": "6", "x": "1"}},
			{at: 6, beats: map[string]string{"v": "1", "w": "6", "x": "1"}},
			{at: 9, beats: map[string]string{"v": "1", "w": "6", "x": "1"}},
			{at: 11, beats: map[string]string{"v": "1", "w": "6", "x": "2"}, dead: []string{"v"}},
			{at: 13, beats: map[string]string{"w": "6", "x": "3"}, dead: []string{"w"}},
		},
		"a wild clock would not matter": {{at: 0, beats: map[string]string{"w": "5"}}, {at: -100, beats: map[string]string{"w": "5"}}},
	} {
		w := &watch{s: &Scheduler{name: "me"}, shards: make([]map[string]sight, 2), looked: make([]time.Time, 2)}
		begun := time.Now()
		for _, look := range looks {
			at := begun.Add(time.Duration(look.at * float64(time.Second)))
			dead := w.observe(1, look.beats, at)
			if diff := cmp.Diff(look.dead, dead); diff != "" {
				t.Errorf("%s, after %v s: %s", name, look.at, diff)
			}
		}
		if len(w.shards[0]) > 0 {
			t.Errorf("%s: it took one shard for the other", name)
		}
	}
}

func TestLease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lost atomic.Int64
		l := lease{lost: func() { lost.Add(1) }}
		l.stop() // of a worker that never had contact
		for range 20 {
			l.renew(time.Now().Add(-time.Second)) // the reply took a second
			<-time.After(6900 * time.Millisecond)
		}
		if lost.Load() != 0 {
			t.Error("lost although it was renewed in time")
		}
		<-time.After(100*time.Millisecond - time.Nanosecond)
		synctest.Wait()
		if lost.Load() != 0 {
			t.Error("lost too early: it counts from when the beat was sent")
		}
		<-time.After(time.Nanosecond)
		synctest.Wait()
		if lost.Load() != 1 {
			t.Error("not lost after 8 s")
		}
		<-time.After(time.Hour)
		l.renew(time.Now())
		synctest.Wait()
		if n := lost.Load(); n != 1 {
			t.Errorf("lost %d times in one outage", n)
		}
		<-time.After(leaseTime)
		synctest.Wait()
		if n := lost.Load(); n != 2 {
			t.Errorf("lost %d times in two outages", n)
		}
		l.renew(time.Now())
		l.stop()
		<-time.After(time.Hour)
		if n := lost.Load(); n != 2 {
			t.Error("lost after it was stopped")
		}
	})
}

// A process that was frozen may hear of a beat that arrived before its timer fires.
func TestLeaseOfOneThatWasFrozen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var lost atomic.Int64
		l := lease{lost: func() { lost.Add(1) }}
		l.renew(time.Now())
		l.renew(time.Now().Add(leaseTime)) // nothing ran meanwhile
		synctest.Wait()
		if lost.Load() != 0 {
			t.Error("lost on time")
		}
		l.renew(time.Now().Add(2*leaseTime + time.Nanosecond))
		synctest.Wait()
		if lost.Load() != 1 {
			t.Error("not lost, although no beat arrived for more than 8 s")
		}
		l.stop()
	})
}
