package queue_test

import (
	"math"
	"slices"
	"strings"

	"github.com/spout-queue/spout/queue"
)

// maySettle tells whether what a worker says of a departure may move its job so.
func (x *explorer) maySettle(m move, v queue.Verdict) bool {
	switch v.Outcome { //nolint:exhaustive // those that failed follow
	case queue.Done, queue.Stopped:
		return m.to.over()
	case queue.Back:
		return x.returned(m)
	case queue.Held:
		if !m.to.over() {
			x.closed[m.from.bucket] = max(x.closed[m.from.bucket], x.clock+v.Hold.Microseconds())
		}
		return x.returned(m)
	}
	if m.was.cancel {
		return m.to.over()
	}
	class := x.classOf(m.from.bucket)
	fails := x.pasts[m.ref].fails + 1
	if v.Outcome == queue.Dead || fails >= class.Retry.MaxAttempts {
		return x.buried(m)
	}
	return x.comesRound(m, class, x.clock+delayOf(class, fails, v))
}

// comesRound tells whether a failed job waits for its next attempt where its class wants it, until then.
func (x *explorer) comesRound(m move, class queue.Class, until int64) bool {
	if m.to.bucket != m.from.bucket {
		return false
	}
	switch class.Retry.Order {
	case queue.Hold:
		x.notBefore[m.ref] = until
		return m.to.kind == "line" && m.to.score == x.home[m.ref]
	case queue.Tail:
		return m.to.kind == "later" && !m.to.parked && m.to.score == until && x.numbered(m)
	default:
		return m.to.kind == "later" && m.to.parked && m.to.score == until && x.now.records[m.ref].number == m.was.number
	}
}

// delayOf is the time before the next attempt, in microseconds. These classes leave nothing to chance: their longest
// backoff is their shortest.
func delayOf(class queue.Class, fails int, v queue.Verdict) int64 {
	if v.RetryAfter != nil {
		return v.RetryAfter.Microseconds()
	}
	longest := min(float64(class.Retry.MaxBackoff.Microseconds()), float64(class.Retry.Backoff.Microseconds())*math.Pow(2, float64(fails)))
	return int64(longest)
}

// buried tells whether a job is dead; or gone already, since its class keeps no more.
func (x *explorer) buried(m move) bool {
	if m.to.kind == "dead" {
		return m.to.score == x.clock
	}
	class := x.classOf(m.from.bucket)
	return m.to.over() && x.now.class[class.Name].dead == class.Dead.Max
}

// mayTrim tells whether a dead job had to make room, or was kept for long enough.
func (x *explorer) mayTrim(m move) bool {
	if m.from.kind != "dead" || !m.to.over() {
		return false
	}
	class := x.classOf(m.was.bucket)
	if m.from.score+class.Dead.Keep.Microseconds() < x.clock {
		return true
	}
	for ref, p := range x.now.places { // the oldest go first
		if p.kind == "dead" && x.classOf(x.now.records[ref].bucket).Name == class.Name && p.score < m.from.score {
			return false
		}
	}
	return x.now.class[class.Name].dead == class.Dead.Max
}

// mayReclaim tells whether what a dead worker had out went where it belongs: a job is buried only when it was a suspect as
// it departed.
func (x *explorer) mayReclaim(m move) bool {
	if m.was.cancel {
		return m.to.over()
	}
	if p := x.crashed(m); x.suspects[m.from.stamp] && p.crashes >= x.classOf(m.from.bucket).MaxCrashes {
		return x.buried(m)
	}
	return x.returned(m)
}

// crashed is a job's past after its worker died with it.
func (x *explorer) crashed(m move) pastOf {
	p := x.pasts[m.ref]
	p.attempts++
	p.crashes++
	if !x.suspects[m.from.stamp] {
		p.crashes = min(p.crashes, max(1, x.classOf(m.from.bucket).MaxCrashes-1))
	}
	return p
}

// pastAfter is the past of a job that was out after a call that ended its departure.
func (x *explorer) pastAfter(a act, m move) pastOf {
	p := x.pasts[m.ref]
	switch a.kind {
	case "reclaim":
		return x.crashed(m)
	case "settle":
		switch v := a.settles[[2]string{m.ref, m.from.stamp}]; {
		case v.Outcome == queue.Back && v.Stale:
			p.backs++
		case v.Outcome == queue.Held:
			p.attempts++
		case v.Outcome == queue.Failed || v.Outcome == queue.Dead:
			p.attempts++
			p.fails++
		}
	}
	return p
}

// judgePasts: attempts, failures and crashes are counted, and nothing else changes them.
func (x *explorer) judgePasts() {
	for ref, p := range x.now.places {
		if !p.over() {
			past := x.now.records[ref].past
			x.must(past == x.pasts[ref], "job %s has the past %+v, not %+v", ref, past, x.pasts[ref])
		}
	}
}

