package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/spout-queue/spout/queue"
)

// TestLaws does random things to a few buckets at exact times and compares every answer, the state and the books with
// the model, and departures with the pace.
func TestLaws(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		rapid.Check(t, func(rt *rapid.T) {
			w := newLawWorld(t.Context(), rt, rdb)
			rt.Repeat(map[string]func(*rapid.T){
				"":             w.compare,
				"submit":       func(rt *rapid.T) { w.submit(rt, 1) },
				"submit more":  func(rt *rapid.T) { w.submit(rt, 1) },
				"submit many":  func(rt *rapid.T) { w.submit(rt, rapid.IntRange(2, 6).Draw(rt, "jobs")) },
				"depart":       w.depart,
				"depart again": w.depart,
				"settle":       w.settle,
				"settle more":  w.settle,
				"reclaim":      w.reclaim,
				"cancel":       w.cancel,
				"revive":       w.revive,
				"look":         w.look,
				"tick":         w.tick,
				"sleep":        w.sleep,
				"operate":      w.operate,
				"put":          w.put,
			})
			w.finish(rt)
		})
	})
}

// lawWorld is the real queue and the model side by side.
type lawWorld struct {
	ctx     context.Context
	rdb     *redis.Client
	client  *queue.Client
	whole   bool // all intervals are whole microseconds: the model is exact
	latest  float64
	lowest  float64 // since the clock was set back; none before
	back    float64 // by how much in all
	m       *model
	outlets map[string]*queue.Outlet
	lives   map[string]int             // of the outlets: how often it has left
	beats   map[string]bool            // of the outlets: it has called since it was last reclaimed
	cancels map[string]map[string]bool // by outlet: what it is to hear of
	sent    []queue.Job
	refs    []string
	wait    time.Duration // what the last depart call said
	paces   map[string]*pace
	times   map[string][]float64 // departures of a bucket since its class was changed
}

func newLawWorld(ctx context.Context, rt *rapid.T, rdb *redis.Client) *lawWorld {
	rt.Helper()
	if err := rdb.FlushDB(ctx).Err(); err != nil {
		rt.Fatal(err)
	}
	client, err := queue.OpenWithClock(ctx, rdb, queue.Options{Shards: rapid.IntRange(1, 2).Draw(rt, "shards")})
	if err != nil {
		rt.Fatal(err)
	}
	w := &lawWorld{
		ctx: ctx, rdb: rdb, client: client, lowest: math.Inf(1), whole: rapid.Bool().Draw(rt, "whole"),
		m: newModel(), outlets: map[string]*queue.Outlet{}, lives: map[string]int{}, beats: map[string]bool{}, cancels: map[string]map[string]bool{},
		paces: map[string]*pace{}, times: map[string][]float64{},
	}
	w.setClock(rt, 1e12)
	for _, name := range []string{"one", "two"} {
		w.store(rt, w.randomClass(rt, name))
	}
	return w
}

func (w *lawWorld) setClock(rt *rapid.T, us float64) {
	if us < w.m.now {
		w.back += w.m.now - us
		w.lowest = min(w.lowest, us)
	}
	w.m.now = us
	w.latest = max(w.latest, us)
	if err := w.client.SetClock(w.ctx, int64(us)); err != nil {
		rt.Fatal(err)
	}
}

