package bulk

import (
	"slices"
	"time"

	"github.com/spout-queue/spout/queue"
)

const (
	// lateness is how long after its due time a departure may happen, so how much longer than told a place may take.
	lateness = 25 * time.Millisecond
	// patientRefusals in a row are normal where several producers compete. After more, probably nobody drains.
	patientRefusals = 3
	leastBackoff    = 100 * time.Millisecond
	mostBackoff     = 5 * time.Second
	// blindWait is the wait where nobody can tell a time: Redis is full, or away, or the bucket is paused.
	blindWait = time.Second
)

// bucket is the lines of one bucket that wait to be submitted, in the order of the input. It exists only while it has some.
type bucket struct {
	name  string
	lines []line

	room     int  // lines that may go into the next call
	refusals int  // in a row
	closed   bool // until openAt
	openAt   time.Time
	failing  time.Time // since when Redis gives no answer
}

// take counts the lines at the head that may go into one call of at most lines and bytes. Those of a call are decided at
// one moment, in order: the first refusal for lack of room is one for all behind it, and none overtakes another. That holds
// only for jobs on the same terms: one without max_wait may be admitted behind one that would wait too long.
func (b *bucket) take(lines, bytes int) int {
	n := 0
	for n < min(len(b.lines), lines, b.room) {
		l := &b.lines[n]
		if bytes -= len(l.job.Payload); bytes < 0 {
			break
		}
		if first := &b.lines[0].job; l.job.MaxWait != first.MaxWait || !l.job.NotBefore.Equal(first.NotBefore) {
			break
		}
		n++
	}
	return n
}

// admitted notes how much room a receipt shows. That of a duplicate is from long ago.
func (b *bucket) admitted(r queue.Receipt) {
	b.refusals = 0
	b.room = batchMost
	if r.Status == queue.Admitted {
		b.room = max(1, r.Capacity-r.Level)
	}
}

// refused closes the bucket until the time that was told; behind it one line goes first, to see.
func (b *bucket) refused(now time.Time, told time.Duration) {
	b.room = 1
	b.refusals++
	wait := told + lateness
	if over := b.refusals - patientRefusals; over > 0 {
		wait = max(wait, min(leastBackoff<<min(over, 10), mostBackoff))
	}
	b.openAt = now.Add(wait)
}

// pending is all lines that were read and not answered.
type pending struct {
	buckets map[string]*bucket
	ready   []*bucket // may be submitted to now, the one that waited longest first
	closed  []*bucket // not before their openAt
	next    time.Time // when the first closed one opens, or earlier
	most    bounds
	lines   int
	bytes   int
	idle    int // lines of closed buckets
}

// full tells that no more of the input may be held.
func (p *pending) full() bool { return p.lines >= p.most.lines || p.bytes >= p.most.bytes }

func (p *pending) add(l line) {
	name := l.job.Class + "/" + l.job.Key
	b := p.buckets[name]
	if b == nil {
		b = &bucket{name: name, room: batchMost}
		p.buckets[name] = b
		p.ready = append(p.ready, b)
	}
	b.lines = append(b.lines, l)
	if b.closed {
		p.idle++
	}
	p.lines++
	p.bytes += l.size
}

// drop takes an answered line off the count.
func (p *pending) drop(l line) {
	p.lines--
	p.bytes -= l.size
}

// open makes the buckets ready whose time has come.
func (p *pending) open(now time.Time) {
	if len(p.closed) == 0 || now.Before(p.next) {
		return
	}
	p.next = now.Add(mostBackoff)
	p.closed = slices.DeleteFunc(p.closed, func(b *bucket) bool {
		if !now.Before(b.openAt) {
			b.closed = false
			p.idle -= len(b.lines)
			p.ready = append(p.ready, b)
			return true
		}
		p.closeUntil(b.openAt)
		return false
	})
}

func (p *pending) closeUntil(at time.Time) {
	if at.Before(p.next) {
		p.next = at
	}
}

// put a bucket back after a call.
func (p *pending) put(now time.Time, b *bucket) {
	switch {
	case len(b.lines) == 0:
		delete(p.buckets, b.name)
	case b.openAt.After(now):
		if len(p.closed) == 0 {
			p.next = b.openAt
		}
		p.closeUntil(b.openAt)
		b.closed = true
		p.idle += len(b.lines)
		p.closed = append(p.closed, b)
	default:
		p.ready = append(p.ready, b)
	}
}

// flight is the lines of one bucket in a call: its first n.
type flight struct {
	bucket *bucket
	n      int
}

// batch collects one call. What it takes from a bucket stays at its head until it is answered.
func (p *pending) batch(most int) (jobs []queue.Job, flights []flight) {
	bytes := batchBytes
	for i, b := range p.ready {
		n := b.take(most-len(jobs), bytes)
		if n == 0 && len(jobs) > 0 {
			p.ready = slices.Delete(p.ready, 0, i)
			return jobs, flights
		}
		n = max(n, 1) // a payload that is too large is for the queue to refuse
		for _, l := range b.lines[:n] {
			jobs = append(jobs, l.job)
			bytes -= len(l.job.Payload)
		}
		flights = append(flights, flight{b, n})
	}
	p.ready = p.ready[:0]
	return jobs, flights
}
