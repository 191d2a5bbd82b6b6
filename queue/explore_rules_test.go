package queue_test

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/spout-queue/spout/queue"
)

// act is one call that changes something, and what it may change.
type act struct {
	kind    string // submit, depart, settle, leave, purge, pause, resume, put
	worker  string
	bucket  string                      // of a purge
	refs    []string                    // of a submit
	settles map[[2]string]queue.Outcome // of ref and stamp
	reply   []queue.Departure
}

// pace follows GCRA(T, catch-up) over the departures of one bucket, in time that never steps back.
type pace struct {
	slot float64
	any  bool
}

// judge compares the state before and after a call with what the call may change, and checks the laws.
func (x *explorer) judge(before *seen, a act) {
	after := x.now
	for _, text := range after.trouble {
		x.must(false, "%s", text)
	}
	refs := slices.Collect(maps.Keys(after.places))
	for ref := range before.places {
		if _, ok := after.places[ref]; !ok {
			refs = append(refs, ref)
		}
	}
	slices.Sort(refs)
	left := map[string][]string{} // by bucket
	for _, ref := range refs {
		from, to := before.places[ref], after.places[ref]
		if from == to {
			continue
		}
		if a.kind == "submit" && from.bucket != "" && to.bucket != "" { // expired, and then admitted anew
			x.must(x.allowed(a, ref, from, place{}, before), "submit moved job %s from %+v to %+v", ref, from, to)
			x.account(ref, from, place{})
			from = place{}
		}
		x.must(x.allowed(a, ref, from, to, before), "%s moved job %s from %+v to %+v", a.kind, ref, from, to)
		x.account(ref, from, to)
		if to.kind == "out" {
			left[to.bucket] = append(left[to.bucket], ref)
		}
	}
	for bucket, jobs := range left {
		x.judgeDepartures(before, bucket, jobs)
	}
	x.judgeAdmissions(before, a)
	x.judgeReply(a)
	x.checkIndex()
	x.checkBooks()
	x.checkSlots()
}

// allowed tells whether a call may move a job so.
func (x *explorer) allowed(a act, ref string, from, to place, before *seen) bool {
	waits := from.kind == "line" || from.kind == "later"
	final := to.kind == "" || to.kind == "mark"
	if r := before.records[ref]; final && r.expires > 0 && (waits || a.kind == "depart" && from.worker == a.worker) {
		late := r.expires+x.classOf(r.bucket).CatchUp.Microseconds() < x.clock
		if late && (a.kind == "depart" || a.kind == "submit") {
			return true
		}
	}
	back := from.kind == "out" && from.worker == a.worker && to.kind == "line" && x.home[ref] == to.score
	switch a.kind {
	case "submit":
		return (from.kind == "" || from.kind == "mark") && to.bucket != "" && to.kind != "out" && slices.Contains(a.refs, ref)
	case "depart":
		back = back && !x.knows(a.worker, ref, from.stamp)
		again := from.worker == a.worker && from.stamp != to.stamp && !x.knows(a.worker, ref, from.stamp)
		own := to.kind == "out" && to.worker == a.worker && (waits || again)
		joined := from.kind == "later" && to.kind == "line" && from.score == to.score && to.score <= x.clock
		return back || own || joined
	case "leave":
		return back
	case "settle":
		v := a.settles[[2]string{ref, from.stamp}]
		own := from.kind == "out" && from.worker == a.worker
		return own && (v == queue.Back && back || v == queue.Dead && to.kind == "dead" || v == queue.Done && final)
	case "purge":
		return waits && final && from.bucket == a.bucket
	}
	return false
}

// knows tells whether a worker has heard of a departure: it may be running it.
func (x *explorer) knows(worker, ref, stamp string) bool {
	for _, w := range slices.Concat(x.workers, x.gone) {
		for _, v := range w.known {
			if w.name == worker && v.Ref == ref && v.Stamp == stamp {
				return true
			}
		}
	}
	return false
}

// checkOut: after a call whose reply it has, a worker knows of all that it has out.
func (x *explorer) checkOut(w *exploreWorker) {
	for ref, p := range x.now.places {
		if p.kind == "out" && p.worker == w.name {
			x.must(x.knows(w.name, ref, p.stamp), "%s has %s out and was never told", w.name, ref)
		}
	}
}

// account keeps the ledger: every admission ends somewhere.
func (x *explorer) account(ref string, from, to place) {
	waits := func(p place) bool { return p.kind == "line" || p.kind == "later" }
	class, _, _ := strings.Cut(max(from.bucket, to.bucket), "/")
	if waits(to) && (from.kind == "" || from.kind == "mark") {
		x.admitted[class]++
		x.home[ref] = to.score
	}
	if from.bucket != "" && to.bucket == "" {
		x.ended[class]++
	}
}