func (w *lawWorld) randomClass(rt *rapid.T, name string) queue.Class {
	rates := []queue.Rate{{1000, time.Second}, {10, time.Second}, {1, 2 * time.Second}, {1, time.Hour}}
	if !w.whole {
		rates = []queue.Rate{{7, time.Second}, {3, time.Second}, {7000, time.Second}, {30, 7 * time.Second}}
	}
	c := queue.NewClass(name, rapid.IntRange(1, 5).Draw(rt, "capacity"), rapid.SampledFrom(rates).Draw(rt, "rate"))
	c.CatchUp = rapid.SampledFrom([]time.Duration{5 * time.Millisecond, 0, 300 * time.Millisecond}).Draw(rt, "catch-up")
	c.Dedup = rapid.SampledFrom([]time.Duration{0, 8760 * time.Hour}).Draw(rt, "dedup")
	if rapid.Bool().Draw(rt, "waits") {
		c.MaxWait = 2*c.Rate.Interval().Truncate(time.Microsecond) + time.Millisecond
	}
	backoff := rapid.SampledFrom([]time.Duration{time.Millisecond, c.Rate.Interval().Truncate(time.Microsecond) + time.Millisecond}).Draw(rt, "backoff")
	c.Retry = queue.Retry{
		MaxAttempts: rapid.IntRange(1, 3).Draw(rt, "max attempts"), Backoff: backoff, MaxBackoff: backoff, // so that it is exact
		Order: rapid.SampledFrom([]queue.Order{queue.Park, queue.Hold, queue.Tail}).Draw(rt, "order"),
	}
	c.MaxInFlight = rapid.SampledFrom([]int{0, 0, 1, 2}).Draw(rt, "max in flight")
	c.Overflow = rapid.SampledFrom([]queue.Overflow{queue.Reject, queue.Reject, queue.DropOldest}).Draw(rt, "overflow")
	c.Retention = rapid.SampledFrom([]time.Duration{0, 8760 * time.Hour}).Draw(rt, "retention")
	c.MaxCrashes = rapid.IntRange(1, 4).Draw(rt, "max crashes")
	c.Dead.Max = rapid.SampledFrom([]int{100_000, 2, 0}).Draw(rt, "max dead")
	c.Dead.Keep = rapid.SampledFrom([]time.Duration{720 * time.Hour, time.Second}).Draw(rt, "keep dead")
	return c
}

func (w *lawWorld) store(rt *rapid.T, c queue.Class) {
	rt.Logf("%.0f put %+v", w.m.now, c)
	if _, err := w.client.Classes().Put(w.ctx, c); err != nil {
		rt.Fatal(err)
	}
	class := newModelClass(c)
	if old := w.m.classes[c.Name]; old != nil {
		class.books, class.Paused, class.Draining = old.books, old.Paused, old.Draining
	}
	w.m.classes[c.Name] = class
	for name, b := range w.m.buckets {
		if b.class.Name == c.Name {
			b.class = class
			delete(w.times, name)
			if !b.hasSlot { // forgotten before the change: no pace to keep any more
				delete(w.paces, name)
			}
		}
	}
}

func (w *lawWorld) put(rt *rapid.T) {
	if rapid.IntRange(0, 2).Draw(rt, "really") > 0 {
		return // rates that change all the time hide what happens between
	}
	w.store(rt, w.randomClass(rt, rapid.SampledFrom([]string{"one", "two"}).Draw(rt, "class")))
}

func (w *lawWorld) bucket(rt *rapid.T) *modelBucket {
	return w.m.bucket(rapid.SampledFrom([]string{"one", "two"}).Draw(rt, "class"), rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "key"))
}

// tick moves the clock, seldom back a little.
func (w *lawWorld) tick(rt *rapid.T) {
	b := w.bucket(rt)
	t := math.Floor(b.class.t)
	w.setClock(rt, w.m.now+rapid.SampledFrom([]float64{
		1, 99, math.Floor(t / 2), t, t + 1, 3 * t, b.class.catchUp, b.class.catchUp + 1, 30 * t, -1, -300,
	}).Draw(rt, "us"))
}

// sleep is what a worker does: exactly as long as it was told.
func (w *lawWorld) sleep(*rapid.T) { w.m.now += float64(max(0, w.wait.Microseconds())); w.wait = 0 }

func (w *lawWorld) randomJob(rt *rapid.T) queue.Job {
	if len(w.sent) > 0 && rapid.IntRange(0, 5).Draw(rt, "new") == 0 {
		job := rapid.SampledFrom(w.sent).Draw(rt, "sent")
		job.Payload = rapid.SampledFrom([][]byte{[]byte(`1`), []byte(`1`), []byte(`"other"`)}).Draw(rt, "payload")
		return job
	}
	b := w.bucket(rt)
	job := queue.Job{Class: b.class.Name, ID: fmt.Sprint(len(w.sent)), Payload: []byte(`1`)}
	job.Key = b.name[len(b.class.Name)+1:]
	if rapid.IntRange(0, 3).Draw(rt, "delayed") == 0 {
		in := rapid.Float64Range(-1, 4).Draw(rt, "intervals") * b.class.t
		job.NotBefore = time.UnixMicro(int64(w.m.now + in))
	}
	if rapid.IntRange(0, 3).Draw(rt, "waits") == 0 {
		job.MaxWait = time.Duration(rapid.Float64Range(0, 4).Draw(rt, "max wait")*b.class.t+1) * time.Microsecond
	}
	w.sent = append(w.sent, job)
	return job
}

