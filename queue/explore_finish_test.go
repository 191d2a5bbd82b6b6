package queue_test

import (
	"errors"
	"slices"

	"github.com/spout-queue/spout/queue"
)

// finish drains everything, and finds that nothing was lost and nothing is left.
func (x *explorer) finish() {
	for len(x.held) > 0 {
		x.arrive()
	}
	for _, class := range sortedKeys(x.classes) {
		accounts, err := x.operator.Audit(x.ctx, class)
		x.must(err == nil && len(accounts) == 1 && len(accounts[0].Off) == 0, "audit of %s: %+v, %v", class, accounts, err)
		x.openAll(class)
	}
	for _, w := range slices.Concat(x.workers, x.gone) {
		x.leave(w, noFault)
	}
	revive := x.random.IntN(2) == 0
	for _, class := range sortedKeys(x.classes) {
		if revive && x.now.class[class].dead > 0 {
			x.reviveAll(class)
		}
	}
	x.drain()
	for _, class := range sortedKeys(x.classes) {
		if x.now.class[class].dead > 0 {
			x.purgeDead(class, "")
		}
	}
	x.checkEmpty()
}

// openAll ends what keeps the buckets of a class closed.
func (x *explorer) openAll(class string) {
	var err error
	if c := x.now.class[class]; c.paused || c.draining {
		x.do(act{kind: "hand"}, func(*act) { err = x.operator.Classes().Resume(x.ctx, class) })
	}
	for _, key := range []string{"a", "b"} {
		b := x.now.buckets[class+"/"+key]
		if b != nil && (b.paused || b.draining) {
			x.do(act{kind: "hand"}, func(*act) { err = errors.Join(err, x.operator.Buckets().Resume(x.ctx, class, key)) })
		}
		if b != nil && (b.hold > 0 || b.backoff > 0) {
			x.unhold(class, key)
		}
	}
	x.must(err == nil, "resume %s: %v", class, err)
}

func (x *explorer) checkEmpty() {
	for class := range x.classes {
		in := x.admitted[class] + x.revived[class]
		x.must(in == x.ended[class], "%s: %d jobs were admitted or revived, %d ended", class, in, x.ended[class])
		b := x.now.books[class]
		x.must(x.admitted[class] == b["admitted"] && x.revived[class] == b["revived"], "the books of %s say otherwise: %v", class, b)
	}
	x.must(len(x.now.buckets) == 0 && len(x.now.due) == 0 && len(x.now.classes) == 0, "left over: %+v", x.now)
	x.must(len(x.now.cancels) == 0, "cancellations are left over: %v", x.now.cancels)
	for ref, p := range x.now.places {
		x.must(p.kind == "mark", "job %s is left over: %+v", ref, p)
	}
	for worker, beat := range x.now.workers {
		x.must(beat[0] == '-', "worker %s has left, its beat is %s", worker, beat)
	}
	for _, key := range x.now.other {
		known := []string{"spout:meta", exploreTag + "clock", exploreTag + "classes"}
		x.must(slices.Contains(known, key), "key %s is left over", key)
	}
}

// drain empties all buckets as a worker does that sleeps exactly as long as it is told.
func (x *explorer) drain() {
	w := x.hire(x.operator)
	for idle := 0; x.broken == nil; {
		d := x.depart(w, queue.Ask{Want: 1 + x.random.IntN(100), Suspect: true}, noFault)
		if len(d.Jobs) > 0 {
			x.settle(w, w.known, noFault)
			w.known = nil
		}
		if d.Wait < 0 && len(d.Jobs) == 0 {
			break
		}
		idle++
		if len(d.Jobs) > 0 || d.Wait > 0 {
			idle = 0
		}
		x.must(idle < 3, "workers are told to call again at once, and nothing departs")
		x.advance(max(0, d.Wait.Microseconds()))
	}
	x.leave(w, noFault)
}
