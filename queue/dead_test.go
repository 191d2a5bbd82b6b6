package queue_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

// bury has one job of each bucket that has any dead, a second later than the last time.
func (s *shop) bury() {
	s.t.Helper()
	s.advance(time.Second)
	for _, d := range s.depart(queue.SettleMost) {
		if !s.settle(d, queue.Dead) {
			s.t.Fatalf("job %s was not settled", d.ID)
		}
	}
}

// deadIDs lists a page of dead jobs.
func deadIDs(t *testing.T, c *queue.Client, q queue.DeadQuery) ([]string, []queue.JobState) {
	t.Helper()
	q.Class = "c"
	jobs, err := c.Dead().List(t.Context(), q)
	must(t, err)
	var ids []string
	for _, j := range jobs {
		if ids = append(ids, j.ID); j.State != queue.Kept {
			t.Errorf("not dead: %+v", j)
		}
	}
	return ids, jobs
}

// TestDeadLimits: a class keeps no more dead jobs than it says, the newest, and none for longer; what goes is counted.
func TestDeadLimits(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 100, "1/1s", func(c *queue.Class) { c.Dead = queue.DeadLimits{Max: 3, Keep: time.Minute} })
		refs := admit(t, s.c, newJobs("c", "k", 8)...)
		for range 5 {
			s.bury()
		}
		if ids, _ := deadIDs(t, s.c, queue.DeadQuery{Limit: 10}); !slices.Equal(ids, []string{"j4", "j3", "j2"}) {
			t.Errorf("dead: %v, want the newest three", ids)
		}
		if b := s.audited(); b.Dead != 5 || b.DeadDropped != 2 || b.DeadKept() != 3 {
			t.Errorf("%+v; want two dropped", b)
		}
		if _, err := s.c.Job(t.Context(), refs[0].Ref); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("a dropped one: %v, want it gone", err)
		}
		admit(t, s.c, newJob("c", "k", "j0")) // its identity is free again
		s.advance(59 * time.Second)
		s.bury() // j4 died a minute ago, and j3 before that
		if ids, _ := deadIDs(t, s.c, queue.DeadQuery{Limit: 10}); !slices.Equal(ids, []string{"j5", "j4"}) {
			t.Errorf("dead: %v, want those of the last minute", ids)
		}
		s.advance(time.Hour)
		class, err := s.c.Classes().Get(t.Context(), "c")
		must(t, err)
		must(t, s.c.Dead().Trim(t.Context(), class))
		if b := s.audited(); b.DeadDropped != 6 || b.DeadKept() != 0 {
			t.Errorf("%+v; want all dropped", b)
		}
		class.Dead.Max = 0
		_, err = s.c.Classes().Put(t.Context(), class)
		must(t, err)
		s.bury()
		if b := s.audited(); b.Dead != 7 || b.DeadKept() != 0 {
			t.Errorf("%+v; want none kept", b)
		}
	})
}

// TestDeadLimitIsOfTheClass: a trim holds the bound over all shards, and takes from where there are most.
func TestDeadLimitIsOfTheClass(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c := openAt(t, rdb, 4)
		class := put(t, c, "c", 100, "1/1s", func(c *queue.Class) { c.Dead.Max = 150 })
		for k := range 400 {
			admit(t, c, newJob("c", fmt.Sprint("k", k), "j"))
		}
		must(t, c.SetClock(t.Context(), start+1_000_000))
		buryBatches(t, c)
		must(t, c.Dead().Trim(t.Context(), class))
		most, sum := int64(0), int64(0)
		for shard := range 4 {
			n := rdb.ZCard(t.Context(), fmt.Sprintf("{spout:%d}:dead:c", shard)).Val()
			most, sum = max(most, n), sum+n
		}
		if sum != 150 || most > 100 {
			t.Errorf("%d dead jobs are kept, %d in one shard; want 150, evenly", sum, most)
		}
		if n, err := c.Dead().Count(t.Context(), "c"); err != nil || n != 150 {
			t.Errorf("count: %d, %v; want 150", n, err)
		}
		seen := map[string]bool{}
		for q := (queue.DeadQuery{Limit: 7}); ; { // all died at the same moment
			_, jobs := deadIDs(t, c, q)
			for _, j := range jobs {
				if seen[j.Ref] {
					t.Fatalf("job %s is on two pages", j.Ref)
				}
				seen[j.Ref] = true
				q.Before, q.BeforeRef = j.EndedAt, j.Ref
			}
			if len(jobs) == 0 {
				break
			}
		}
		if len(seen) != 150 {
			t.Errorf("%d dead jobs on all pages, want 150", len(seen))
		}
		accounts, err := c.Audit(t.Context(), "c")
		must(t, err)
		for _, a := range accounts {
			if a.Off != nil {
				t.Errorf("%+v", a)
			}
		}
	})
}

