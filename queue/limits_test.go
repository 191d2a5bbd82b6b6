package queue_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// TestMaxJobs: the bound over all keys of a class is exact for submissions one after the other, in whatever shard.
func TestMaxJobs(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c := openAt(t, rdb, 4)
		put(t, c, "c", 5, "1/1s", func(c *queue.Class) { c.MaxJobs = 10 })
		put(t, c, "other", 5, "1/1s")
		admit(t, c, newJobs("other", "k", 5)...)
		for i := range 20 {
			job := newJob("c", fmt.Sprint("k", i), fmt.Sprint(i))
			if i < 10 {
				admit(t, c, job)
				continue
			}
			if full := refused(t, c, job); full.Reason != queue.ReasonClassFull || full.RetryAfter < 0 || full.Paused || full.Level != 0 {
				t.Fatalf("job %d: %+v; want class_full", i, full)
			}
		}
		if n := len(departAll(t, c)); n != 11 {
			t.Fatalf("%d jobs departed, want 11: one of each bucket", n)
		}
		results := c.SubmitMany(t.Context(), newJobs("c", "one key", 12))
		for i, r := range results {
			full, ok := errors.AsType[*queue.FullError](r.Err)
			if i < 5 && r.Err != nil || i >= 5 && (!ok || full.Reason != queue.ReasonFull) {
				t.Errorf("job %d: %+v, %v; want five admitted", i, r.Receipt, r.Err)
			}
		}
		admit(t, c, newJobs("c", "another", 5)...)
		if full := refused(t, c, newJob("c", "third", "x")); full.Reason != queue.ReasonClassFull {
			t.Errorf("%+v; want class_full", full)
		}
	})
}

// TestMaxWait: a job that would wait longer than it may is told when it would not, and one that has waited too long is
// gone without a departure.
func TestMaxWait(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c := openAt(t, rdb, 1)
		put(t, c, "c", 100, "1/2s", func(c *queue.Class) { c.MaxWait = 5 * time.Second })
		admit(t, c, newJobs("c", "k", 3)...) // they are to leave at 0, 2 and 4 s
		full := refused(t, c, newJob("c", "k", "late"))
		if full.Reason != queue.ReasonWouldExpire || full.RetryAfter != time.Second || full.Level != 3 {
			t.Errorf("%+v; want would_expire, retry after 1s", full)
		}
		shorter := newJob("c", "other", "shorter")
		shorter.MaxWait = time.Second
		longer := newJob("c", "other", "longer")
		longer.MaxWait = time.Hour // the class's own holds as well
		admit(t, c, shorter, longer)
		must(t, c.SetClock(t.Context(), start+2_000_000))
		if ids := departAll(t, c); !slices.Equal(ids, []string{"j0", "longer"}) {
			t.Errorf("departures %v, want j0 and longer: the other waited too long", ids)
		}
		must(t, c.SetClock(t.Context(), start+5_005_001))
		if ids := departAll(t, c); len(ids) != 0 {
			t.Errorf("departures %v of expired jobs", ids)
		}
		books, err := c.Books(t.Context(), "c")
		must(t, err)
		want := queue.Books{Admitted: 5, Departed: 2, Expired: 3, Rejected: map[queue.Reason]int64{queue.ReasonWouldExpire: 1}}
		if diff := cmp.Diff(want, books); diff != "" {
			t.Errorf("books (-want +got):\n%s", diff)
		}
		if r := admit(t, c, newJob("c", "k", "next"))[0]; r.EstimatedStart.UnixMicro() != start+5_005_001 {
			t.Errorf("the next one is to start at %v: expired jobs used slots up", r.EstimatedStart)
		}
	})
}

