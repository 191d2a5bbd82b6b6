package queue_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/spout-queue/spout/queue"
)

func (w *lawWorld) outlet(worker, shard int) *queue.Outlet {
	id := fmt.Sprint("w", worker, " ", shard)
	if w.outlets[id] == nil {
		w.outlets[id] = w.client.Outlet(w.name(worker, shard), shard)
	}
	return w.outlets[id]
}

// name of a worker in a shard: a new one after each time it has left.
func (w *lawWorld) name(worker, shard int) string {
	return fmt.Sprint("w", worker, ".", w.lives[fmt.Sprint("w", worker, " ", shard)])
}

func (w *lawWorld) depart(rt *rapid.T) {
	worker, shard := rapid.IntRange(0, 1).Draw(rt, "worker"), rapid.IntRange(0, w.client.Shards()-1).Draw(rt, "shard")
	want := rapid.SampledFrom([]int{1, 2, 5, 100}).Draw(rt, "want")
	ask := queue.Ask{Want: want, Suspect: rapid.IntRange(0, 3).Draw(rt, "suspect") > 0}
	d, err := w.outlet(worker, shard).Depart(w.ctx, ask)
	if err != nil || len(d.Jobs) > want {
		rt.Fatalf("depart: %d of %d, %v", len(d.Jobs), want, err)
	}
	w.wait = d.Wait
	w.hears(rt, worker, shard, d.Cancelled)
	rt.Logf("%.0f w%d departs %d of shard %d: %d, wait %v", w.m.now, worker, want, shard, len(d.Jobs), d.Wait)
	visited, behind, suspects := map[*modelBucket]bool{}, 0, 0
	for _, j := range d.Jobs {
		w.replay(rt, j, worker, visited, &behind)
		if j.Suspect {
			suspects++
		}
	}
	if suspects > 1 || suspects == 1 && !ask.Suspect {
		rt.Fatalf("%d suspects departed", suspects)
	}
	w.compare(rt)
	if len(d.Jobs) < want && w.m.now >= w.latest {
		w.checkRest(rt, d, fmt.Sprint(shard))
	}
}

// replay checks one departure against laws 2, 3, 4 and 7 and does it in the model.
func (w *lawWorld) replay(rt *rapid.T, j queue.Departure, worker int, visited map[*modelBucket]bool, behind *int) {
	m, b := w.m, w.m.bucket(j.Class, j.Key)
	rt.Logf("    %s %s due %d", b.name, j.ID, j.Due.UnixMicro())
	if !visited[b] {
		visited[b] = true
		m.visit(b)
	}
	if len(b.line) == 0 || b.line[0].ref != j.Ref || b.line[0].id != j.ID || string(j.Payload) != b.line[0].payload {
		rt.Fatalf("%s departed from %s at %.0f, first in line: %+v", j.ID, b.name, m.now, b.line)
	}
	if !m.open(b, blur) {
		rt.Fatalf("%s departed from %s at %.0f; due %.3f, paused %v", j.ID, b.name, m.now, m.due(b), b.paused)
	}
	if due, want := float64(j.Due.UnixMicro()), max(m.due(b), b.hold, b.backoff); !w.near(due, want) {
		rt.Fatalf("%s departed from %s with due %.0f, want %.3f", j.ID, b.name, due, want)
	}
	w.checkPace(rt, b)
	head := b.line[0]
	if j.Attempt != head.attempts+1 || j.Backs != head.backs || j.Suspect != b.class.suspect(head) {
		rt.Fatalf("%s departed as %+v, want attempt %d, %d given back, suspect %v",
			j.ID, j, head.attempts+1, head.backs, b.class.suspect(head))
	}
	b.line, b.backoff, b.head = b.line[1:], 0, nil
	m.takeSlot(b, behind)
	m.stamps[b.shard] = max(m.stamps[b.shard], float64(parse(j.Stamp)))
	head.place, head.stamp, head.worker = queue.Out, j.Stamp, worker
	for _, o := range m.out {
		if o.stamp == j.Stamp && o.ref[:1] == j.Ref[:1] {
			rt.Fatalf("stamp %s has been used", j.Stamp)
		}
	}
	m.out = append(m.out, head)
	b.class.books.Departed++
}

