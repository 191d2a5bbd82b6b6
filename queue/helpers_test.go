package queue_test

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// start is a time for test clocks, in microseconds, as large as real ones.
const start = int64(1_700_000_000_000_000)

// testing.TB and *rapid.T.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func must(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// onBoth is redistest.Each for tests with many keys or calls. Its miniredis does not look for expired keys at every command.
func onBoth(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	t.Helper()
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		test(t, redistest.Start(t).Client(t))
	})
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		rdb := redis.NewClient(&redis.Options{Addr: miniredis.RunT(t).Addr(), ReadTimeout: time.Minute, MaxRetries: -1})
		t.Cleanup(func() { _ = rdb.Close() })
		test(t, rdb)
	})
}

// openAt opens a client whose clock stands at start.
func openAt(t *testing.T, rdb redis.UniversalClient, shards int) *queue.Client {
	t.Helper()
	c, err := queue.OpenWithClock(t.Context(), rdb, queue.Options{Shards: shards})
	must(t, err)
	must(t, c.SetClock(t.Context(), start))
	return c
}

func open(t *testing.T, rdb redis.UniversalClient, shards int) *queue.Client {
	t.Helper()
	c, err := queue.Open(t.Context(), rdb, queue.Options{Shards: shards})
	must(t, err)
	return c
}

// put stores a class with the given settings, changed by the given functions.
func put(t *testing.T, c *queue.Client, name string, capacity int, rate string, change ...func(*queue.Class)) queue.Class {
	t.Helper()
	r, err := queue.ParseRate(rate)
	must(t, err)
	class := queue.NewClass(name, capacity, r)
	for _, f := range change {
		f(&class)
	}
	class, err = c.Classes().Put(t.Context(), class)
	must(t, err)
	return class
}

func newJob(class, key, id string) queue.Job {
	return queue.Job{Class: class, Key: key, ID: id, Payload: []byte(`null`)}
}

func newJobs(class, key string, n int) []queue.Job {
	jobs := make([]queue.Job, n)
	for i := range jobs {
		jobs[i] = newJob(class, key, fmt.Sprint("j", i))
	}
	return jobs
}

// admit submits jobs that must all be admitted.
func admit(t *testing.T, c *queue.Client, jobs ...queue.Job) []queue.Receipt {
	t.Helper()
	receipts := make([]queue.Receipt, len(jobs))
	for i, r := range c.SubmitMany(t.Context(), jobs) {
		if r.Err != nil || r.Receipt.Status != queue.Admitted {
			t.Fatalf("job %s: %+v, %v; want it admitted", jobs[i].ID, r.Receipt, r.Err)
		}
		receipts[i] = r.Receipt
	}
	return receipts
}

// refused submits a job that must be refused for want of room.
func refused(t *testing.T, c *queue.Client, job queue.Job) *queue.FullError {
	t.Helper()
	r, err := c.Submit(t.Context(), job)
	full, ok := errors.AsType[*queue.FullError](err)
	if !ok {
		t.Fatalf("job %s: %+v, %v; want it refused", job.ID, r, err)
	}
	return full
}

var workers atomic.Int64 // each has a name of its own

// departAll departs, with a new worker, from shard after shard until nothing is open, and tells the ids.
func departAll(t *testing.T, c *queue.Client) []string {
	t.Helper()
	var ids []string
	worker := fmt.Sprint("worker ", workers.Add(1))
	for shard := range c.Shards() {
		outlet := c.Outlet(worker, shard)
		for {
			d, err := outlet.Depart(t.Context(), queue.Ask{Want: 100})
			must(t, err)
			for _, j := range d.Jobs {
				ids = append(ids, j.ID)
			}
			if len(d.Jobs) == 0 {
				break
			}
		}
	}
	return ids
}

func micros(d time.Duration) int64 { return d.Microseconds() }
