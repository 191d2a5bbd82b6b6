package scheduler

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/spout-queue/spout/queue"
)

// tally counts what starts, for people who look: timings by class for the history, and the starts of the last minute one by
// one, for those who ask.
type tally struct {
	mu      sync.Mutex
	timings map[string]*queue.Timings
	starts  starts
}

func newTally() *tally { return &tally{timings: map[string]*queue.Timings{}} }

func (t *tally) observer() Observer {
	return Observer{
		Started: func(ctx context.Context, a *Attempt) context.Context {
			t.add(a)
			return ctx
		},
		Ended: func(_ context.Context, a *Attempt, e End) {
			if e.Outcome == queue.Back || e.Outcome == queue.Held {
				t.back(a, a.Started.Add(e.Run))
			}
		},
		Returned: func(a *Attempt, _ ReturnReason) { t.back(a, a.Due) },
	}
}

// back remembers a departure that went back to its bucket.
func (t *tally) back(a *Attempt, at time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.starts.push(began{a.Class, a.Key, a.Due.UnixMicro(), at.UnixMicro(), true})
}

func (t *tally) add(a *Attempt) {
	waited, first := a.Waited()
	t.mu.Lock()
	defer t.mu.Unlock()
	of := t.timings[a.Class]
	if of == nil {
		of = &queue.Timings{}
		t.timings[a.Class] = of
	}
	of.Lateness.Add(a.Lateness)
	if first {
		of.Wait.Add(waited)
	}
	t.starts.push(began{a.Class, a.Key, a.Due.UnixMicro(), a.Started.UnixMicro(), false})
}

// take returns the timings since it was last called.
func (t *tally) take() map[string]*queue.Timings {
	t.mu.Lock()
	defer t.mu.Unlock()
	taken := t.timings
	t.timings = make(map[string]*queue.Timings, len(taken))
	return taken
}

// flowMost is how many buckets a worker tells the flow of.
const flowMost = 5000

// flow is starts per second by bucket, over the time before now that flows are of, or as much of it as is remembered.
func (t *tally) flow(now time.Time) map[string]float64 {
	type bucket struct{ class, key string }
	counts := map[bucket]int{}
	t.mu.Lock()
	since := max(now.Add(-queue.FlowOver).UnixMicro(), t.starts.forgotten)
	for s := range t.starts.since(since) {
		if !s.back {
			counts[bucket{s.class, s.key}]++
		}
	}
	t.mu.Unlock()
	over := max(now.Sub(time.UnixMicro(since)), 100*time.Millisecond).Seconds()
	busiest := slices.Collect(maps.Keys(counts))
	if len(busiest) > flowMost {
		slices.SortFunc(busiest, func(a, b bucket) int { return cmp.Compare(counts[b], counts[a]) })
		busiest = busiest[:flowMost]
	}
	flow := make(map[string]float64, len(busiest))
	for _, b := range busiest {
		flow[b.class+"/"+b.key] = float64(counts[b]) / over
	}
	return flow
}

// startsMost is how many starts of one bucket a worker tells, the newest.
const startsMost = 2000

// of lists the starts of a bucket that are remembered from a time on.
func (t *tally) of(bucket string, since time.Time) []queue.Start {
	t.mu.Lock()
	defer t.mu.Unlock()
	var list []queue.Start
	for s := range t.starts.since(since.UnixMicro()) {
		if len(s.class)+1+len(s.key) == len(bucket) && s.class+"/"+s.key == bucket {
			list = append(list, queue.Start{
				Due: time.UnixMicro(s.due), Started: time.UnixMicro(s.at), Lateness: time.Duration(s.at-s.due) * time.Microsecond, Back: s.back,
			})
		}
	}
	return list[max(0, len(list)-startsMost):]
}

// began is one start, or a departure that went back, times in us.
type began struct {
	class, key string
	due, at    int64
	back       bool
}

const (
	startsKept = 1 << 16 // starts that are remembered at most
	startsTime = int64(queue.StartsOver / time.Microsecond)
)

// starts is a ring of the latest starts. It grows only for as many as there are in a minute.
type starts struct {
	ring      []began
	oldest, n int
	forgotten int64 // the start of the newest that was forgotten before its time
}

func (s *starts) push(b began) {
	for n := 0; n < 2 && s.n > 0 && b.at-s.ring[s.oldest].at > startsTime; n++ {
		s.drop()
	}
	if s.n == len(s.ring) {
		s.makeRoom()
	}
	s.ring[(s.oldest+s.n)%len(s.ring)] = b
	s.n++
}

func (s *starts) makeRoom() {
	if len(s.ring) == startsKept {
		s.forgotten = max(s.forgotten, s.ring[s.oldest].at)
		s.drop()
		return
	}
	ring := make([]began, min(startsKept, max(64, 2*len(s.ring))))
	n := copy(ring, s.ring[s.oldest:])
	copy(ring[n:], s.ring[:s.oldest])
	s.ring, s.oldest = ring, 0
}

func (s *starts) drop() {
	s.ring[s.oldest] = began{}
	s.oldest = (s.oldest + 1) % len(s.ring)
	s.n--
}

// since passes on the starts after a time.
func (s *starts) since(at int64) func(yield func(*began) bool) {
	return func(yield func(*began) bool) {
		for i := range s.n {
			if b := &s.ring[(s.oldest+i)%len(s.ring)]; b.at > at && !yield(b) {
				return
			}
		}
	}
}