// checkPace is law 3: GCRA, and every window of departures at unchanged settings counted by itself.
func (w *lawWorld) checkPace(rt *rapid.T, b *modelBucket) {
	now := w.m.now + w.back // a clock that is set back is no measure
	if w.paces[b.name] == nil {
		w.paces[b.name] = &pace{}
	}
	if due := w.paces[b.name].depart(now, b.class.Class); now < due-blur {
		rt.Fatalf("a departure of %s at %.3f, not before %.3f", b.name, now, due)
	}
	w.times[b.name] = append(w.times[b.name], now)
	for i, since := range w.times[b.name] {
		if n := float64(len(w.times[b.name]) - 1 - i); n*b.class.t > now-since+b.class.catchUp+blur {
			rt.Fatalf("%s: %.0f departures in %.0f us are too many", b.name, n+1, now-since)
		}
	}
}

// checkRest: what a depart call left behind could not go, and the wait that it tells is neither too long nor none.
func (w *lawWorld) checkRest(rt *rapid.T, d queue.Departures, shard string) {
	earliest := math.Inf(1)
	for _, b := range w.m.buckets {
		if b.shard != shard {
			continue
		}
		if w.m.open(b, -blur) && !b.class.suspect(b.line[0]) {
			rt.Fatalf("%s is open at %.0f and was left alone: due %.3f", b.name, w.m.now, w.m.due(b))
		}
		earliest = min(earliest, w.m.opening(b))
	}
	wait := float64(d.Wait.Microseconds())
	if earliest < math.Inf(1) && (wait < 0 || wait > math.Ceil(earliest-w.m.now)+1) || wait == 0 {
		rt.Fatalf("depart at %.0f says wait %.0f us; a bucket opens at %.3f", w.m.now, wait, earliest)
	}
}

// operate is an operator's hand.
func (w *lawWorld) operate(rt *rapid.T) {
	b := w.bucket(rt)
	class, key, _ := strings.Cut(b.name, "/")
	var err error
	op := rapid.SampledFrom([]string{
		"pause", "drain", "resume", "resume", "resume", "pause class", "drain class", "resume class", "resume class", "resume class",
		"purge", "purge dead", "hold", "hold", "unhold",
	}).Draw(rt, "op")
	if op == "hold" && b.shard == "" {
		return // nobody knows yet where it is, so nobody would see that it is forgotten
	}
	switch op {
	case "drain":
		b.draining, err = true, w.client.Buckets().Drain(w.ctx, class, key)
	case "drain class":
		b.class.Draining, err = true, w.client.Classes().Drain(w.ctx, class)
	case "hold":
		b.hold = w.m.now + math.Floor(rapid.Float64Range(-1, 3).Draw(rt, "hold")*b.class.t)
		err = w.client.Buckets().Hold(w.ctx, class, key, time.UnixMicro(int64(b.hold)))
	case "unhold":
		b.hold, b.backoff, b.head = 0, 0, nil
		err = w.client.Buckets().Unhold(w.ctx, class, key)
	case "purge dead":
		err = w.purgeDead(rt, b.class)
	case "pause":
		b.paused, err = true, w.client.Buckets().Pause(w.ctx, class, key)
	case "resume":
		b.paused, b.draining, err = false, false, w.client.Buckets().Resume(w.ctx, class, key)
	case "pause class":
		b.class.Paused, err = true, w.client.Classes().Pause(w.ctx, class)
	case "resume class":
		b.class.Paused, b.class.Draining, err = false, false, w.client.Classes().Resume(w.ctx, class)
	case "purge":
		var n int
		n, err = w.client.Buckets().Purge(w.ctx, class, key)
		if n != b.level() {
			rt.Fatalf("%d jobs of %s were purged, there were %d", n, b.name, b.level())
		}
		for _, j := range slices.Concat(b.line, b.later) {
			w.m.leave(j, queue.Gone)
		}
	}
	rt.Logf("%.0f %s %s", w.m.now, op, b.name)
	if err != nil {
		rt.Fatalf("%s %s: %v", op, b.name, err)
	}
}

