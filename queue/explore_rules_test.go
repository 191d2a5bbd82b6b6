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
	// submit, depart, settle, leave, reclaim, cancel, revive, purge, dead purge, trim; hand: moves no job.
	kind    string
	worker  string
	bucket  string                      // of a purge; class or class/key of a dead purge
	refs    []string                    // of a submit, cancel, revive
	settles map[[2]string]queue.Verdict // of ref and stamp
	suspect bool                        // of a depart: it may take one
	moves   int                         // of a reclaim: how often the worker's beat had moved when it was seen
	reply   *queue.Departures
}

// move is what a call did to one job.
type move struct {
	ref      string
	from, to place
	was      record // before the call
}

// pace follows GCRA(T, catch-up) over the departures of one bucket, in time that never steps back.
type pace struct {
	slot float64
	any  bool
}

// judge compares the state before and after a call with what the call may change, and checks the laws.
func (x *explorer) judge(before *seen, a act) {
	x.before = before
	for _, text := range x.now.trouble {
		x.must(false, "%s", text)
	}
	x.judgeBeats(a)
	if x.now.server != before.server && x.now.since > 0 {
		x.notice()
	}
	left := map[string][]string{} // by bucket
	seenAdmitted := map[string]int64{}
	for _, m := range x.moves(a) {
		if m.from == m.to {
			continue
		}
		x.must(x.allowed(a, m), "%s moved job %s from %+v to %+v", a.kind, m.ref, m.from, m.to)
		x.judgeEnd(a, m)
		x.account(a, m, seenAdmitted)
		if m.to.kind == "out" {
			left[m.to.bucket] = append(left[m.to.bucket], m.ref)
		}
	}
	x.accountUnseen(a, seenAdmitted)
	for _, bucket := range sortedKeys(left) {
		x.judgeDepartures(bucket, left[bucket])
	}
	x.judgeSuspects(a, left)
	x.judgePasts()
	x.judgeLevels(a)
	x.judgeReply(a)
	x.checkIndex()
	x.checkBuckets()
	x.checkBooks()
	x.checkSlots()
}

// moves lists what became of every job, in order. A job that a submission admitted anew after it had come to its end in
// that very call, dropped or expired, moved twice.
func (x *explorer) moves(a act) []move {
	refs := slices.Collect(maps.Keys(x.now.places))
	for ref := range x.before.places {
		if _, ok := x.now.places[ref]; !ok {
			refs = append(refs, ref)
		}
	}
	slices.Sort(refs)
	moves := make([]move, 0, len(refs))
	for _, ref := range refs {
		m := move{ref, x.before.places[ref], x.now.places[ref], x.before.records[ref]}
		if a.kind == "submit" && m.from != m.to && m.from.bucket != "" && m.to.bucket != "" {
			moves = append(moves, move{ref, m.from, place{}, m.was})
			m.from = place{}
		}
		moves = append(moves, m)
	}
	return moves
}

// allowed tells whether a call may move a job so.
func (x *explorer) allowed(a act, m move) bool {
	if x.mayExpire(a, m) {
		return true
	}
	if m.from.kind == "dead" && (a.kind == "settle" || a.kind == "reclaim") { // it made room for another
		return x.mayTrim(m)
	}
	switch a.kind {
	case "submit":
		admitted := m.from.over() && m.to.waits() && slices.Contains(a.refs, m.ref)
		return admitted && x.numbered(m) || x.mayDrop(a, m)
	case "depart":
		return x.mayDepart(a, m)
	case "leave":
		return m.from.kind == "out" && m.from.worker == a.worker && x.returned(m)
	case "reclaim":
		return m.from.kind == "out" && m.from.worker == a.worker && x.mayReclaim(m)
	case "settle":
		v, ok := a.settles[[2]string{m.ref, m.from.stamp}]
		return ok && m.from.kind == "out" && m.from.worker == a.worker && x.maySettle(m, v)
	case "purge":
		return m.from.waits() && m.to.over() && m.from.bucket == a.bucket
	case "cancel":
		return m.from.waits() && m.to.over() && slices.Contains(a.refs, m.ref)
	case "revive":
		return m.from.kind == "dead" && m.to.kind == "line" && slices.Contains(a.refs, m.ref) && x.numbered(m)
	case "dead purge":
		of := m.was.bucket == a.bucket || strings.HasPrefix(m.was.bucket, a.bucket+"/")
		return m.from.kind == "dead" && m.to.over() && of
	case "trim":
		return x.mayTrim(m)
	}
	return false
}

