package queue_test

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// drained is one bucket, "c/k", that a worker drains as soon as it may.
type drained struct {
	ctx    context.Context
	client *queue.Client
	outlet *queue.Outlet
	now    int64
	left   []int64 // when jobs left
	wait   time.Duration
	end    func(queue.Departure) queue.Verdict // what becomes of departures; nil: they stay out
}

func newDrained(ctx context.Context, t fataler, rdb *redis.Client, class queue.Class) *drained {
	t.Helper()
	must(t, rdb.FlushDB(ctx).Err())
	client, err := queue.OpenWithClock(ctx, rdb, queue.Options{Shards: 1})
	must(t, err)
	b := &drained{ctx: ctx, client: client, outlet: client.Outlet("w", 0), now: start}
	must(t, client.SetClock(ctx, start))
	_, err = client.Classes().Put(ctx, class)
	must(t, err)
	return b
}

func (b *drained) depart(t fataler) {
	t.Helper()
	d, err := b.outlet.Depart(b.ctx, queue.Ask{Want: 100})
	must(t, err)
	for range d.Jobs {
		b.left = append(b.left, b.now)
	}
	b.wait = d.Wait
	if b.end == nil || len(d.Jobs) == 0 {
		return
	}
	for _, j := range d.Jobs {
		v := b.end(j)
		v.Ref, v.Stamp, v.Class = j.Ref, j.Stamp, j.Class
		_, err := b.outlet.Settle(b.ctx, []queue.Verdict{v})
		must(t, err)
	}
	b.depart(t) // what waited for that
}

// advance lets time pass while the worker sleeps exactly as long as it is told.
func (b *drained) advance(t fataler, until int64) {
	t.Helper()
	for {
		b.depart(t)
		next := until
		if b.wait >= 0 {
			next = min(until, b.now+micros(b.wait))
		}
		if next == b.now {
			return
		}
		b.now = next
		must(t, b.client.SetClock(b.ctx, b.now))
	}
}

func (b *drained) submit(job queue.Job) (*queue.FullError, error) {
	_, err := b.client.Submit(b.ctx, job)
	if full, ok := errors.AsType[*queue.FullError](err); ok {
		return full, nil
	}
	return nil, err
}

// TestRetryAfterIsTrue is law 9: who was refused and comes back when told, alone, is admitted; also where the bucket is
// held, or jobs of it wait for their next attempts.
func TestRetryAfterIsTrue(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		rapid.Check(t, func(rt *rapid.T) {
			rates := []queue.Rate{{1000, time.Second}, {7, time.Second}, {1, 2 * time.Second}}
			class := queue.NewClass("c", rapid.IntRange(1, 6).Draw(rt, "capacity"), rapid.SampledFrom(rates).Draw(rt, "rate"))
			interval := class.Rate.Interval()
			class.Retry.Order = rapid.SampledFrom([]queue.Order{queue.Park, queue.Hold, queue.Tail}).Draw(rt, "order")
			b := newDrained(t.Context(), rt, rdb, class)
			delayed := b.fill(rt, interval)
			if rapid.Bool().Draw(rt, "lowered") {
				class.Capacity = rapid.IntRange(1, class.Capacity).Draw(rt, "new capacity")
				_, err := b.client.Classes().Put(b.ctx, class)
				must(rt, err)
			}
			job := newJob("c", "k", "late")
			if rapid.Bool().Draw(rt, "waits") {
				job.MaxWait = interval*time.Duration(rapid.IntRange(0, 5).Draw(rt, "max wait"))/2 + time.Millisecond
			}
			if !delayed && rapid.Bool().Draw(rt, "delayed") {
				job.NotBefore = time.UnixMicro(b.now).Add(interval * time.Duration(rapid.IntRange(0, 8).Draw(rt, "not before")) / 2)
			}
			full, err := b.submit(job)
			must(rt, err)
			if full == nil {
				return
			}
			told := micros(full.RetryAfter)
			b.advance(rt, b.now+told)
			if again, err := b.submit(job); again != nil || err != nil {
				rt.Fatalf("refused with %v; back after %d us: %v, %v", full, told, again, err)
			}
		})
	})
}

