package queue_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// spoil makes bucket c/bad one that no script can work with.
func spoil(t *testing.T, rdb *redis.Client) {
	t.Helper()
	must(t, rdb.Set(t.Context(), "{spout:0}:line:c/bad", "not a line", 0).Err())
}

func mend(t *testing.T, c *queue.Client, rdb *redis.Client) {
	t.Helper()
	must(t, rdb.Del(t.Context(), "{spout:0}:line:c/bad").Err())
	must(t, c.Buckets().Resume(t.Context(), "c", "bad"))
}

// TestSickBucket: depart sets one bad bucket aside, shows it, and serves the others.
func TestSickBucket(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c, ctx := openAt(t, rdb, 1), t.Context()
		put(t, c, "c", 10, "10/1s")
		admit(t, c, newJob("c", "bad", "lost"), newJob("c", "good", "1"), newJob("c", "worse", "2"))
		spoil(t, rdb)
		must(t, c.SetClock(ctx, start+1000))
		if ids := departAll(t, c); !slices.Equal(ids, []string{"1", "2"}) {
			t.Errorf("departures %v, want those of the good buckets", ids)
		}
		d, err := c.Outlet("w", 0).Depart(ctx, queue.Ask{Want: 10})
		if err != nil || micros(d.Wait) != 100_000+joinSpread-1000 || d.Visits != 0 {
			t.Errorf("%+v, %v; want a wait until the next good one is due", d, err)
		}
		if b, err := c.Buckets().Get(ctx, "c", "bad"); err != nil || b.Sick == "" {
			t.Errorf("bad bucket: %+v, %v; want it sick", b, err)
		}
		if b, err := c.Buckets().Get(ctx, "c", "good"); err != nil || b.Sick != "" {
			t.Errorf("good bucket: %+v, %v", b, err)
		}
		admit(t, c, newJob("c", "good", "3"))
		if list, err := c.Buckets().List(ctx, "c", 2); err != nil || len(list) != 2 || list[0].Key != "bad" || list[0].Sick == "" || list[1].Key != "good" {
			t.Errorf("buckets %+v, %v; want the sick one before the fullest", list, err)
		}
		mend(t, c, rdb)
		admit(t, c, newJob("c", "bad", "new"))
		if ids := departAll(t, c); !slices.Equal(ids, []string{"new"}) {
			t.Errorf("departures %v of the mended bucket", ids)
		}
		if b, err := c.Buckets().Get(ctx, "c", "bad"); err != nil || b.Sick != "" {
			t.Errorf("mended bucket: %+v, %v", b, err)
		}
	})
}

// TestSickBucketInABatch: submissions to a bad bucket fail, and those that travel with them do not.
func TestSickBucketInABatch(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c, ctx := openAt(t, rdb, 1), t.Context()
		put(t, c, "c", 10, "10/1s")
		spoil(t, rdb)
		results := c.SubmitMany(ctx, []queue.Job{newJob("c", "good", "1"), newJob("c", "bad", "2"), newJob("c", "good", "3"), newJob("c", "new", "4")})
		for i, r := range results {
			if i == 1 && !errors.Is(r.Err, queue.ErrUnavailable) || i != 1 && r.Err != nil {
				t.Errorf("job %d: %+v, %v", i+1, r.Receipt, r.Err)
			}
		}
		must(t, c.SetClock(ctx, start+1000))
		if ids := departAll(t, c); !slices.Equal(ids, []string{"1", "4"}) {
			t.Errorf("departures %v, want 1 and 4", ids)
		}
		if books, err := c.Books(ctx, "c"); err != nil || books.Admitted != 3 || books.Waiting() != 1 {
			t.Errorf("books: %+v, %v; want three admitted, one waiting", books, err)
		}
		mend(t, c, rdb)
		admit(t, c, newJob("c", "bad", "2"))
	})
}