// TestSameAnswer is law 8, while the job exists.
func TestSameAnswer(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c, ctx := openAt(t, rdb, 2), t.Context()
		put(t, c, "c", 2, "1/2s")
		job := newJob("c", "k", "2")
		job.Payload = []byte(`{"a": 1}`)
		first := admit(t, c, newJob("c", "k", "1"), job)[1]
		again := func(what string, job queue.Job) {
			t.Helper()
			got, err := c.Submit(ctx, job)
			want := first
			want.Status = queue.Duplicate
			if diff := cmp.Diff(want, got); diff != "" || err != nil {
				t.Errorf("%s: %v, (-want +got):\n%s", what, err, diff)
			}
		}
		job.Payload = []byte(` { "a" : 1 } `)
		again("full bucket, payload with other spaces", job)
		job.NotBefore, job.MaxWait = time.Now(), time.Hour
		again("other times", job)
		must(t, c.SetClock(ctx, start+10_000_000))
		departAll(t, c)
		must(t, c.SetClock(ctx, start+13_000_000))
		departAll(t, c)
		again("it is out", job)
		results := c.SubmitMany(ctx, []queue.Job{newJob("c", "k", "3"), newJob("c", "k", "3"), newJob("c", "x", "2")})
		if results[0].Receipt.Status != queue.Admitted || results[1].Receipt.Status != queue.Duplicate || results[2].Receipt.Status != queue.Admitted {
			t.Errorf("twice in one call and the same id under another key: %+v", results)
		}
		for what, change := range map[string]func(*queue.Job){
			"payload": func(j *queue.Job) { j.Payload = []byte(`{"a":1.0}`) },
			"type":    func(j *queue.Job) { j.Type = "other" },
		} {
			other := job
			change(&other)
			if r, err := c.Submit(ctx, other); !errors.Is(err, queue.ErrConflict) || r.Status != "" {
				t.Errorf("other %s: %+v, %v; want a conflict", what, r, err)
			}
		}
	})
}

// TestDedupWindow: within it the identity of a finished job is remembered, without its payload; after it the id is new.
func TestDedupWindow(t *testing.T) {
	t.Parallel()
	m := redistest.Mini(t)
	mini := redis.NewClient(&redis.Options{Addr: m.Addr()})
	t.Cleanup(func() { _ = mini.Close() })
	t.Run("miniredis", func(t *testing.T) {
		c := finishWithDedup(t, mini)
		m.FastForward(59 * time.Minute)
		if r, err := c.Submit(t.Context(), newJob("c", "k", "done")); err != nil || r.Status != queue.Duplicate {
			t.Errorf("within the window: %+v, %v; want a duplicate", r, err)
		}
		m.FastForward(time.Minute)
		admit(t, c, newJob("c", "k", "done"), newJob("c", "k", "purged"), newJob("c", "k", "dead"), newJob("c", "k", "expired"))
	})
	t.Run("redis", func(t *testing.T) { finishWithDedup(t, redistest.Start(t).Client(t)) })
}

// finishWithDedup ends one job in each way and looks at what is left of it.
func finishWithDedup(t *testing.T, rdb *redis.Client) *queue.Client {
	t.Helper()
	c, ctx := openAt(t, rdb, 1), t.Context()
	put(t, c, "c", 10, "1000/1s", func(c *queue.Class) { c.Dedup = time.Hour })
	expiring := newJob("c", "k", "expired")
	expiring.MaxWait = 3 * time.Millisecond
	receipts := admit(t, c, newJob("c", "k", "done"), newJob("c", "k", "dead"), newJob("c", "k", "purged"), expiring)
	must(t, c.SetClock(ctx, start+1000))
	outlet := c.Outlet("w", 0)
	d, err := outlet.Depart(ctx, queue.Ask{Want: 2})
	if err != nil || len(d.Jobs) != 2 {
		t.Fatalf("%+v, %v; want two departures", d, err)
	}
	_, err = outlet.Settle(ctx, []queue.Verdict{
		{Ref: d.Jobs[0].Ref, Stamp: d.Jobs[0].Stamp, Outcome: queue.Done},
		{Ref: d.Jobs[1].Ref, Stamp: d.Jobs[1].Stamp, Outcome: queue.Dead},
	})
	must(t, err)
	must(t, c.SetClock(ctx, start+9000))
	must(t, c.Buckets().Pause(ctx, "c", "k"))
	departAll(t, c)
	waiting, dead, err := c.Classes().Purge(ctx, "c")
	if waiting != 1 || dead != 1 || err != nil {
		t.Fatalf("purged %d and %d, %v; want one of each", waiting, dead, err)
	}
	must(t, c.Buckets().Resume(ctx, "c", "k"))
	for _, r := range receipts {
		j, err := c.Job(ctx, r.Ref)
		if err != nil || j.State != queue.Gone || len(j.Payload) > 0 || j.ID != r.ID || j.AdmittedAt.UnixMicro() != start {
			t.Errorf("%s: %+v, %v; want only its identity", r.ID, j, err)
		}
		if ttl := rdb.PTTL(ctx, "{spout:0}:job:"+r.Ref).Val(); ttl <= 59*time.Minute || ttl > time.Hour {
			t.Errorf("%s is remembered for %v, want the hour from its admission", r.ID, ttl)
		}
		again, err := c.Submit(ctx, newJob("c", "k", r.ID))
		if r.Status = queue.Duplicate; err != nil || !cmp.Equal(again, r) {
			t.Errorf("%s again: %+v, %v; want %+v", r.ID, again, err, r)
		}
	}
	return c
}
