package queue_test

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"pgregory.net/rapid"

	"github.com/spout-queue/spout/queue"
)

func (w *lawWorld) settle(rt *rapid.T) {
	if len(w.m.out) == 0 {
		return
	}
	first := rapid.SampledFrom(w.m.out).Draw(rt, "job")
	var verdicts []queue.Verdict
	var jobs []*modelJob
	for _, j := range w.m.out {
		if j.b.shard == first.b.shard && j.worker == first.worker && (j == first || rapid.Bool().Draw(rt, "too")) {
			jobs = append(jobs, j)
			verdicts = append(verdicts, w.verdict(rt, j))
		}
	}
	outlet := w.outlet(first.worker, shardOf(first.b))
	for try := range 2 { // the second time all are refused
		taken, err := outlet.Settle(w.ctx, verdicts)
		if err != nil || slices.Contains(taken, try == 1) {
			rt.Fatalf("settle %v, try %d: %v, %v", verdicts, try, taken, err)
		}
	}
	for i, j := range jobs {
		rt.Logf("%.0f settle %s of %s: %+v", w.m.now, j.id, j.b.name, verdicts[i])
		w.m.settled(j, verdicts[i])
		j.b.class.books.Refused++
	}
}

func shardOf(b *modelBucket) int { return int(b.shard[0] - '0') }

// verdict is anything that can become of a departure. The delay of a failed one is exact.
func (w *lawWorld) verdict(rt *rapid.T, j *modelJob) queue.Verdict {
	v := queue.Verdict{
		Ref: j.ref, Stamp: j.stamp, Class: j.b.class.Name, Error: "no", Due: time.UnixMicro(1),
		Outcome: rapid.SampledFrom([]queue.Outcome{
			queue.Done, queue.Failed, queue.Failed, queue.Failed, queue.Dead, queue.Back, queue.Stopped, queue.Held,
		}).Draw(rt, "outcome"),
		Stale: rapid.Bool().Draw(rt, "stale"),
	}
	if v.Outcome == queue.Failed && rapid.Bool().Draw(rt, "names a delay") {
		after := time.Duration(rapid.Float64Range(0, 4).Draw(rt, "retry after")*j.b.class.t) * time.Microsecond
		v.RetryAfter = &after
	}
	if v.Outcome == queue.Held {
		v.Hold = time.Duration(rapid.Float64Range(0, 4).Draw(rt, "hold")*j.b.class.t) * time.Microsecond
	}
	return v
}

// reclaim ends the life of a worker in one shard: it leaves, or another one says that it is dead.
func (w *lawWorld) reclaim(rt *rapid.T) {
	worker, shard := rapid.IntRange(0, 1).Draw(rt, "worker"), rapid.IntRange(0, w.client.Shards()-1).Draw(rt, "shard")
	name, id := w.name(worker, shard), fmt.Sprint("w", worker, " ", shard)
	if !w.beats[id] {
		return
	}
	var had []*modelJob
	for _, j := range w.m.out {
		if j.worker == worker && shardOf(j.b) == shard {
			had = append(had, j)
		}
	}
	leaves := rapid.Bool().Draw(rt, "leaves")
	if leaves {
		rt.Logf("%.0f %s leaves shard %d", w.m.now, name, shard)
		if n, err := w.outlet(worker, shard).Leave(w.ctx); err != nil || n != len(had) {
			rt.Fatalf("%s left with %d, %v; want %d", name, n, err, len(had))
		}
		for _, j := range had {
			w.m.settled(j, queue.Verdict{Outcome: queue.Back})
		}
	} else {
		rt.Logf("%.0f %s is reclaimed in shard %d", w.m.now, name, shard)
		w.takeFor(rt, name, shard, had)
	}
	w.afterlife(rt, worker, shard, had)
	if leaves {
		w.lives[id]++
		delete(w.outlets, id)
	}
}