// numbered tells whether a job that comes in, or goes to the tail, got a number that was never given.
func (x *explorer) numbered(m move) bool {
	r := x.now.records[m.ref]
	return r.number > x.before.stamp && r.number <= x.now.stamp && (r.delayed || m.to.score == r.number)
}

// mayExpire: a job that has waited too long goes when its bucket is looked at.
func (x *explorer) mayExpire(a act, m move) bool {
	looks := a.kind == "depart" || a.kind == "submit" || a.kind == "revive"
	late := m.was.expires > 0 && m.was.expires+x.classOf(m.was.bucket).CatchUp.Microseconds() < x.clock
	own := a.kind == "depart" && m.from.worker == a.worker && !x.knows(a.worker, m.ref, m.from.stamp)
	return looks && late && m.to.over() && (m.from.waits() || own)
}

// mayDrop: a full bucket drops the job that would leave next. One that came with the same call may be gone unseen.
func (x *explorer) mayDrop(a act, m move) bool {
	bucket := m.was.bucket
	if m.from.over() {
		bucket = x.now.records[m.ref].bucket
		return m.to.over() && slices.Contains(a.refs, m.ref) && x.classOf(bucket).Overflow == queue.DropOldest
	}
	if !m.from.waits() || !m.to.over() || x.classOf(bucket).Overflow != queue.DropOldest {
		return false
	}
	home := func(ref string) int64 { return x.home[ref] }
	for ref, p := range x.now.places {
		if old := x.before.places[ref]; old == p && p.bucket == bucket && p.waits() {
			if p.kind == "line" && (m.from.kind == "later" || x.before.order(ref, m.ref, home) < 0) {
				return false
			}
		}
	}
	return true
}

func (x *explorer) mayDepart(a act, m move) bool {
	unseen := m.from.kind == "out" && m.from.worker == a.worker && !x.knows(a.worker, m.ref, m.from.stamp)
	own := m.to.kind == "out" && m.to.worker == a.worker
	switch {
	case unseen && own:
		return m.from.stamp != m.to.stamp && !m.was.cancel
	case unseen:
		return x.returned(m)
	case own:
		return m.from.waits()
	}
	joined := m.from.kind == "later" && m.to.kind == "line" && m.from.score <= x.clock
	return joined && (m.from.parked || m.from.score == m.to.score) // and it has its place: see checkBuckets
}

// returned tells whether a job that was out is in its line again, at its place; or gone, if it was cancelled.
func (x *explorer) returned(m move) bool {
	if m.was.cancel {
		return m.to.over()
	}
	return m.to.kind == "line" && m.to.bucket == m.from.bucket && m.to.score == x.home[m.ref]
}

// knows tells whether a worker has heard of a departure: it may be running it.
func (x *explorer) knows(worker, ref, stamp string) bool {
	for _, w := range slices.Concat(x.workers, x.gone) {
		for _, v := range w.known[w.anew:] {
			if w.name == worker && v.Ref == ref && v.Stamp == stamp {
				return true
			}
		}
	}
	return false
}

// checkOut: after a call whose reply it has, a worker knows of all that it has out, and of what of that was cancelled.
func (x *explorer) checkOut(w *exploreWorker) {
	for ref, p := range x.now.places {
		if p.kind != "out" || p.worker != w.name {
			continue
		}
		x.must(x.knows(w.name, ref, p.stamp), "%s has %s out and was never told", w.name, ref)
		x.must(!x.now.records[ref].cancel || w.told[p.stamp], "%s was not told that %s is cancelled", w.name, ref)
	}
}