// judgeBeats: only a worker that called moves its beat, and only the beat that is still stored reaps it.
func (x *explorer) judgeBeats(a act) {
	moves := x.moved[a.worker]
	for worker, beat := range x.now.workers {
		if x.before.workers[worker] != beat {
			x.moved[worker]++
			x.must(worker == a.worker, "%s moved the beat of %s", a.kind, worker)
		}
	}
	if a.kind != "reclaim" || a.moves == moves {
		return
	}
	x.must(x.now.workers[a.worker] == x.before.workers[a.worker], "%s has called since its beat was seen, and was reclaimed", a.worker)
	for ref, p := range x.before.places {
		x.must(p == x.now.places[ref], "%s has called since its beat was seen, and lost job %s", a.worker, ref)
	}
}

// judgeEnd: of a job that has ended its class keeps how, for the retention.
func (x *explorer) judgeEnd(a act, m move) {
	is, was := x.now.ended[m.ref], x.before.ended[m.ref]
	said := a.settles[[2]string{m.ref, m.from.stamp}].Outcome
	retained := x.classOf(m.was.bucket).Retention > 0
	forgets := a.kind == "purge" || m.from.kind == "dead" || m.to.kind == "dead"
	switch {
	case m.from.bucket == "" || m.to.bucket != "" || forgets || !retained:
		x.must(is == was || m.from.over(), "%s moved job %s from %+v to %+v, and keeps it as %q", a.kind, m.ref, m.from, m.to, is)
	case said == queue.Done:
		x.must(is == "done", "job %s is done and kept as %q", m.ref, is)
	case a.kind == "cancel" || m.was.cancel || said == queue.Stopped:
		x.must(is == "cancelled", "%s: job %s was cancelled and is kept as %q", a.kind, m.ref, is)
	case a.kind == "submit" || a.kind == "revive" || a.kind == "depart":
		x.must(is == "expired" || is == "dropped", "%s: job %s is gone and kept as %q", a.kind, m.ref, is)
	}
}

// judgeSuspects: one call takes at most one suspect, and only where it was asked for.
func (x *explorer) judgeSuspects(a act, left map[string][]string) {
	n := 0
	for bucket, refs := range left {
		for _, ref := range refs {
			if x.pasts[ref].suspect(x.classOf(bucket)) {
				x.suspects[x.now.places[ref].stamp] = true
				n++
			}
		}
	}
	x.must(n == 0 || n == 1 && a.suspect, "one call took %d suspects; asked for one: %v", n, a.suspect)
}

// judgeDepartures is laws 2, 3 and 7 for what left one bucket in one call.
func (x *explorer) judgeDepartures(bucket string, jobs []string) {
	after, class := x.now, x.classOf(bucket)
	home := func(ref string) int64 { return x.home[ref] }
	slices.SortFunc(jobs, func(a, b string) int { return after.order(a, b, home) })
	last := jobs[len(jobs)-1]
	out := 0
	for ref, p := range after.places {
		if p.bucket != bucket {
			continue
		}
		if p.kind == "out" {
			out++
		}
		if p.kind == "line" || p.kind == "later" && p.score <= x.clock {
			x.must(after.order(last, ref, home) < 0, "job %s left %s before job %s, which comes first", last, bucket, ref)
		}
	}
	bound := boundOf(class)
	x.must(bound == 0 || out <= bound, "%s has %d jobs out; %d may be", bucket, out, bound)
	for _, ref := range jobs {
		x.judgeDeparture(bucket, ref, class)
	}
}

func (x *explorer) judgeDeparture(bucket, ref string, class queue.Class) {
	r, p := x.now.records[ref], x.now.places[ref]
	x.must(r.expires == 0 || r.expires+class.CatchUp.Microseconds() >= x.clock, "job %s departed after it expired", ref)
	x.must(!x.stamps[p.stamp] && parse(p.stamp) > x.before.stamp, "stamp %s was used before", p.stamp)
	x.stamps[p.stamp] = true
	x.paced(bucket, class)
	b := x.before.buckets[bucket]
	x.must(!x.before.class[class.Name].paused && (b == nil || !b.paused), "job %s left %s, which is paused", ref, bucket)
	x.must(x.closed[bucket] <= x.latest, "job %s left %s, which is held until %d", ref, bucket, x.closed[bucket])
	x.must(x.notBefore[ref] <= x.clock, "job %s left %s before its backoff had passed, at %d", ref, bucket, x.notBefore[ref])
	delete(x.notBefore, ref)
	x.must(!r.cancel, "job %s departed although it was cancelled", ref)
	x.must(!x.unnoticed, "job %s left %s, and nobody noticed that data was lost", ref, bucket)
	x.must(!x.doubted || x.real >= x.doubt+intervalOf(class.Rate)-1e-2, "job %s left %s too soon after data was lost: at %.3f, that was at %.3f", ref, bucket, x.real, x.doubt)
}

// nothingOpen: after a depart call that could have taken more, no bucket is open.
func (x *explorer) nothingOpen(suspects int) {
	for name, b := range x.now.buckets {
		if b.line == 0 && b.joins > x.clock || b.line+b.later == 0 || x.now.class[x.classOf(name).Name].paused {
			continue
		}
		if class, _, _ := strings.Cut(name, "/"); x.suspectAhead(name) && (suspects == 0 || x.now.due[class][name] > float64(x.clock)) {
			continue
		}
		opens := x.opens(name, b)
		x.must(opens > float64(x.clock) || x.clock < x.latest, "%s is open since %.3f and was left alone", name, opens)
	}
}