// judgeAdmissions is law 1.
func (x *explorer) judgeAdmissions(before *seen, a act) {
	if a.kind != "submit" {
		return
	}
	for name, b := range x.now.buckets {
		level := b.line + b.later
		was := 0
		if old := before.buckets[name]; old != nil {
			was = old.line + old.later
		}
		x.must(level <= max(was, x.classOf(name).Capacity), "a submission raised the level of %s from %d to %d", name, was, level)
	}
}

// judgeDepartures is laws 2, 3 and 7 for what left one bucket in one call.
func (x *explorer) judgeDepartures(before *seen, bucket string, jobs []string) {
	after, class := x.now, x.classOf(bucket)
	home := func(ref string) int64 { return x.home[ref] }
	slices.SortFunc(jobs, func(a, b string) int { return after.order(a, b, home) })
	last := jobs[len(jobs)-1]
	for ref, p := range after.places {
		if p.bucket == bucket && (p.kind == "line" || p.kind == "later" && p.score <= x.clock) {
			x.must(after.order(last, ref, home) < 0, "job %s left %s before job %s, which comes first", last, bucket, ref)
		}
	}
	for _, ref := range jobs {
		r := after.records[ref]
		x.must(r.expires == 0 || r.expires+class.CatchUp.Microseconds() >= x.clock, "job %s departed after it expired", ref)
		x.must(!x.stamps[after.places[ref].stamp], "stamp %s was used before", after.places[ref].stamp)
		x.stamps[after.places[ref].stamp] = true
		x.paced(bucket, class)
		b := before.buckets[bucket]
		x.must(!before.paused[class.Name] && (b == nil || !b.paused), "job %s left %s, which is paused", ref, bucket)
	}
}

// depart takes one departure at a time and returns the earliest time that the pace allowed for it.
func (p *pace) depart(at float64, class queue.Class) (due float64) {
	due = math.Inf(-1)
	if p.any {
		due = p.slot + intervalOf(class.Rate)
	}
	p.slot, p.any = max(due, at-float64(class.CatchUp.Microseconds())), true
	return due
}

// paced takes one departure of a bucket at this moment.
func (x *explorer) paced(bucket string, class queue.Class) {
	if x.paces[bucket] == nil {
		x.paces[bucket] = &pace{}
	}
	due := x.paces[bucket].depart(x.real, class)
	x.must(x.real >= due-1e-2, "%s: a departure at %.3f, not before %.3f", bucket, x.real, due)
}

// checkSlots: no bucket forgets a slot that still counts, nor remembers an earlier one.
func (x *explorer) checkSlots() {
	for bucket, p := range x.paces {
		b := x.now.buckets[bucket]
		if b == nil || !b.hasSlot {
			due := p.slot + intervalOf(x.classOf(bucket).Rate)
			x.must(due <= x.real+1e-2, "%s forgot its slot; it is due at %.3f", bucket, due)
			continue
		}
		x.must(b.slot+x.back >= p.slot-1e-2, "%s has slot %.3f, departures say %.3f", bucket, b.slot+x.back, p.slot)
	}
}

// judgeReply: what a depart call says is true, it left nothing behind that could go, and one bucket's jobs come in order.
func (x *explorer) judgeReply(a act) {
	last := map[string]string{}
	home := func(ref string) int64 { return x.home[ref] }
	for _, d := range a.reply {
		p := x.now.places[d.Ref]
		x.must(p.kind == "out" && p.worker == a.worker && p.stamp == d.Stamp, "the reply names %s, which is %+v", d.Ref, p)
		if before, ok := last[p.bucket]; ok {
			x.must(x.now.order(before, d.Ref, home) < 0, "the reply of %s is out of order", p.bucket)
		}
		last[p.bucket] = d.Ref
	}
}

// nothingOpen: after a depart call that could have taken more, no bucket is open.
func (x *explorer) nothingOpen() {
	for name, b := range x.now.buckets {
		class := x.classOf(name)
		if b.paused || x.now.paused[class.Name] || b.line == 0 && b.joins > x.clock || b.line+b.later == 0 {
			continue
		}
		due := math.Inf(-1)
		if b.hasSlot {
			due = b.slot + intervalOf(class.Rate)
		}
		x.must(due > float64(x.clock) || x.clock < x.latest, "%s is open since %.3f and was left alone", name, due)
	}
}

func (x *explorer) classOf(bucket string) queue.Class {
	class, _, _ := strings.Cut(bucket, "/")
	return x.classes[class]
}

func intervalOf(r queue.Rate) float64 {
	return float64(r.Period.Microseconds()) / float64(r.Limit)
}

// must notes the first law that is broken.
func (x *explorer) must(ok bool, format string, args ...any) {
	if !ok && x.broken == nil {
		x.broken = fmt.Errorf(format, args...)
	}
}
