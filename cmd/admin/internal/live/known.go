package live

import (
	"strings"
	"time"

	"github.com/spout-queue/spout/queue"
)

// Shape is what keeps a bucket from letting its jobs go, as it is drawn.
type Shape string

// The shapes. One that is several at once has the first of them.
const (
	Sick     Shape = "sick" // workers set it aside
	Paused   Shape = "paused"
	Held     Shape = "held"
	Draining Shape = "draining" // it lets jobs go and admits none
	Open     Shape = "open"
)

// ShapeOf tells the shape of a bucket.
func ShapeOf(b queue.Bucket) Shape {
	switch {
	case b.Sick != "":
		return Sick
	case b.Paused:
		return Paused
	case !b.Hold.IsZero():
		return Held
	case b.Draining:
		return Draining
	}
	return Open
}

const (
	// knownMost bounds the buckets that are remembered; of more, those that are seen later are only counted.
	knownMost = 20_000
	// rejectedFor is how long a bucket counts as rejecting after it did.
	rejectedFor = 10 * time.Second
)

// known is what is known of all buckets that have jobs or are closed: the walks of the sweep tell how many jobs wait, and what was
// read as a whole the rest.
type known struct {
	marks    map[string]*mark
	slots    []*mark // the places of the grid, nil while nobody has one
	free     []int
	regions  map[spot]*region
	suspects map[string]bool // to be read as a whole
	whole    bool            // all were seen once
	news     int             // counts what somebody should see soon
}

func newKnown() known {
	return known{marks: map[string]*mark{}, regions: map[spot]*region{}, suspects: map[string]bool{}}
}

// mark is what is remembered of a bucket.
type mark struct {
	class, key         string
	line, later, level int
	capacity           int
	rate               queue.Rate
	interval           time.Duration
	shape              Shape // of its own, or that of its class
	overflowed         int64
	counted            bool // overflowed was read before
	late               bool // it is open, and its next departure is long overdue
	rejected           time.Time
	peaks              peaks
	slot               int
	region             *region // nil before a walk has seen it
	round              int     // of the region's walk that saw it last
	phase              phase
}

// pressure is how full it is, 1 at its capacity.
func (m *mark) pressure() float64 { return float64(m.level) / float64(max(1, m.capacity)) }

// empties is what its line takes at its rate.
func (m *mark) empties() time.Duration { return time.Duration(m.line) * m.interval }

func (m *mark) rejecting(now time.Time) bool {
	return !m.rejected.IsZero() && now.Sub(m.rejected) < rejectedFor
}

// shapeNow is its shape, as far as its own is known: that of its class closes it, too.
func (m *mark) shapeNow() Shape {
	if m.shape == Open && m.region != nil {
		return m.region.shape
	}
	return m.shape
}

// note remembers how a bucket stands that was read as a whole.
func (k *known) note(b queue.Bucket, now time.Time) {
	name := b.Name()
	delete(k.suspects, name)
	shape := ShapeOf(b)
	m := k.marks[name]
	if m == nil {
		if b.Level == 0 && shape == Open {
			return
		}
		if m = k.remember(name); m == nil {
			return
		}
	}
	is := late(&b)
	if shape != m.shape || is != m.late {
		k.news++
	}
	if m.counted && b.Overflowed > m.overflowed {
		if !m.rejecting(now) {
			k.news++
		}
		m.rejected = now
	}
	m.counted, m.overflowed, m.shape, m.late = true, b.Overflowed, shape, is
	m.capacity, m.rate, m.interval = b.Capacity, b.Rate, b.Interval
	k.stands(m, b.Line, b.Later, now)
}

// stands notes how many jobs a bucket has.
func (k *known) stands(m *mark, line, later int, now time.Time) {
	was := m.pressure()
	m.line, m.later, m.level = line, later, line+later
	if (m.pressure() >= 1) != (was >= 1) {
		k.news++
	}
	m.peaks.add(now, m.level)
}

// remember begins to remember a bucket, in a place of the grid which it keeps; nil when there are too many.
func (k *known) remember(name string) *mark {
	if len(k.marks) >= knownMost {
		return nil
	}
	m := &mark{shape: Open, slot: len(k.slots)}
	m.class, m.key, _ = strings.Cut(name, "/")
	if n := len(k.free); n > 0 {
		m.slot, k.free = k.free[n-1], k.free[:n-1]
		k.slots[m.slot] = m
	} else {
		k.slots = append(k.slots, m)
	}
	k.marks[name] = m
	return m
}

// tidy forgets the buckets that are empty and open, with their high-water marks.
func (k *known) tidy(now time.Time) {
	for _, m := range k.slots {
		if m == nil || m.level > 0 || m.shapeNow() != Open || m.rejecting(now) || m.peaks.highest(now) > 0 {
			continue
		}
		k.forget(m)
	}
}

// forget gives the place of a bucket free.
func (k *known) forget(m *mark) {
	k.slots[m.slot] = nil
	k.free = append(k.free, m.slot)
	delete(k.marks, m.class+"/"+m.key)
}

// into tells what is remembered of a bucket: its high-water mark and, while it was not read, how it stood in the sweep.
func (k *known) into(b *Bucket, name string, now time.Time) {
	m := k.marks[name]
	if !b.Read {
		b.Class, b.Key, _ = strings.Cut(name, "/")
		if m != nil {
			b.Level, b.Capacity, b.Rate = m.level, m.capacity, m.rate
		}
	}
	b.High = b.Level
	if m != nil {
		b.High = max(m.peaks.highest(now), b.Level)
	}
}

const (
	peakLong = 30 * time.Second
	peakMost = 10
)

// peaks are the highest levels of the last ten half minutes.
type peaks struct {
	at   int64 // the newest half minute
	high [peakMost]int32
}

func (p *peaks) add(now time.Time, level int) {
	p.turn(now)
	i := p.at % peakMost
	p.high[i] = max(p.high[i], int32(min(level, 1<<30))) //nolint:gosec // it fits
}

// turn empties the half minutes that passed.
func (p *peaks) turn(now time.Time) {
	at := now.UnixNano() / int64(peakLong)
	for i := max(p.at+1, at-peakMost+1); i <= at; i++ {
		p.high[i%peakMost] = 0
	}
	p.at = max(p.at, at)
}

func (p *peaks) highest(now time.Time) int {
	p.turn(now)
	highest := int32(0)
	for _, h := range p.high {
		highest = max(highest, h)
	}
	return int(highest)
}