// compare reads all buckets past the client and takes from them what the laws leave open: whether depart has looked at a
// bucket since a job in it expired or was to join the line, and when an empty bucket is forgotten.
func (w *lawWorld) compare(rt *rapid.T) {
	w.setClock(rt, w.m.now)
	for _, b := range w.m.buckets {
		if b.shard != "" {
			w.compareBucket(rt, b)
		}
	}
	w.compareBooks(rt)
}

func (w *lawWorld) compareBucket(rt *rapid.T, b *modelBucket) {
	pipe := w.rdb.Pipeline()
	key := func(kind string) string { return "{spout:" + b.shard + "}:" + kind + ":" + b.name }
	line, later := pipe.ZRange(w.ctx, key("line"), 0, -1), pipe.ZRange(w.ctx, key("later"), 0, -1)
	exists, slot := pipe.Exists(w.ctx, key("bucket")), pipe.HGet(w.ctx, key("bucket"), "slot")
	if _, err := pipe.Exec(w.ctx); err != nil && !errors.Is(err, redis.Nil) {
		rt.Fatal(err)
	}
	w.adopt(rt, b, line, later)
	w.adoptSlot(b, slot)
	if got, want := refsOf(line.Val()), modelRefs(b.line); !slices.Equal(got, want) {
		rt.Fatalf("line of %s: %v, want %v", b.name, got, want)
	}
	if got, want := refsOf(later.Val()), modelRefs(b.later); !slices.Equal(got, want) {
		rt.Fatalf("later of %s: %v, want %v", b.name, got, want)
	}
	if exists.Val() == 0 {
		if b.level() > 0 || b.paused || b.draining || max(w.m.due(b), b.hold) > w.m.now+blur {
			rt.Fatalf("%s was forgotten at %.0f: due %.3f, hold %.0f, level %d", b.name, w.m.now, w.m.due(b), b.hold, b.level())
		}
		b.hasSlot, b.hasTold, b.hold = false, false, 0
	}
}

func (w *lawWorld) adopt(rt *rapid.T, b *modelBucket, line, later *redis.StringSliceCmd) {
	waits, aside := refsOf(line.Val()), refsOf(later.Val())
	for _, j := range slices.Concat(b.line, b.later) {
		if slices.Contains(waits, j.ref) || slices.Contains(aside, j.ref) {
			continue
		}
		if !w.m.late(b, j) {
			rt.Fatalf("job %s of %s is lost", j.id, b.name)
		}
		w.m.leave(j, queue.Expired)
	}
	for len(b.later) > 0 && slices.Contains(waits, b.later[0].ref) && b.later[0].joins <= w.m.now {
		j := b.later[0]
		b.later = b.later[1:]
		w.m.join(b, j, j.joins)
	}
}

// adoptSlot: a slot that the clock, set back, has not reached is moved to the time at which a script sees that.
func (w *lawWorld) adoptSlot(b *modelBucket, slot *redis.StringCmd) {
	got, err := slot.Float64()
	if err == nil && b.hasSlot && got >= w.lowest && got < b.slot-blur && b.slot > w.lowest {
		b.slot = got
	}
}

func refsOf(members []string) []string {
	refs := []string{}
	for _, member := range members {
		refs = append(refs, member[strings.LastIndexByte(member, ':')+1:])
	}
	return refs
}

func modelRefs(jobs []*modelJob) []string {
	refs := []string{}
	for _, j := range jobs {
		refs = append(refs, j.ref)
	}
	return refs
}

// compareBooks is law 5: the totals are the model's, and they balance with what is there.
func (w *lawWorld) compareBooks(rt *rapid.T) {
	for name, class := range w.m.classes {
		got, err := w.client.Books(w.ctx, name)
		if err != nil {
			rt.Fatal(err)
		}
		if diff := cmp.Diff(class.books, got, cmpopts.EquateEmpty()); diff != "" {
			rt.Fatalf("books of %s (-want +got):\n%s", name, diff)
		}
		w.audit(rt, class, got)
	}
}