// buryBatches departs one job of every bucket and has it dead.
func buryBatches(t fataler, c *queue.Client) {
	t.Helper()
	ctx := context.Background()
	for shard := range c.Shards() {
		outlet := c.Outlet(fmt.Sprint("worker ", workers.Add(1)), shard)
		for {
			d, err := outlet.Depart(ctx, queue.Ask{Want: queue.SettleMost})
			must(t, err)
			if len(d.Jobs) == 0 {
				break
			}
			verdicts := make([]queue.Verdict, len(d.Jobs))
			for i, j := range d.Jobs {
				verdicts[i] = queue.Verdict{Ref: j.Ref, Stamp: j.Stamp, Class: j.Class, Outcome: queue.Dead, Error: "no"}
			}
			taken, err := outlet.Settle(ctx, verdicts)
			if err != nil || slices.Contains(taken, false) {
				t.Fatalf("settle: %v, %v", taken, err)
			}
		}
	}
}

// TestDeadPages: newest first, page after page, of a class or of one bucket of it.
func TestDeadPages(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 100, "1/1s")
		for i := range 7 {
			admit(t, s.c, newJob("c", fmt.Sprint("k", i%2), fmt.Sprint(i)))
			s.bury()
		}
		var all []string
		q := queue.DeadQuery{Limit: 3}
		for range 4 {
			ids, jobs := deadIDs(t, s.c, q)
			all = append(all, ids...)
			if len(jobs) > 0 {
				q.Before = jobs[len(jobs)-1].EndedAt
			}
		}
		if strings.Join(all, "") != "6543210" {
			t.Errorf("pages: %v", all)
		}
		ids, jobs := deadIDs(t, s.c, queue.DeadQuery{Key: "k1", Limit: 2})
		if !slices.Equal(ids, []string{"5", "3"}) {
			t.Errorf("of k1: %v", ids)
		}
		if ids, _ := deadIDs(t, s.c, queue.DeadQuery{Key: "k1", Limit: 2, Before: jobs[1].EndedAt}); !slices.Equal(ids, []string{"1"}) {
			t.Errorf("of k1, next page: %v", ids)
		}
		if n, err := s.c.Dead().Purge(t.Context(), "c", "k1"); n != 3 || err != nil {
			t.Errorf("purge of k1: %d, %v; want 3", n, err)
		}
		if ids, _ := deadIDs(t, s.c, queue.DeadQuery{Limit: 10}); strings.Join(ids, "") != "6420" {
			t.Errorf("left after a purge of k1: %v", ids)
		}
		if n, err := s.c.Dead().Purge(t.Context(), "c", ""); n != 4 || err != nil {
			t.Errorf("purge: %d, %v; want 4", n, err)
		}
		if b := s.audited(); b.DeadPurged != 7 || b.DeadKept() != 0 {
			t.Errorf("%+v; want all purged", b)
		}
		for what, err := range map[string]error{
			"list":      second(s.c.Dead().List(t.Context(), queue.DeadQuery{Class: "none", Limit: 1})),
			"purge":     second(s.c.Dead().Purge(t.Context(), "none", "")),
			"retry all": second(s.c.Dead().RetryAll(t.Context(), "none", "", time.Time{}, nil)),
		} {
			if !errors.Is(err, queue.ErrUnknownClass) {
				t.Errorf("%s of an unknown class: %v", what, err)
			}
		}
	})
}