// takeFor takes a worker for dead.
func (w *lawWorld) takeFor(rt *rapid.T, name string, shard int, had []*modelJob) {
	beats, err := w.client.Beats(w.ctx, shard)
	must(rt, err)
	other := strconv.Itoa(int(parse(beats[name])) - 1)
	if r, err := w.client.Reclaim(w.ctx, shard, name, other); err != nil || !r.Refused {
		rt.Fatalf("reclaimed %s though its beat is %s, not %s: %+v, %v", name, beats[name], other, r, err)
	}
	r, err := w.client.Reclaim(w.ctx, shard, name, beats[name])
	buried := 0
	for _, j := range had {
		if w.m.crashed(j); j.place == queue.Kept || j.died == w.m.now && j.place == queue.Gone {
			buried++
		}
	}
	if err != nil || r.Refused || r.Dead != buried || r.Returned != len(had)-buried {
		rt.Fatalf("reclaim %s: %+v, %v; want %d of %d dead", name, r, err, buried, len(had))
	}
}

// afterlife: a worker that is gone can settle nothing, and has to begin anew.
func (w *lawWorld) afterlife(rt *rapid.T, worker, shard int, had []*modelJob) {
	outlet, id := w.outlet(worker, shard), fmt.Sprint("w", worker, " ", shard)
	for _, j := range had {
		v := queue.Verdict{Ref: j.ref, Stamp: j.stamp, Class: j.b.class.Name, Outcome: queue.Done}
		if taken, err := outlet.Settle(w.ctx, []queue.Verdict{v}); err != nil || taken[0] {
			rt.Fatalf("job %s was settled by a worker that was gone: %v", j.id, err)
		}
		j.b.class.books.Refused++
	}
	if _, err := outlet.Depart(w.ctx, queue.Ask{Want: 1}); !errors.Is(err, queue.ErrRefused) {
		rt.Fatalf("%s went on after it was gone: %v", id, err)
	}
	delete(w.beats, id)
	delete(w.cancels, id)
}

// someJob is any job that ever came, and its ref: nil for one that is gone without a trace.
func (w *lawWorld) someJob(rt *rapid.T) (string, *modelJob) {
	ref := rapid.SampledFrom(w.refs).Draw(rt, "ref")
	for _, j := range w.m.known {
		if j.ref == ref {
			return ref, j
		}
	}
	return ref, nil
}

func (w *lawWorld) cancel(rt *rapid.T) {
	if len(w.refs) == 0 {
		return
	}
	ref, j := w.someJob(rt)
	state, err := w.client.Cancel(w.ctx, ref)
	rt.Logf("%.0f cancel %s: %s, %v", w.m.now, ref, state, err)
	place := queue.Gone
	if j != nil {
		place = j.place
	}
	switch place {
	case queue.Line, queue.Later:
		w.m.leave(j, queue.Cancelled)
		place = queue.Cancelled
	case queue.Out:
		j.cancelling = true
		id := fmt.Sprint("w", j.worker, " ", j.b.shard)
		if w.cancels[id] == nil {
			w.cancels[id] = map[string]bool{}
		}
		w.cancels[id][ref] = true
	case queue.Kept:
		if !errors.Is(err, queue.ErrConflict) || state != place {
			rt.Fatalf("cancel of dead job %s: %s, %v", ref, state, err)
		}
		return
	default:
		if !errors.Is(err, queue.ErrNotFound) {
			rt.Fatalf("cancel of job %s, which is gone: %s, %v", ref, state, err)
		}
		return
	}
	if err != nil || state != place {
		rt.Fatalf("cancel of job %s: %s, %v; want %s", ref, state, err, place)
	}
}

// hears compares what a departure call told of cancelled jobs: those that are out, once.
func (w *lawWorld) hears(rt *rapid.T, worker, shard int, got []string) {
	id := fmt.Sprint("w", worker, " ", shard)
	var want []string
	for _, j := range w.m.out {
		if w.cancels[id][j.ref] && j.cancelling && j.worker == worker {
			want = append(want, j.ref)
		}
	}
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		rt.Fatalf("%s hears that %v are cancelled, want %v", id, got, want)
	}
	w.beats[id] = true
	delete(w.cancels, id)
}

