package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// benchKeys runs a benchmark on a real Redis with one shard, for one and for a thousand keys. Its class departs so fast
// that it is never what limits.
func benchKeys(b *testing.B, run func(b *testing.B, c *queue.Client, keys int)) {
	b.Helper()
	for _, keys := range []int{1, 1000} {
		b.Run(fmt.Sprint("keys=", keys), func(b *testing.B) {
			c, err := queue.OpenWithClock(b.Context(), redistest.Start(b).Client(b), queue.Options{Shards: 1})
			must(b, err)
			must(b, c.SetClock(b.Context(), start))
			class := queue.NewClass("c", 1_000_000, queue.Rate{Limit: 10_000, Period: time.Second})
			class.CatchUp = time.Second
			_, err = c.Classes().Put(b.Context(), class)
			must(b, err)
			run(b, c, keys)
		})
	}
}

var benched int // jobs, so that ids never repeat

// fillBench submits n jobs to the keys in turn.
func fillBench(b *testing.B, c *queue.Client, keys, n int) {
	b.Helper()
	jobs := make([]queue.Job, n)
	for i := range jobs {
		jobs[i] = newJob("c", fmt.Sprint("k", i%keys), fmt.Sprint(benched))
		benched++
	}
	for _, r := range c.SubmitMany(b.Context(), jobs) {
		must(b, r.Err)
	}
}

// BenchmarkAdmit is one submission of a batch of 100.
func BenchmarkAdmit(b *testing.B) {
	benchKeys(b, func(b *testing.B, c *queue.Client, keys int) {
		b.Helper()
		for n := 0; n < b.N; n += 100 {
			fillBench(b, c, keys, min(100, b.N-n))
		}
	})
}

// departBench departs and passes on n jobs, 64 at a time, with the clock a second later each time.
func departBench(b *testing.B, c *queue.Client, n int, settle func(*queue.Outlet, []queue.Departure)) {
	b.Helper()
	outlet, now := c.Outlet("w", 0), start
	for left := n; left > 0; {
		now += 1_000_000
		must(b, c.SetClock(b.Context(), now))
		for {
			d, err := outlet.Depart(b.Context(), queue.Ask{Want: min(64, left)})
			must(b, err)
			left -= len(d.Jobs)
			if settle(outlet, d.Jobs); len(d.Jobs) == 0 {
				break
			}
		}
	}
}

// BenchmarkDepart64 is one departure of 64.
func BenchmarkDepart64(b *testing.B) {
	benchKeys(b, func(b *testing.B, c *queue.Client, keys int) {
		b.Helper()
		fillBench(b, c, keys, b.N)
		b.ResetTimer()
		departBench(b, c, b.N, func(*queue.Outlet, []queue.Departure) {})
	})
}

// BenchmarkSettle is one departure of 64 that is done.
func BenchmarkSettle(b *testing.B) {
	benchKeys(b, func(b *testing.B, c *queue.Client, keys int) {
		b.Helper()
		fillBench(b, c, keys, b.N)
		var done [][]queue.Verdict
		var last *queue.Outlet
		departBench(b, c, b.N, func(outlet *queue.Outlet, jobs []queue.Departure) {
			verdicts := make([]queue.Verdict, len(jobs))
			for i, j := range jobs {
				verdicts[i] = queue.Verdict{Ref: j.Ref, Stamp: j.Stamp, Outcome: queue.Done}
			}
			if last = outlet; len(jobs) > 0 {
				done = append(done, verdicts)
			}
		})
		b.ResetTimer()
		for _, verdicts := range done {
			_, err := last.Settle(b.Context(), verdicts)
			must(b, err)
		}
	})
}