// TestGivingBackToASickBucket: a job that cannot return is counted as sick, and the others return.
func TestGivingBackToASickBucket(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		line := &unreliable{}
		rdb.AddHook(line)
		c, ctx, now := openAt(t, rdb, 1), t.Context(), start
		put(t, c, "c", 10, "10/1s")
		for i, way := range []string{"settle", "leave", "next call"} {
			admit(t, c, newJob("c", "a", fmt.Sprint(i)), newJob("c", "bad", fmt.Sprint(i)), newJob("c", "z", fmt.Sprint(i)))
			now += 1_000_000
			must(t, c.SetClock(ctx, now))
			outlet := c.Outlet(way, 0)
			if way == "next call" {
				line.next = replyLost
			}
			d, err := outlet.Depart(ctx, queue.Ask{Want: 10})
			if (err != nil) != (way == "next call") || err == nil && len(d.Jobs) != 3 {
				t.Fatalf("%s: %+v, %v; want three jobs", way, d, err)
			}
			spoil(t, rdb)
			switch way {
			case "settle":
				var verdicts []queue.Verdict
				for _, j := range d.Jobs {
					verdicts = append(verdicts, queue.Verdict{Ref: j.Ref, Stamp: j.Stamp, Outcome: queue.Back, Stale: true})
				}
				if taken, err := outlet.Settle(ctx, verdicts); err != nil || slices.Contains(taken, false) {
					t.Errorf("settle: %v, %v", taken, err)
				}
			case "leave":
				if n, err := outlet.Leave(ctx); n != 3 || err != nil {
					t.Errorf("leave: %d, %v; want 3", n, err)
				}
			case "next call":
				if d, err := outlet.Depart(ctx, queue.Ask{Want: 0}); d.Returned != 3 || err != nil {
					t.Errorf("next call: %+v, %v; want 3 returned", d, err)
				}
			}
			if b, err := c.Buckets().Get(ctx, "c", "bad"); err != nil || b.Sick == "" {
				t.Errorf("%s: bad bucket: %+v, %v; want it sick", way, b, err)
			}
			mend(t, c, rdb)
			now += 1_000_000
			must(t, c.SetClock(ctx, now))
			if ids := departAll(t, c); len(ids) != 2 {
				t.Errorf("%s: departures %v, want those given back", way, ids)
			}
			if books, err := c.Books(ctx, "c"); err != nil || books.Waiting() != 0 || books.Sick != int64(i)+1 {
				t.Errorf("%s: books: %+v, %v; want nothing waiting", way, books, err)
			}
		}
	})
}

// TestMissingJob: a job whose own data is gone is counted, and the line goes on.
func TestMissingJob(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c, ctx := openAt(t, rdb, 1), t.Context()
		put(t, c, "c", 10, "10/1s", func(c *queue.Class) { c.MaxWait = time.Minute })
		rs := admit(t, c, newJobs("c", "k", 4)...)
		must(t, rdb.Del(ctx, "{spout:0}:job:"+rs[0].Ref, "{spout:0}:job:"+rs[1].Ref).Err())
		must(t, rdb.Set(ctx, "{spout:0}:job:"+rs[1].Ref, "not a job", 0).Err())
		outlet := c.Outlet("w", 0)
		d, err := outlet.Depart(ctx, queue.Ask{Want: 1})
		if err != nil || len(d.Jobs) != 1 || d.Jobs[0].ID != "j2" {
			t.Fatalf("%+v, %v; want j2", d, err)
		}
		must(t, rdb.Del(ctx, "{spout:0}:job:"+rs[2].Ref).Err())
		if taken, err := outlet.Settle(ctx, []queue.Verdict{{Ref: rs[2].Ref, Stamp: d.Jobs[0].Stamp, Outcome: queue.Back, Stale: true}}); err != nil || !taken[0] {
			t.Errorf("settle: %v, %v", taken, err)
		}
		must(t, c.SetClock(ctx, start+100_000))
		if ids := departAll(t, c); !slices.Equal(ids, []string{"j3"}) {
			t.Errorf("departures %v, want j3", ids)
		}
		if books, err := c.Books(ctx, "c"); err != nil || books.Sick != 3 || books.Waiting() != 0 || books.Out() != 1 {
			t.Errorf("books: %+v, %v; want 3 sick, 1 out", books, err)
		}
		for _, key := range leftover(t, rdb) {
			if key == "{spout:0}:expiry:c/k" || key == "{spout:0}:job:"+rs[0].Ref || key == "{spout:0}:job:"+rs[2].Ref {
				t.Errorf("%s is left over", key)
			}
		}
	})
}

// TestSickBucketAndItsClass: a bad bucket does not keep its class from being changed; who works on it alone is told.
func TestSickBucketAndItsClass(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c, ctx := openAt(t, rdb, 1), t.Context()
		class := put(t, c, "c", 10, "1/1h")
		admit(t, c, newJob("c", "bad", "1"), newJob("c", "good", "1"), newJob("c", "good", "2"))
		must(t, c.SetClock(ctx, start+1000))
		departAll(t, c)
		spoil(t, rdb)
		class.Rate = queue.Rate{Limit: 10, Period: time.Second}
		if _, err := c.Classes().Put(ctx, class); err != nil {
			t.Errorf("put: %v", err)
		}
		if err := c.Buckets().Pause(ctx, "c", "bad"); !errors.Is(err, queue.ErrUnavailable) {
			t.Errorf("pause: %v, want it unavailable", err)
		}
		if b, err := c.Buckets().Get(ctx, "c", "bad"); err != nil || b.Sick == "" {
			t.Errorf("bad bucket: %+v, %v; want it sick", b, err)
		}
		must(t, c.SetClock(ctx, start+101_000))
		if ids := departAll(t, c); !slices.Equal(ids, []string{"2"}) {
			t.Errorf("departures %v at the new rate, want 2", ids)
		}
	})
}