func (w *lawWorld) revive(rt *rapid.T) {
	if len(w.refs) == 0 {
		return
	}
	ref, j := w.someJob(rt)
	r, err := w.client.Dead().Retry(w.ctx, ref)
	got := answerOf(queue.Result{Receipt: r, Err: err}, w.m.now)
	rt.Logf("%.0f revive %s: %+v, %v", w.m.now, ref, got, err)
	if j == nil || j.place != queue.Kept {
		if !errors.Is(err, queue.ErrNotFound) {
			rt.Fatalf("revived %s, which is not dead: %+v, %v", ref, r, err)
		}
		return
	}
	want := w.m.revive(j)
	if !w.same(got, want) {
		rt.Fatalf("revive %s at %.0f: %+v, %v; want %+v", ref, w.m.now, got, err, want)
	}
}

func (w *lawWorld) purgeDead(rt *rapid.T, class *modelClass) error {
	n, err := w.client.Dead().Purge(w.ctx, class.Name, "")
	want := 0
	for shard := range w.client.Shards() {
		key := strconv.Itoa(shard) + class.Name
		for _, j := range w.m.dead[key] {
			w.m.end(j, queue.Gone)
		}
		want += len(w.m.dead[key])
		delete(w.m.dead, key)
	}
	class.books.DeadPurged += int64(want)
	if n != want {
		rt.Fatalf("%d dead jobs of %s were purged, there were %d", n, class.Name, want)
	}
	return err
}

// look reads one job, wherever it is, or what is kept of it.
func (w *lawWorld) look(rt *rapid.T) {
	if len(w.refs) == 0 {
		return
	}
	ref, j := w.someJob(rt)
	if j == nil || j.place == queue.Gone {
		if kept, ok := w.m.ended[ref]; ok {
			j = &kept
		}
	}
	got, err := w.client.Job(w.ctx, ref)
	if j == nil {
		if !errors.Is(err, queue.ErrNotFound) {
			rt.Fatalf("job %s is there: %+v, %v", ref, got, err)
		}
		return
	}
	want := queue.JobState{State: j.place}
	if j.place != queue.Gone {
		want.Attempts, want.Crashes, want.GivenBack = j.attempts, j.crashes, j.backs
	}
	want.Position = slices.Index(j.b.line, j) + 1
	if j.place == queue.Out {
		want.Worker, want.Cancelling = w.name(j.worker, shardOf(j.b)), j.cancelling
	}
	same := got.State == want.State && got.Attempts == want.Attempts && got.Crashes == want.Crashes && got.GivenBack == want.GivenBack &&
		got.Position == want.Position && got.Worker == want.Worker && got.Cancelling == want.Cancelling && len(got.History) == want.Attempts
	if err != nil || !same || j.place == queue.Later && got.NotBefore.UnixMicro() != int64(j.joins) {
		rt.Fatalf("job %s is %+v, %v; want %+v", ref, got, err, want)
	}
}

// audit compares the books with what the model knows to be there, and with what the queue itself counts.
func (w *lawWorld) audit(rt *rapid.T, class *modelClass, books queue.Books) {
	var waiting, out, dead int64
	for _, b := range w.m.buckets {
		if b.class == class {
			waiting += int64(b.level())
			out += int64(w.m.flight(b))
		}
	}
	for shard := range w.client.Shards() {
		dead += int64(len(w.m.dead[strconv.Itoa(shard)+class.Name]))
	}
	if books.Waiting() != waiting || books.Out() != out || books.DeadKept() != dead {
		rt.Fatalf("books of %s say %d wait, %d are out and %d dead; there are %d, %d and %d",
			class.Name, books.Waiting(), books.Out(), books.DeadKept(), waiting, out, dead)
	}
	accounts, err := w.client.Audit(w.ctx, class.Name)
	must(rt, err)
	for _, a := range accounts {
		if a.Off != nil || a.Moved != 0 {
			rt.Fatalf("%+v", a)
		}
	}
}