func (w *lawWorld) submit(rt *rapid.T, n int) {
	jobs := make([]queue.Job, n)
	for i := range jobs {
		jobs[i] = w.randomJob(rt)
	}
	var results []queue.Result
	if n == 1 {
		receipt, err := w.client.Submit(w.ctx, jobs[0])
		results = []queue.Result{{Receipt: receipt, Err: err}}
	} else {
		results = w.client.SubmitMany(w.ctx, jobs)
	}
	joined := map[string]*int{}
	for i, r := range results {
		w.judge(rt, jobs[i], r, joined)
	}
}

// judge compares one answer with the model's.
func (w *lawWorld) judge(rt *rapid.T, job queue.Job, r queue.Result, joined map[string]*int) {
	shard := r.Receipt.Ref[:1]
	if joined[shard] == nil {
		joined[shard] = new(int)
	}
	got := answerOf(r, w.m.now)
	s := modelSubmission{
		class: job.Class, key: job.Key, id: job.ID, payload: string(job.Payload), ref: r.Receipt.Ref, shard: shard,
		maxWait: float64(job.MaxWait.Microseconds()), got: got.kind,
	}
	if !job.NotBefore.IsZero() {
		s.notBefore = float64(job.NotBefore.UnixMicro())
	}
	if !slices.Contains(w.refs, s.ref) {
		w.refs = append(w.refs, s.ref)
	}
	level := w.m.bucket(job.Class, job.Key).level()
	want := w.m.admit(s, joined[shard])
	rt.Logf("%.0f submit %s/%s %s not before %.0f max wait %.0f: %+v", w.m.now, s.class, s.key, s.id, s.notBefore, s.maxWait, got)
	if !w.same(got, want) {
		rt.Fatalf("submit %+v at %.0f: got %+v, want %+v (%v)", job, w.m.now, got, want, r.Err)
	}
	if b := w.m.bucket(job.Class, job.Key); got.kind == "full" && got.retry >= 0 && math.Abs(b.told-w.m.now-got.retry) < 3 {
		b.told = w.m.now + got.retry // it was rounded up
	}
	if got.level > max(got.capacity, level) && got.kind == "admitted" {
		rt.Fatalf("admitted at level %d of %d, %d before", got.level, got.capacity, level)
	}
}

func (w *lawWorld) same(got, want modelAnswer) bool {
	return got.kind == want.kind && got.position == want.position && got.level == want.level && got.capacity == want.capacity &&
		got.dropped == want.dropped && w.near(got.start, want.start) && w.near(got.retry, max(want.retry, -1))
}

// near compares a time that the queue told, rounded up, with the model's.
func (w *lawWorld) near(got, want float64) bool {
	if w.whole {
		return got == math.Ceil(want)
	}
	return math.Abs(got-want) <= 2
}

func answerOf(r queue.Result, now float64) modelAnswer {
	full, ok := errors.AsType[*queue.FullError](r.Err)
	switch {
	case r.Err == nil:
		a := modelAnswer{
			kind: string(r.Receipt.Status), position: r.Receipt.Position, level: r.Receipt.Level,
			capacity: r.Receipt.Capacity, start: float64(r.Receipt.EstimatedStart.UnixMicro()), dropped: r.Receipt.Dropped,
		}
		if r.Receipt.Status == queue.Admitted && r.Receipt.EstimatedStart.Add(-r.Receipt.Wait).UnixMicro() != int64(now) {
			a.kind = "admitted with a wrong wait"
		}
		return a
	case ok && full.Paused:
		return modelAnswer{kind: string(full.Reason), level: full.Level, capacity: full.Capacity, retry: -1}
	case ok:
		return modelAnswer{
			kind: string(full.Reason), level: full.Level, capacity: full.Capacity,
			retry: float64(full.RetryAfter.Microseconds()),
		}
	default:
		return modelAnswer{kind: string(queue.ReasonOf(r.Err))}
	}
}
