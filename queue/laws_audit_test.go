package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// off is what an audit of class c finds, of all shards.
func off(t *testing.T, c *queue.Client) []string {
	t.Helper()
	accounts, err := c.Audit(t.Context(), "c")
	must(t, err)
	var all []string
	for _, a := range accounts {
		all = append(all, a.Off...)
	}
	return all
}

// TestAuditFinds: whatever somebody does to Redis behind our back, the audit says it.
func TestAuditFinds(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s, ctx := newShop(t, rdb), t.Context()
		put(t, s.c, "c", 100, "1/1s", func(c *queue.Class) { c.MaxInFlight = 5 })
		later := newJob("c", "k", "later")
		later.NotBefore = at(3_600_000_000)
		admit(t, s.c, append(newJobs("c", "k", 10), later)...)
		s.bury()
		s.advance(time.Second)
		d := s.one()
		if found := off(t, s.c); found != nil {
			t.Fatalf("nothing was done: %v", found)
		}
		for _, test := range []struct {
			want       string
			harm, heal func() error
		}{
			{
				"11 jobs wait, there are 9",
				func() error { return rdb.HIncrBy(ctx, "{spout:0}:stats:c", "admitted", 2).Err() },
				func() error { return rdb.HIncrBy(ctx, "{spout:0}:stats:c", "admitted", -2).Err() },
			},
			{
				"9 jobs wait, there are 1",
				func() error { return rdb.Rename(ctx, "{spout:0}:line:c/k", "{spout:0}:hidden").Err() },
				func() error { return rdb.Rename(ctx, "{spout:0}:hidden", "{spout:0}:line:c/k").Err() },
			},
			{
				"9 jobs wait, there are 8",
				func() error { return rdb.Rename(ctx, "{spout:0}:later:c/k", "{spout:0}:hidden").Err() },
				func() error { return rdb.Rename(ctx, "{spout:0}:hidden", "{spout:0}:later:c/k").Err() },
			},
			{
				"1 jobs are out, there are 0",
				func() error { return rdb.Rename(ctx, "{spout:0}:out:w", "{spout:0}:hidden").Err() },
				func() error { return rdb.Rename(ctx, "{spout:0}:hidden", "{spout:0}:out:w").Err() },
			},
			{
				"1 jobs are dead, there are 0",
				func() error { return rdb.Rename(ctx, "{spout:0}:dead:c", "{spout:0}:hidden").Err() },
				func() error { return rdb.Rename(ctx, "{spout:0}:hidden", "{spout:0}:dead:c").Err() },
			},
			{
				"buckets count 0 jobs out, workers have 1",
				func() error { return rdb.SRem(ctx, "{spout:0}:flight:c/k", d.Ref).Err() },
				func() error { return rdb.SAdd(ctx, "{spout:0}:flight:c/k", d.Ref).Err() },
			},
		} {
			must(t, test.harm())
			if found := strings.Join(off(t, s.c), "; "); !strings.Contains(found, test.want) {
				t.Errorf("%q, want %q", found, test.want)
			}
			must(t, test.heal())
			if found := off(t, s.c); found != nil {
				t.Errorf("healed: %v", found)
			}
		}
		if _, err := s.c.Audit(ctx, "none"); !errors.Is(err, queue.ErrUnknownClass) {
			t.Errorf("unknown class: %v", err)
		}
	})
}

// TestAuditOfALargeClass: one that cannot be counted at one moment is counted part by part.
func TestAuditOfALargeClass(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s, ctx := newShop(t, rdb), t.Context()
		const buckets = 1100
		put(t, s.c, "c", 100, "1/1s", func(c *queue.Class) { c.MaxInFlight = 5 })
		var jobs []queue.Job
		for k := range buckets {
			jobs = append(jobs, newJobs("c", fmt.Sprint("k", k), 2)...)
		}
		admit(t, s.c, jobs...)
		s.advance(time.Second)
		if n := departWith(ctx, t, s.outlet); n != buckets {
			t.Fatalf("%d departed", n)
		}
		accounts, err := s.c.Audit(ctx, "c")
		if err != nil || accounts[0].Off != nil || accounts[0].Line != buckets || accounts[0].Out != buckets || accounts[0].Moved != 0 {
			t.Errorf("%+v, %v; want %d in line and out", accounts, err, buckets)
		}
		must(t, rdb.HIncrBy(ctx, "{spout:0}:stats:c", "departed", 1).Err())
		want := []string{"the books say 1099 jobs wait, there are 1100", "the books say 1101 jobs are out, there are 1100"}
		if found := off(t, s.c); !slices.Equal(found, want) {
			t.Errorf("%v, want %v", found, want)
		}
	})
}

// TestAuditOfALiveSystem: while jobs come, leave, fail and end, an audit finds nothing off.
func TestAuditOfALiveSystem(t *testing.T) {
	t.Parallel()
	for name, buckets := range map[string]int{"small": 20, "large": 700} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := open(t, redistest.Start(t).Client(t), 1)
			put(t, c, "c", 10, "1000/1s", func(c *queue.Class) { c.Overflow, c.MaxInFlight, c.Dead.Max = queue.DropOldest, 3, 50 })
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for n := range 2 {
				all.Go(func() { produce(ctx, c, n, buckets) })
				all.Go(func() { consume(ctx, c, n) })
			}
			for n := 0; n < 20 || !somethingOfEach(t, c); n++ {
				if found := off(t, c); found != nil {
					t.Errorf("off: %v", found)
				}
			}
			cancel()
			all.Wait()
			if found := off(t, c); found != nil {
				t.Errorf("at last: %v", found)
			}
		})
	}
}

func somethingOfEach(t *testing.T, c *queue.Client) bool {
	t.Helper()
	books, err := c.Books(t.Context(), "c")
	must(t, err)
	return books.Done > 0 && books.Retried > 0 && books.Dead > 0
}

func produce(ctx context.Context, c *queue.Client, n, buckets int) {
	for i := 0; ctx.Err() == nil; i++ {
		jobs := make([]queue.Job, 20)
		for k := range jobs {
			jobs[k] = newJob("c", fmt.Sprint("k", (i*len(jobs)+k)%buckets), fmt.Sprint(n, " ", i, " ", k))
		}
		c.SubmitMany(ctx, jobs) // what finds no room is not the point
		<-time.After(2 * time.Millisecond)
	}
}

func consume(ctx context.Context, c *queue.Client, n int) {
	outlet, soon := c.Outlet(fmt.Sprint("w", n), 0), time.Millisecond
	for ctx.Err() == nil {
		d, err := outlet.Depart(ctx, queue.Ask{Want: queue.SettleMost})
		if err != nil {
			continue
		}
		verdicts := verdictsOf(d.Jobs, queue.Verdict{RetryAfter: &soon})
		for i := range verdicts {
			verdicts[i].Outcome = []queue.Outcome{queue.Done, queue.Failed, queue.Back, queue.Dead, queue.Stopped}[i%5]
		}
		_, _ = outlet.Settle(ctx, verdicts) // what is lost stays out, and is counted
		<-time.After(2 * time.Millisecond)
	}
}