// account keeps the ledger: every admission ends somewhere.
func (x *explorer) account(a act, m move, admitted map[string]int64) {
	bucket := max(m.was.bucket, x.now.records[m.ref].bucket)
	class, _, _ := strings.Cut(bucket, "/")
	switch {
	case m.to.waits() && m.from.over():
		x.admitted[class]++
		admitted[class]++
		x.home[m.ref] = m.to.score
		x.pasts[m.ref] = pastOf{}
	case m.to.waits() && m.from.kind == "dead":
		x.revived[class]++
		x.home[m.ref] = m.to.score
		x.pasts[m.ref] = pastOf{backs: x.pasts[m.ref].backs, attempts: x.pasts[m.ref].attempts}
	case m.from.kind == "out":
		x.pasts[m.ref] = x.pastAfter(a, m)
		if m.to.kind == "later" && !m.to.parked {
			x.home[m.ref] = m.to.score
		}
	}
	if m.from.bucket != "" && m.to.bucket == "" {
		x.ended[class]++
	}
	if m.to.bucket == "" {
		delete(x.notBefore, m.ref)
	}
	if m.to.waits() && (m.from.over() || m.from.kind == "dead") {
		b := x.before.buckets[bucket]
		drains := x.before.class[class].draining || b != nil && b.draining
		x.must(!drains, "%s let job %s into %s, which is draining", a.kind, m.ref, bucket)
	}
}

// accountUnseen counts jobs that a submission admitted and dropped again in one call.
func (x *explorer) accountUnseen(a act, admitted map[string]int64) {
	for class := range x.classes {
		was, is := x.before.books[class], x.now.books[class]
		unseen := is["admitted"] - was["admitted"] - admitted[class]
		dropped := is["dropped"] - was["dropped"]
		x.must(unseen == 0 || a.kind == "submit" && unseen > 0 && unseen <= dropped, "%s admitted %d more jobs of %s than there are",
			a.kind, unseen, class)
		x.must(dropped == 0 || a.kind == "submit" && x.classes[class].Overflow == queue.DropOldest, "%s dropped %d jobs of %s",
			a.kind, dropped, class)
		x.admitted[class] += unseen
		x.ended[class] += unseen
	}
}

// judgeLevels is law 1.
func (x *explorer) judgeLevels(a act) {
	if a.kind != "submit" && a.kind != "revive" {
		return
	}
	for name, b := range x.now.buckets {
		level := b.line + b.later
		was := 0
		if old := x.before.buckets[name]; old != nil {
			was = old.line + old.later
		}
		x.must(level <= max(was, x.classOf(name).Capacity), "a submission raised the level of %s from %d to %d", name, was, level)
	}
}

// judgeReply: what a depart call says is true, it left nothing behind that could go, and one bucket's jobs come in order.
func (x *explorer) judgeReply(a act) {
	if a.reply == nil {
		return
	}
	last := map[string]string{}
	home := func(ref string) int64 { return x.home[ref] }
	for _, d := range a.reply.Jobs {
		p := x.now.places[d.Ref]
		x.must(p.kind == "out" && p.worker == a.worker && p.stamp == d.Stamp, "the reply names %s, which is %+v", d.Ref, p)
		if before, ok := last[p.bucket]; ok {
			x.must(x.now.order(before, d.Ref, home) < 0, "the reply of %s is out of order", p.bucket)
		}
		last[p.bucket] = d.Ref
		past := x.pasts[d.Ref]
		x.must(d.Attempt == past.attempts+1 && d.Backs == past.backs, "job %s departs for attempt %d after %+v", d.Ref, d.Attempt, past)
		x.must(d.Suspect == past.suspect(x.classOf(p.bucket)), "job %s departs as suspect %v after %+v", d.Ref, d.Suspect, past)
	}
}

func (x *explorer) classOf(bucket string) queue.Class {
	class, _, _ := strings.Cut(bucket, "/")
	return x.classes[class]
}

func intervalOf(r queue.Rate) float64 {
	return float64(r.Period.Microseconds()) / float64(r.Limit)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// must notes the first law that is broken.
func (x *explorer) must(ok bool, format string, args ...any) {
	if !ok && x.broken == nil {
		x.broken = fmt.Errorf(format, args...)
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
