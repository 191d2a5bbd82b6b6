package queue_test

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/spout-queue/spout/queue"
)

// checkIndex: every bucket that has jobs has an entry in the due index, not later than it opens.
func (x *explorer) checkIndex() {
	s := x.now
	for name, b := range s.buckets {
		class, _, _ := strings.Cut(name, "/")
		score, ok := s.due[class][name]
		if !ok {
			x.must(b.line+b.later == 0 && !b.paused && !b.draining, "bucket %s has jobs, a pause or a drain and no entry in the due index", name)
			x.must(b.hold <= x.clock, "bucket %s is held and has no entry in the due index", name)
			continue
		}
		opens := max(x.opening(name, b), float64(x.latest))
		if x.suspectAhead(name) { // it was left in line
			opens += suspectWait
		}
		x.must(score <= opens, "bucket %s opens at %.0f, its entry is at %.0f", name, opens, score)
	}
	for class, entries := range s.due {
		earliest := slices.Min(slices.Collect(maps.Values(entries)))
		at, ok := s.classes[class]
		paused := s.class[class].paused
		x.must(ok, "class %s has buckets and no entry in the due index", class)
		x.must(!paused || math.IsInf(at, 1), "paused class %s is at %.0f", class, at)
		x.must(paused || at <= earliest, "class %s is at %.0f, its first bucket at %.0f", class, at, earliest)
	}
}

// opens is when a bucket lets its next job go; +Inf is not before something else happens.
func (x *explorer) opens(name string, b *seenBucket) float64 {
	class := x.classOf(name)
	if bound := boundOf(class); b.paused || bound > 0 && len(b.flight) >= bound {
		return math.Inf(1)
	}
	at := math.Inf(-1)
	if b.hasSlot {
		at = b.slot + intervalOf(class.Rate)
	}
	if since := max(x.since, x.now.since); since > 0 {
		at = max(at, float64(since)+intervalOf(class.Rate))
	}
	return max(at, float64(b.hold), float64(b.backoff))
}

// opening is when depart must look at a bucket, whole microseconds.
func (x *explorer) opening(name string, b *seenBucket) float64 {
	if b.line+b.later == 0 && b.draining {
		return math.Inf(1)
	}
	at := x.opens(name, b)
	if b.line == 0 && b.later > 0 {
		at = max(at, float64(b.joins))
	}
	for _, expires := range b.expiry {
		at = min(at, float64(expires+x.classOf(name).CatchUp.Microseconds()+1))
	}
	return math.Ceil(at - 1e-3)
}

// suspectAhead tells whether the head of a bucket's line departs only for a worker that takes a suspect.
func (x *explorer) suspectAhead(bucket string) bool {
	head := ""
	home := func(ref string) int64 { return x.home[ref] }
	for ref, p := range x.now.places {
		if p.kind == "line" && p.bucket == bucket && (head == "" || x.now.order(ref, head, home) < 0) {
			head = ref
		}
	}
	return head != "" && x.now.records[head].past.suspect(x.classOf(bucket))
}

// boundOf is how many departures of one bucket may be out, 0 for no bound.
func boundOf(c queue.Class) int {
	if c.Retry.Order == queue.Hold {
		return 1
	}
	return c.MaxInFlight
}

// checkBuckets: what buckets remember of their jobs is what there is.
func (x *explorer) checkBuckets() {
	out := map[string][]string{}
	expiry := map[string]map[string]int64{}
	for ref, p := range x.now.places {
		x.must(p.kind != "line" || p.score == x.home[ref], "job %s is at %d in line; its place is %d", ref, p.score, x.home[ref])
		if p.kind == "out" {
			out[p.bucket] = append(out[p.bucket], ref)
		}
		if r := x.now.records[ref]; p.waits() && r.expires > 0 {
			if expiry[p.bucket] == nil {
				expiry[p.bucket] = map[string]int64{}
			}
			expiry[p.bucket][ref] = r.expires
		}
	}
	for name, b := range x.now.buckets {
		class, _, _ := strings.Cut(name, "/")
		slices.Sort(b.flight)
		slices.Sort(out[name])
		x.must(!x.now.class[class].tracked || slices.Equal(b.flight, out[name]), "%s counts %v out, there are %v", name, b.flight, out[name])
		x.must(maps.Equal(b.expiry, expiry[name]), "%s expires %v, its jobs %v", name, b.expiry, expiry[name])
		x.must(b.head == "" || x.now.places[b.head].kind == "line", "%s is closed for job %s, which is not in line", name, b.head)
		held := x.closed[name]
		x.must(held <= x.latest || held == b.hold, "%s is held until %d, not %d", name, b.hold, held)
	}
	for name := range out {
		_, ok := x.now.buckets[name]
		x.must(ok || boundOf(x.classOf(name)) == 0, "%s has jobs out and does not count them", name)
	}
}

// checkBooks is law 5: both sides, of every class.
func (x *explorer) checkBooks() {
	count := map[string]map[string]int64{}
	for class := range x.classes {
		count[class] = map[string]int64{}
	}
	for _, p := range x.now.places {
		if class, _, ok := strings.Cut(p.bucket, "/"); ok {
			count[class][p.kind]++
		}
	}
	for class := range x.classes {
		b, n := x.now.books[class], count[class]
		in := b["admitted"] + b["returned"] + b["revived"]
		gone := b["departed"] + b["expired"] + b["cancelled"] + b["dropped"] + b["purged"] + b["sick"]
		x.must(in == n["line"]+n["later"]+gone, "books of %s: %d came in, %d + %d wait and %d went: %v",
			class, in, n["line"], n["later"], gone, b)
		ended := b["returned"] + b["done"] + b["dead"] + b["cancelled_out"]
		x.must(b["departed"] == ended+n["out"], "books of %s: %d are out: %v", class, n["out"], b)
		kept := b["dead"] - b["revived"] - b["dead_dropped"] - b["dead_purged"]
		x.must(kept == int64(x.now.class[class].dead), "books of %s: %d are dead: %v", class, x.now.class[class].dead, b)
		x.must(b["sick"] == 0 && b["sick_buckets"] == 0, "%s has something sick: %v", class, b)
	}
}

// checkSlots: no bucket forgets a slot that still counts, nor remembers an earlier one. After a loss of data the moment it
// was noticed stands for all slots.
func (x *explorer) checkSlots() {
	if x.unnoticed {
		return
	}
	for bucket, p := range x.paces {
		interval := intervalOf(x.classOf(bucket).Rate)
		slot := math.Inf(-1)
		if x.doubted {
			slot = x.doubt
		}
		b := x.now.buckets[bucket]
		if b == nil || !b.hasSlot {
			due := p.slot + interval
			x.must(due <= max(x.real, slot+interval)+1e-2, "%s forgot its slot; it is due at %.3f", bucket, due)
			continue
		}
		slot = max(slot, b.slot+x.back)
		x.must(slot >= p.slot-1e-2, "%s has slot %.3f, departures say %.3f", bucket, slot, p.slot)
	}
}
