package queue_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// TestStoreShare: where more of the maxmemory is used than is for jobs, new ones are refused long before Redis itself does;
// what is there is answered, departs, fails, comes back and ends, and then there is room again.
func TestStoreShare(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	ctx := t.Context()
	c, err := queue.OpenWithClock(ctx, rdb, queue.Options{Shards: 1, StoreShare: 0.5})
	must(t, err)
	must(t, c.SetClock(ctx, start))
	put(t, c, "c", 100_000, "10000/1s", func(c *queue.Class) { c.CatchUp = time.Second })
	must(t, rdb.ConfigSet(ctx, "maxmemory", "10mb").Err())

	first := bigJob("first")
	admitted := []queue.Job{first}
	admit(t, c, first)
	fill := func() {
		t.Helper()
		for i := range 10_000 {
			job := bigJob(fmt.Sprint(len(admitted), " ", i))
			_, err := c.Submit(ctx, job)
			if queue.ReasonOf(err) == queue.ReasonStoreFull {
				if !errors.Is(err, queue.ErrUnavailable) || !strings.Contains(err.Error(), "share") {
					t.Errorf("refused: %v; want it unavailable, and why", err)
				}
				return
			}
			must(t, err)
			admitted = append(admitted, job)
			<-time.After(5 * time.Millisecond) // memory is looked at now and then
		}
		t.Fatal("it never was full")
	}
	fill()
	if used := memory(ctx, t, rdb); used > 9<<20 || used < 5<<20 {
		t.Errorf("full at %d bytes of 10 MiB, half of which is for jobs", used)
	}
	results := c.SubmitMany(ctx, []queue.Job{first, bigJob("new"), admitted[len(admitted)-1]})
	for i, r := range results {
		if i == 1 && queue.ReasonOf(r.Err) != queue.ReasonStoreFull || i != 1 && (r.Err != nil || r.Receipt.Status != queue.Duplicate) {
			t.Errorf("job %d: %+v, %v; want new ones refused, and others answered", i, r.Receipt, r.Err)
		}
	}
	books := drainByHalf(t, c)
	if books.Admitted != int64(len(admitted)) || books.Done != books.Admitted || books.Retried == 0 || books.Rejected[queue.ReasonStoreFull] < 2 {
		t.Errorf("books: %+v; want %d admitted and done", books, len(admitted))
	}
	eventually(t, "admitted again", func() bool {
		_, err := c.Submit(ctx, bigJob("again"))
		return err == nil
	})
}

func bigJob(id string) queue.Job {
	job := newJob("c", "k", id)
	job.Payload = slices.Concat([]byte(`"`), bytes.Repeat([]byte("x"), 20_000), []byte(`"`))
	return job
}

func memory(ctx context.Context, t *testing.T, rdb *redis.Client) int64 {
	t.Helper()
	info, err := rdb.InfoMap(ctx, "memory").Result()
	must(t, err)
	return parse(info["Memory"]["used_memory"])
}

// drainByHalf departs all jobs, each of which fails once.
func drainByHalf(t *testing.T, c *queue.Client) queue.Books {
	t.Helper()
	outlet, soon := c.Outlet("w", 0), time.Millisecond
	for now := start; ; now += 1_000_000 {
		must(t, c.SetClock(t.Context(), now))
		d, err := outlet.Depart(t.Context(), queue.Ask{Want: queue.SettleMost})
		must(t, err)
		var verdicts []queue.Verdict
		for _, j := range d.Jobs {
			v := queue.Verdict{Ref: j.Ref, Stamp: j.Stamp, Class: "c", Outcome: queue.Failed, Error: "no", RetryAfter: &soon}
			if j.Attempt > 1 {
				v.Outcome = queue.Done
			}
			verdicts = append(verdicts, v)
		}
		taken, err := outlet.Settle(t.Context(), verdicts)
		if err != nil || slices.Contains(taken, false) {
			t.Fatalf("settle: %v, %v", taken, err)
		}
		books, err := c.Books(t.Context(), "c")
		must(t, err)
		if books.Waiting()+books.Out() == 0 {
			return books
		}
	}
}

// eventually waits until something that takes real time has happened.
func eventually(t *testing.T, what string, happened func() bool) {
	t.Helper()
	for range 2000 {
		if happened() {
			return
		}
		<-time.After(10 * time.Millisecond)
	}
	t.Fatalf("not %s within 20 s", what)
}

// TestStoreIsSeldomLookedAt: how full Redis is costs no call per submission.
func TestStoreIsSeldomLookedAt(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c := openAt(t, rdb, 1)
		put(t, c, "c", 10_000, "1/1s")
		h := tapped(rdb)
		began := time.Now()
		for i := range 300 {
			_, err := c.Submit(t.Context(), newJob("c", "k", fmt.Sprint(i)))
			must(t, err)
		}
		admit(t, c, newJobs("c", "other", 300)...)
		most := 2 + int(time.Since(began)/(500*time.Millisecond))
		names, _ := h.taken()
		looks := len(slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name != "info" }))
		if looks == 0 || looks > most {
			t.Errorf("%d looks at the memory, want 1 to %d", looks, most)
		}
		if others := len(names) - looks; others > 303+10 {
			t.Errorf("%d other commands for 300 submissions and 3 batches", others)
		}
	})
}

// TestStoreShareIsChecked: Open takes no share that makes no sense.
func TestStoreShareIsChecked(t *testing.T) {
	t.Parallel()
	rdb := redistest.MiniClient(t)
	for _, share := range []float64{-0.1, 1.1} {
		if _, err := queue.Open(t.Context(), rdb, queue.Options{StoreShare: share}); !errors.Is(err, queue.ErrInvalid) {
			t.Errorf("share %v: %v, want it invalid", share, err)
		}
	}
}
