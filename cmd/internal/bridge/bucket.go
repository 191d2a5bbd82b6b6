package bridge

import (
	"slices"
	"sort"
	"time"

	"github.com/spout-queue/spout/cmd/internal/jobstream"
	"github.com/spout-queue/spout/queue"
)

const (
	// lateness is how long after its due time a departure may happen, so how much longer than told a place may take.
	lateness = 25 * time.Millisecond
	// patientRefusals in a row are normal where several producers compete. After more, probably nobody drains.
	patientRefusals = 3
	leastBackoff    = 100 * time.Millisecond
	mostBackoff     = 5 * time.Second
	// blindWait is the wait where nobody can tell a time: the bucket is paused, or broken.
	blindWait = time.Second
	// drainingWait is how often a draining bucket is asked whether it was resumed.
	drainingWait = 5 * time.Second
	// delayMost is the longest that a message is put off at once: a bucket that opens earlier than it told, because its
	// class was changed or it was purged, is noticed after that.
	delayMost = time.Minute
	// soon is how long before a bucket opens those that come early may stay, if they would be away for long.
	soon = 10 * lateness
)

// bucket is the messages of one key that were delivered and are not final. It exists only while there are some.
type bucket struct {
	key      string
	waiting  []uint64   // sequences of all of them, ascending; bounded by [jobstream.Window]
	hand     []*message // those that are here, ascending; the others come back by themselves
	flying   int        // how many of the hand, from the first, are in a call
	refusals int        // in a row
	opens    time.Time  // no room before then
	queued   bool       // in the line's list of ready ones
	absent   time.Time  // since when the first one was seen not to be here
}

// overdue tells, when asked now and then, that the first message has not come back when it should have.
func (b *bucket) overdue(now time.Time) bool {
	switch {
	case b.leads():
		b.absent = time.Time{}
	case b.absent.IsZero():
		b.absent = now
	}
	return !b.absent.IsZero() && now.Sub(b.absent) > delayMost+ackWait
}

// arrive notes a delivery. It tells whether the message is new to the hand: one that was redelivered while it is in the
// hand is the same message.
func (b *bucket) arrive(m *message) (index int, taken bool) {
	index, known := slices.BinarySearch(b.waiting, m.seq)
	if !known {
		b.waiting = slices.Insert(b.waiting, index, m.seq)
	}
	at, here := b.find(m.seq)
	if here {
		return index, false
	}
	b.hand = slices.Insert(b.hand, at, m)
	return index, true
}

func (b *bucket) find(seq uint64) (int, bool) {
	return slices.BinarySearchFunc(b.hand, seq, func(m *message, seq uint64) int {
		switch {
		case m.seq < seq:
			return -1
		case m.seq > seq:
			return 1
		}
		return 0
	})
}

// eligible is how many of the hand may be submitted, from the first, at most so many: none is let past an earlier message that is
// not here.
func (b *bucket) eligible(most int) int {
	return sort.Search(min(most, len(b.hand)), func(i int) bool { return !b.gapless(i) })
}

// gapless tells that all messages up to an index of waiting are here: both lists ascend, and what is here is among those that wait.
func (b *bucket) gapless(index int) bool {
	return index < len(b.hand) && b.hand[index].seq == b.waiting[index]
}

// leads tells that the first of the hand may be submitted.
func (b *bucket) leads() bool { return b.gapless(0) }

// take is how many of the hand may go into one call of at most so many jobs and bytes. Those of a call are decided at one
// moment, in order: the first refusal for lack of room is one for all behind it. That holds only for jobs on the same terms:
// one without max_wait may be admitted behind one that would wait too long.
func (b *bucket) take(jobs, bytes int) int {
	n, most := 0, b.eligible(jobs)
	for n < most {
		m := b.hand[n]
		if bytes -= len(m.job.Payload); bytes < 0 {
			break
		}
		first := &b.hand[0].job
		if m.job.MaxWait != first.MaxWait || !m.job.NotBefore.Equal(first.NotBefore) {
			break
		}
		n++
	}
	return n
}

// final takes a message of the hand off the books.
func (b *bucket) final(m *message) {
	if len(b.hand) > 0 && b.hand[0] == m { // nearly always
		b.hand[0] = nil
		b.hand = b.hand[1:]
	} else if at, here := b.find(m.seq); here {
		b.hand = slices.Delete(b.hand, at, at+1)
	}
	switch at, known := slices.BinarySearch(b.waiting, m.seq); {
	case known && at == 0: // there may be many
		b.waiting = b.waiting[1:]
	case known:
		b.waiting = slices.Delete(b.waiting, at, at+1)
	}
}

// forget takes all messages before one off the books, and returns those of them that were in the hand.
func (b *bucket) forget(first uint64) (dropped []*message) {
	at, _ := slices.BinarySearch(b.waiting, first)
	b.waiting = b.waiting[at:]
	here, _ := b.find(first)
	dropped, b.hand = b.hand[:here:here], b.hand[here:]
	b.absent = time.Time{}
	return dropped
}

// refuse closes the bucket for as long as it told, and longer when it was refused often.
func (b *bucket) refuse(now time.Time, told time.Duration) {
	b.refusals++
	wait := told + lateness
	if over := b.refusals - patientRefusals; over > 0 {
		wait = max(wait, min(leastBackoff<<min(over, 10), mostBackoff))
	}
	b.opens = now.Add(min(wait, delayMost))
}

// delay is for how long the message at an index of waiting is put off: until the bucket opens, and as many intervals longer
// as there are messages before it.
func (b *bucket) delay(now time.Time, index int, interval time.Duration) time.Duration {
	wait := max(b.opens.Sub(now), time.Millisecond)
	if index > jobstream.Window {
		return delayMost
	}
	return min(wait+time.Duration(index)*min(interval, delayMost), delayMost)
}

// goesBack is for how long a message that comes while the bucket is shut is put off. It is not, when it would be away for the
// longest time and the bucket is about to be asked: should it have room by then, that would be noticed a minute late.
func (b *bucket) goesBack(now time.Time, index int, interval time.Duration) (delay time.Duration, ok bool) {
	delay = b.delay(now, index, interval)
	return delay, delay < delayMost || b.opens.Sub(now) > soon
}

// noRoom tells how long a refusal asks to wait, and whether it is one for lack of room.
func noRoom(err error, full *queue.FullError) (wait time.Duration, ok bool) {
	switch reason := queue.ReasonOf(err); {
	case reason == queue.ReasonDraining:
		return drainingWait, true
	case full == nil:
		return blindWait, false
	case full.Paused:
		return blindWait, true
	}
	return full.RetryAfter, true
}
