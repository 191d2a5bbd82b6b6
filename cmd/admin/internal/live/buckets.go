package live

import (
	"cmp"
	"slices"
	"time"

	"github.com/spout-queue/spout/queue"
)

// Bucket is how one bucket stands that somebody looks at.
type Bucket struct {
	queue.Bucket
	// High is its highest level of the last 5 minutes, as far as somebody looked.
	High int
	// In, Departed and Overflow are per second, over the last 5 s: what came in, what left, and what found it full. They mean
	// nothing unless Known.
	In, Departed, Overflow float64
	Known                  bool
	// Stalled: it has jobs and is open, its next departure is long overdue, and nothing leaves it.
	Stalled bool
	// Read tells whether the state is there; until then only the name is.
	Read bool
}

const (
	// wantedFor is how long a bucket is read after somebody asked for it.
	wantedFor = 2 * time.Second
	// readMost is how many buckets one step reads.
	readMost = 100
	// wholeEvery is the time after which not only the line of a bucket is read, but all of it: in every fourth step.
	wholeEvery = time.Second - tick/2
	// wantedMost bounds how many there are: those beyond are left out until others go.
	wantedMost = 1000
	// stalledLeast is how long overdue a departure must be, at least.
	stalledLeast = 2 * time.Second
)

// watched are the buckets that somebody looks at, by name.
type watched map[string]*watch

type watch struct {
	wanted time.Time // when somebody last asked
	tried  time.Time // when it was last asked for
	whole  time.Time // when all of it was asked for
	read   time.Time // and when that was there
	state  queue.Bucket
	window window
	flow   float64
	flowAt time.Time
}

// Buckets tells how buckets stand, by their names, in their order. Those that are asked for again and again are read 4 times
// a second, all but their levels once: all together at most 100 at a time, more of them in turn. One of a class that is gone is not
// Read.
func (l *Live) Buckets(names []string) []Bucket {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	list := make([]Bucket, len(names))
	for i, name := range names {
		w := l.buckets[name]
		if w == nil {
			if len(l.buckets) >= wantedMost {
				l.known.into(&list[i], name, now)
				continue
			}
			w = &watch{}
			l.buckets[name] = w
			select {
			case l.hurry <- struct{}{}:
			default:
			}
		}
		w.wanted = now
		list[i] = w.bucket()
		l.known.into(&list[i], name, now)
	}
	return list
}

// bucket is how it stood when it was read.
func (w *watch) bucket() Bucket {
	b := Bucket{Bucket: w.state, Read: !w.read.IsZero()}
	if rates, ok := w.window.rates(); ok && b.Read {
		b.Known = true
		b.Overflow = rates[1]
		b.Departed = w.flow
		b.In = max(0, rates[0]+w.flow) // what rose although so much left
	}
	b.Stalled = b.Read && w.stalled()
	return b
}

// stalled tells whether what should leave does not.
func (w *watch) stalled() bool { return w.flow == 0 && late(&w.state) }

// late tells whether a bucket that may let a job go has not, for long.
func late(b *queue.Bucket) bool {
	if b.Line == 0 || b.Paused || !b.Hold.IsZero() || b.Sick != "" || b.Out > 0 || b.Due.IsZero() {
		return false
	}
	return b.At.Sub(b.Due) > max(stalledLeast, 2*b.Interval)
}

// wanted are the names of the next step: those that were asked for longest ago, and whether it is time to read them as a whole. Those
// that nobody wants any more are forgotten.
func (l *Live) wanted(now time.Time) (names []string, whole bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, w := range l.buckets {
		if now.Sub(w.wanted) > wantedFor {
			delete(l.buckets, name)
			continue
		}
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(l.buckets[a].tried.Compare(l.buckets[b].tried), cmp.Compare(a, b))
	})
	names = names[:min(readMost, len(names))]
	return names, slices.ContainsFunc(names, func(name string) bool { return now.Sub(l.buckets[name].whole) >= wholeEvery })
}

// counted notes how many jobs are in the lines of buckets.
func (l *Live) counted(names []string, lines []int, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i, name := range names {
		w := l.buckets[name]
		if w == nil || w.read.IsZero() {
			continue
		}
		w.tried, w.state.Line, w.state.Level = now, lines[i], lines[i]+w.state.Later
		if m := l.known.marks[name]; m != nil {
			l.known.stands(m, lines[i], w.state.Later, now)
		}
	}
}

// saw notes how buckets stand.
func (l *Live) saw(names []string, states []queue.Bucket, now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, state := range states {
		w := l.buckets[state.Name()]
		if w == nil {
			continue
		}
		w.read, w.state = now, state
		w.window.add(state.At, 1, float64(state.Level), float64(state.Overflowed))
		if now.Sub(w.flowAt) > windowGap {
			w.flow = 0
		}
		l.known.note(state, now)
	}
	for _, name := range names {
		if w := l.buckets[name]; w != nil {
			if w.tried, w.whole = now, now; w.read != now { // its class is gone
				w.read, w.state, w.window = time.Time{}, queue.Bucket{}, window{}
			}
		}
	}
}

// flows notes what left the buckets, as workers told.
func (l *Live) flows(flow map[string]float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	for name, w := range l.buckets {
		w.flow, w.flowAt = flow[name], now
	}
}