// TestRetryAll: as many as there is room for, the oldest first, and when to come back for the others.
func TestRetryAll(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s, ctx := newShop(t, rdb), t.Context()
		class := put(t, s.c, "c", 100, "1/1s", func(c *queue.Class) { c.CatchUp = 0 })
		for i := range 5 {
			admit(t, s.c, newJob("c", "small", fmt.Sprint(i)), newJob("c", "other", fmt.Sprint(i)))
			s.bury()
		}
		class.Capacity = 2
		_, err := s.c.Classes().Put(ctx, class)
		must(t, err)
		steps := 0
		sum, err := s.c.Dead().RetryAll(ctx, "c", "small", time.Time{}, func(queue.Revival) { steps++ })
		if err != nil || sum.Retried != 2 || sum.Left != 3 || sum.RetryAfter != time.Second || steps == 0 {
			t.Errorf("of small: %+v, %v, %d steps; want 2 of 5 retried, the next in a second", sum, err, steps)
		}
		if sum, err := s.c.Dead().RetryAll(ctx, "c", "other", at(500_000), nil); err != nil || sum != (queue.Revival{}) {
			t.Errorf("of other, those that died before any: %+v, %v", sum, err)
		}
		sum, err = s.c.Dead().RetryAll(ctx, "c", "", time.Time{}, nil)
		if err != nil || sum.Retried != 2 || sum.Left != 6 || sum.RetryAfter != time.Second {
			t.Errorf("of all: %+v, %v; want 2 of 8 retried", sum, err)
		}
		if b := s.audited(); b.Revived != 4 || b.DeadKept() != 6 {
			t.Errorf("%+v; want four revived", b)
		}
		must(t, s.c.Buckets().Pause(ctx, "c", "small"))
		if sum, err := s.c.Dead().RetryAll(ctx, "c", "small", time.Time{}, nil); err != nil || sum.Retried != 0 || sum.Left != 3 {
			t.Errorf("of small, paused: %+v, %v", sum, err)
		}
		must(t, s.c.Buckets().Resume(ctx, "c", "small"))
		var left []string
		for range 12 {
			s.advance(time.Second)
			for _, d := range s.depart(10) {
				if left = append(left, d.Key+d.ID); d.Attempt != 2 {
					t.Errorf("%s is at attempt %d", d.ID, d.Attempt)
				}
				s.settle(d, queue.Done)
			}
			_, err := s.c.Dead().RetryAll(ctx, "c", "", time.Time{}, nil)
			must(t, err)
		}
		slices.SortStableFunc(left, func(a, b string) int { return strings.Compare(a[:2], b[:2]) })
		if got := strings.Join(left, " "); got != "other0 other1 other2 other3 other4 small0 small1 small2 small3 small4" {
			t.Errorf("left: %s; want the oldest first", got)
		}
		if b := s.audited(); b.Done != 10 || b.DeadKept() != 0 {
			t.Errorf("%+v; want all done", b)
		}
	})
}

// TestRetryOfOne: what cannot be sent round again is told apart.
func TestRetryOfOne(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s, ctx := newShop(t, rdb), t.Context()
		put(t, s.c, "c", 1, "1/1s", func(c *queue.Class) { c.MaxWait, c.CatchUp = time.Minute, 0 })
		ref := admit(t, s.c, newJob("c", "k", "1"))[0].Ref
		if _, err := s.c.Dead().Retry(ctx, ref); !errors.Is(err, queue.ErrNotFound) {
			t.Errorf("it waits: %v", err)
		}
		s.bury()
		must(t, s.c.Buckets().Drain(ctx, "c", "k"))
		if _, err := s.c.Dead().Retry(ctx, ref); !errors.Is(err, queue.ErrDraining) {
			t.Errorf("its bucket drains: %v", err)
		}
		must(t, s.c.Buckets().Resume(ctx, "c", "k"))
		admit(t, s.c, newJob("c", "k", "2"))
		_, err := s.c.Dead().Retry(ctx, ref)
		full, ok := errors.AsType[*queue.FullError](err)
		if !ok || full.RetryAfter != time.Second || full.Level != 1 || full.Class != "c" || full.Key != "k" {
			t.Errorf("its bucket is full: %v", err)
		}
		s.advance(time.Second)
		s.settle(s.one(), queue.Done)
		s.advance(time.Hour)
		r, err := s.c.Dead().Retry(ctx, ref)
		if err != nil || r.Ref != ref || r.Position != 1 || r.Wait != 0 || r.EstimatedStart.UnixMicro() != s.now {
			t.Errorf("%+v, %v", r, err)
		}
		if j := s.state(ref); j.State != queue.Line || j.Error != "" || j.ExpiresAt.UnixMicro() != s.now+60_000_000 {
			t.Errorf("%+v; want it in line, for a minute from now", j)
		}
		if again, err := s.c.Submit(ctx, newJob("c", "k", "1")); err != nil || again.Status != queue.Duplicate {
			t.Errorf("submitted again: %+v, %v", again, err)
		}
		s.advance(time.Minute + 6*time.Millisecond)
		s.none()
		if b := s.audited(); b.Expired != 1 || b.Revived != 1 || b.DeadKept() != 0 {
			t.Errorf("%+v; want it expired", b)
		}
	})
}
