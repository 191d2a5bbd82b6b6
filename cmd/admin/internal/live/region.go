package live

import (
	"strings"
	"time"

	"github.com/spout-queue/spout/queue"
)

// spot is a class in one shard.
type spot struct {
	class string
	shard int
}

// region is what the sweep knows of a spot. While nothing in it moves, nothing of it is read.
type region struct {
	settings
	moves  int64     // of its books when the walk through it was decided on
	walked time.Time // when that was
	waits  bool      // that walk is not over
	ended  bool      // it just is
	round  int       // counts the walks
	left   int       // buckets that were not remembered in this walk, and
	over   int       // in the one before
}

// settings of a class that its buckets share.
type settings struct {
	capacity int
	rate     queue.Rate
	shape    Shape // of the class itself
}

func settingsOf(s queue.Standing) settings {
	shape := Open
	switch {
	case s.Paused:
		shape = Paused
	case s.Held:
		shape = Held
	case s.Draining:
		shape = Draining
	}
	return settings{s.Capacity, s.Rate, shape}
}

// walkAgain is after how long a region is walked where nothing moves.
const walkAgain = 2 * time.Minute

// decide tells through which spots a walk is to go now: those where something moved since the last was decided on.
func (k *known) decide(standings []queue.Standing, now time.Time) (walks []spot) {
	there := make(map[string]bool, len(standings))
	for _, s := range standings {
		there[s.Class] = true
		is := settingsOf(s)
		for shard, moves := range s.Moves {
			at := spot{s.Class, shard}
			r := k.regions[at]
			if r == nil {
				r = &region{}
				k.regions[at] = r
			}
			if r.settings != is {
				k.settle(r, is)
				r.moves = -1 // also after a walk that is under way
			}
			if r.waits || r.moves == moves && now.Sub(r.walked) < walkAgain {
				continue
			}
			r.moves, r.walked, r.waits, r.left = moves, now, true, 0
			r.round++
			walks = append(walks, at)
		}
	}
	left := map[string]bool{}
	for at := range k.regions {
		if !there[at.class] {
			left[at.class] = true
			delete(k.regions, at)
		}
	}
	for _, m := range k.slots { // with a class its buckets are gone, however full they were
		if m != nil && left[m.class] {
			k.forget(m)
			k.news++
		}
	}
	k.gone(now)
	return walks
}

// settle gives a region other settings. What had the shape of its class is looked at again.
func (k *known) settle(r *region, is settings) {
	for name, m := range k.marks {
		if m.region != r || r.shape == is.shape {
			continue
		}
		if m.shape == r.shape {
			m.shape = Open
		}
		k.suspects[name] = true
	}
	r.settings = is
	k.news++
}

// phase is what the index alone tells of a bucket.
type phase int8

const (
	flowing phase = iota
	shut          // closed, held, or without a free place for what is out
	overdue
)

func (r *region) phaseOf(l queue.Level) phase {
	interval := r.rate.Interval()
	switch {
	case l.Opens > interval+time.Second:
		return shut
	case l.Line > 0 && l.Opens < -max(stalledLeast, 2*interval):
		return overdue
	}
	return flowing
}

// fewMarks is up to how many buckets a new one is read as a whole at once, whatever the walk tells of it.
const fewMarks = 1000

// saw notes what a walk found. A bucket about which there may be more to tell is to be read as a whole.
func (k *known) saw(at spot, l queue.Level, now time.Time) {
	r := k.regions[at]
	if r == nil { // the class is gone by now
		return
	}
	p, m := r.phaseOf(l), k.marks[l.Name]
	doubt := false
	if m == nil {
		if l.Line == 0 && l.Later <= 0 && p == flowing {
			return
		}
		if m = k.remember(l.Name); m == nil {
			r.left++
			return
		}
		m.interval = r.rate.Interval()
		doubt = len(k.marks) <= fewMarks
	}
	sick := l.Line == 0 && l.Later < 0
	later := max(0, l.Later)
	if l.Line > 0 {
		later = m.later
	}
	if doubt || p != m.phase || later > 0 && l.Line != m.line || l.Line+later >= r.capacity || sick && m.shape != Sick {
		k.suspects[l.Name] = true
	}
	m.region, m.round, m.phase = r, r.round, p
	m.capacity, m.rate = r.capacity, r.rate
	if !sick {
		k.stands(m, l.Line, later, now)
	}
}

// walkedThrough ends the walk through a spot.
func (k *known) walkedThrough(at spot) {
	if r := k.regions[at]; r != nil {
		r.waits, r.ended, r.over = false, true, r.left
	}
}

// gone empties the buckets that the walks that ended did not see: they are not in the index any more.
func (k *known) gone(now time.Time) {
	for _, m := range k.slots {
		if m != nil && m.region != nil && m.region.ended && m.round != m.region.round {
			m.shape, m.late, m.region = Open, false, nil
			k.stands(m, 0, 0, now)
		}
	}
	for _, r := range k.regions {
		r.ended = false
	}
}

// doubts takes up to n buckets that are to be read as a whole.
func (k *known) doubts(n int) []string {
	names := make([]string, 0, min(n, len(k.suspects)))
	for name := range k.suspects {
		if len(names) == n {
			break
		}
		names = append(names, name)
	}
	return names
}

// over is how many buckets there are beside those that are remembered.
func (k *known) over() (n int) {
	for _, r := range k.regions {
		n += max(r.left, r.over)
	}
	return n
}

func classOf(name string) string {
	class, _, _ := strings.Cut(name, "/")
	return class
}