// fill puts jobs into the bucket at random times, and tells whether some were delayed.
func (b *drained) fill(rt *rapid.T, interval time.Duration) (delayed bool) {
	b.end = func(queue.Departure) queue.Verdict {
		if rapid.IntRange(0, 2).Draw(rt, "fails") > 0 {
			return queue.Verdict{Outcome: queue.Done}
		}
		delayed = true
		in := time.Duration(rapid.Float64Range(0, 5).Draw(rt, "delay") * float64(interval))
		return queue.Verdict{Outcome: queue.Failed, RetryAfter: &in}
	}
	defer func() { b.end = func(queue.Departure) queue.Verdict { return queue.Verdict{Outcome: queue.Done} } }()
	for i := range rapid.IntRange(0, 9).Draw(rt, "jobs") {
		job := newJob("c", "k", fmt.Sprint(i))
		if rapid.IntRange(0, 2).Draw(rt, "delayed") == 0 {
			job.NotBefore = time.UnixMicro(b.now + int64(rapid.Float64Range(0, 5).Draw(rt, "intervals")*float64(micros(interval))))
			delayed = true
		}
		_, err := b.submit(job)
		must(rt, err)
		if rapid.IntRange(0, 3).Draw(rt, "later") == 0 {
			b.advance(rt, b.now+rapid.SampledFrom([]int64{1, micros(interval) / 3, micros(interval) + 1}).Draw(rt, "us"))
		}
	}
	if rapid.IntRange(0, 3).Draw(rt, "held") == 0 {
		until := time.UnixMicro(b.now).Add(time.Duration(rapid.Float64Range(0, 5).Draw(rt, "hold") * float64(interval)))
		must(rt, b.client.Buckets().Hold(b.ctx, "c", "k", until))
	}
	return delayed
}

// visits are producers that come back, the earliest first.
type visits []visit

type visit struct {
	at       int64
	producer int
}

func (v visits) Len() int           { return len(v) }
func (v visits) Less(i, j int) bool { return v[i].at < v[j].at }
func (v visits) Swap(i, j int)      { v[i], v[j] = v[j], v[i] }
func (v *visits) Push(x any)        { *v = append(*v, x.(visit)) } //nolint:errcheck,forcetypeassert // container/heap
func (v *visits) Pop() any {
	last := (*v)[len(*v)-1]
	*v = (*v)[:len(*v)-1]
	return last
}

// TestManyProducersAtAFullBucket: 64 producers who come back when they are told to keep a full bucket busy, and are
// refused twice per job at most.
func TestManyProducersAtAFullBucket(t *testing.T) {
	t.Parallel()
	const producers, each, capacity = 64, 10, 100
	b := newDrained(t.Context(), t, redistest.Start(t).Client(t), queue.NewClass("c", capacity, queue.Rate{Limit: 20, Period: time.Second}))
	admit(t, b.client, newJobs("c", "k", capacity)...)
	var queued visits
	todo, refusals := [producers]int{}, 0
	for i := range producers {
		heap.Push(&queued, visit{b.now + int64(i), i})
		todo[i] = each
	}
	for len(queued) > 0 {
		v, ok := heap.Pop(&queued).(visit)
		if !ok {
			t.Fatal("not a visit")
		}
		b.advance(t, v.at)
		full, err := b.submit(newJob("c", "k", fmt.Sprint(v.producer, " ", todo[v.producer])))
		must(t, err)
		if full != nil {
			refusals++
			heap.Push(&queued, visit{b.now + max(1, micros(full.RetryAfter)), v.producer})
		} else if todo[v.producer]--; todo[v.producer] > 0 {
			heap.Push(&queued, visit{b.now, v.producer})
		}
	}
	b.advance(t, b.now+micros(time.Minute))
	if most := 2 * producers * each; refusals > most {
		t.Errorf("%d refusals, want at most %d", refusals, most)
	}
	if len(b.left) != capacity+producers*each {
		t.Fatalf("%d jobs departed, want %d", len(b.left), capacity+producers*each)
	}
	for i, at := range b.left {
		if want := start + int64(i)*50_000; at != want {
			t.Fatalf("departure %d at %d, want %d: the bucket ran empty", i, at-start, want-start)
		}
	}
	t.Logf("%d refusals of %d jobs", refusals, producers*each)
}
