package queue_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

// pages reads all pages of a list and what they hold, by name; none may be longer than most.
func pages[T any](t *testing.T, most int, name func(T) string, page func(after string) ([]T, string, error)) []string {
	t.Helper()
	var names []string
	for after, n := "", 0; ; n++ {
		list, next, err := page(after)
		must(t, err)
		if len(list) > most {
			t.Fatalf("a page has %d, want at most %d", len(list), most)
		}
		for _, v := range list {
			names = append(names, name(v))
		}
		if next == "" {
			return names
		}
		if after = next; n > 10_000 {
			t.Fatal("the list does not end")
		}
	}
}

func bucketPages(t *testing.T, c *queue.Client, q queue.BucketQuery) []string {
	t.Helper()
	return pages(t, 3*q.Limit, queue.Bucket.Name, func(after string) ([]queue.Bucket, string, error) {
		q.After = after
		return c.Buckets().Page(t.Context(), q)
	})
}

// once fails unless got has each of want, and nothing twice.
func once(t *testing.T, what string, got, want []string) {
	t.Helper()
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%s: %d names, want %d: %.300q", what, len(got), len(want), got)
	}
}

func TestBucketPages(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c := open(t, rdb, 3)
		put(t, c, "large", 10, "1/1h")
		put(t, c, "small", 10, "1/1h")
		put(t, c, "without", 10, "1/1h")
		var all, large, prefixed []string
		var jobs []queue.Job
		add := func(class, key string) {
			jobs = append(jobs, newJob(class, key, "1"))
			all = append(all, class+"/"+key)
		}
		for i := range 1200 {
			key := fmt.Sprintf("tenant-%d", i)
			if i%100 == 7 {
				key = fmt.Sprintf("a[*]?\\-%d", i)
				prefixed = append(prefixed, "large/"+key)
			}
			add("large", key)
		}
		large = slices.Clone(all)
		for i := range 30 {
			add("small", fmt.Sprint("k", i))
		}
		admit(t, c, jobs...)
		must(t, c.Buckets().Pause(t.Context(), "small", "never used"))
		all = append(all, "small/never used")
		must(t, rdb.Set(t.Context(), "{spout:1}:line:small/broken", "no set", 0).Err())
		must(t, rdb.HSet(t.Context(), "{spout:1}:sick", "small/broken", "WRONGTYPE").Err())
		all = append(all, "small/broken")

		for _, most := range []int{7, 100, 1000} {
			once(t, fmt.Sprint("all, ", most), bucketPages(t, c, queue.BucketQuery{Limit: most}), slices.Clone(all))
		}
		once(t, "a class", bucketPages(t, c, queue.BucketQuery{Class: "large", Limit: 100}), large)
		once(t, "a prefix", bucketPages(t, c, queue.BucketQuery{Class: "large", Prefix: "a[*]?\\", Limit: 5}), prefixed)
		once(t, "no bucket", bucketPages(t, c, queue.BucketQuery{Class: "without", Limit: 5}), nil)
	})
}

// Buckets that stay are found however many others come and go between two pages.
func TestBucketPagesWhileBucketsChange(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c := open(t, rdb, 2)
		put(t, c, "c", 10, "1/1h")
		var stay []string
		var jobs []queue.Job
		for i := range 400 {
			stay = append(stay, fmt.Sprint("c/stays ", i))
			jobs = append(jobs, newJob("c", fmt.Sprint("stays ", i), "1"))
		}
		admit(t, c, jobs...)
		round := 0
		found := pages(t, 60, queue.Bucket.Name, func(after string) ([]queue.Bucket, string, error) {
			for i := range 40 {
				key := fmt.Sprint("comes ", i)
				if round%2 == 0 {
					admit(t, c, newJob("c", key, fmt.Sprint(round)))
				} else if _, err := c.Buckets().Purge(t.Context(), "c", key); err != nil {
					t.Fatal(err)
				}
			}
			round++
			return c.Buckets().Page(t.Context(), queue.BucketQuery{Class: "c", Limit: 20, After: after})
		})
		for _, name := range stay {
			if !slices.Contains(found, name) {
				t.Errorf("bucket %s was left out", name)
			}
		}
	})
}

func TestBadPages(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c := open(t, rdb, 1)
		put(t, c, "c", 10, "1/1h")
		for _, q := range []queue.BucketQuery{{Limit: -1}, {Limit: 1001}, {After: "?"}, {After: "bm8"}, {After: "eyJzIjo5fQ"}} {
			if _, _, err := c.Buckets().Page(t.Context(), q); !errors.Is(err, queue.ErrInvalid) {
				t.Errorf("buckets %+v: %v, want it invalid", q, err)
			}
		}
		for _, q := range []queue.JobQuery{
			{Limit: -1},
			{Limit: 1001},
			{After: "?"},
			{State: "odd"},
			{State: queue.Out, After: "eyJzIjo5fQ"},
			{Key: "a\n"},
			{State: queue.Kept, After: "bm8"},
			{Key: "k", After: "eyJ3Ijp7ImMiOiJjIn19"},
		} {
			q.Class = "c"
			if _, _, err := c.JobPage(t.Context(), q); !errors.Is(err, queue.ErrInvalid) {
				t.Errorf("jobs %+v: %v, want it invalid", q, err)
			}
		}
		if _, _, err := c.Buckets().Page(t.Context(), queue.BucketQuery{Class: "none"}); !errors.Is(err, queue.ErrUnknownClass) {
			t.Errorf("no class: %v", err)
		}
		if _, _, err := c.JobPage(t.Context(), queue.JobQuery{Class: "none"}); !errors.Is(err, queue.ErrUnknownClass) {
			t.Errorf("no class: %v", err)
		}
		for _, names := range [][]string{{"c"}, {"c/"}, {"C/k"}, make([]string, 101)} {
			if _, err := c.Buckets().Some(t.Context(), names); !errors.Is(err, queue.ErrInvalid) {
				t.Errorf("%.50q: %v, want it invalid", names, err)
			}
		}
	})
}

// Some is a command per shard, and tells what Get tells.
func TestSome(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c := openAt(t, rdb, 2)
		put(t, c, "a", 2, "1/10s", func(c *queue.Class) { c.MaxInFlight = 5 })
		put(t, c, "b", 5, "2/1s")
		admit(t, c, newJobs("a", "full", 2)...)
		later := newJob("b", "k", "later")
		later.NotBefore = time.UnixMicro(start).Add(time.Hour)
		admit(t, c, append(newJobs("b", "k", 3), later)...)
		must(t, c.Buckets().Hold(t.Context(), "b", "k", time.UnixMicro(start).Add(20*time.Second)))
		must(t, c.Buckets().Pause(t.Context(), "a", "closed"))
		for range 3 {
			_ = refused(t, c, newJob("a", "full", "more"))
		}
		names := []string{"b/k", "none/k", "a/full", "a/closed", "a/empty"}
		some, err := c.Buckets().Some(t.Context(), names)
		must(t, err)
		if len(some) != 4 {
			t.Fatalf("%d buckets, want 4", len(some))
		}
		for i, name := range []string{"b/k", "a/full", "a/closed", "a/empty"} {
			class, key, _ := strings.Cut(name, "/")
			if b, err := c.Buckets().Get(t.Context(), class, key); err != nil || b != some[i] || b.Name() != name {
				t.Errorf("%s: %+v, %v\nwant %+v", name, some[i], err, b)
			}
		}
		at := func(s int) time.Time { return time.UnixMicro(start).Add(time.Duration(s) * time.Second).UTC() }
		held, full, closed := some[0], some[1], some[2]
		if held.Line != 3 || held.Later != 1 || held.Level != 4 || held.Interval != time.Second/2 || !held.Hold.Equal(at(20)) ||
			held.Out != -1 || !held.StartOf(1).Equal(at(20)) || !held.StartOf(3).Equal(at(21)) {
			t.Errorf("held: %+v, starts %v, %v", held, held.StartOf(1), held.StartOf(3))
		}
		if full.Overflowed != 3 || full.Out != 0 || !full.At.Equal(at(0)) || !full.StartOf(2).Equal(at(10)) || !full.StartOf(0).IsZero() {
			t.Errorf("full: %+v, second start %v", full, full.StartOf(2))
		}
		if !closed.Paused || !closed.StartOf(1).IsZero() {
			t.Errorf("closed: %+v", closed)
		}
		must(t, c.SetClock(t.Context(), start+micros(time.Minute)))
		departAll(t, c)
		must(t, c.SetClock(t.Context(), start+micros(2*time.Minute)))
		departAll(t, c)
		must(t, c.SetClock(t.Context(), start+micros(3*time.Minute)))
		departAll(t, c)
		if b, err := c.Buckets().Get(t.Context(), "a", "full"); err != nil || b.Overflowed != 0 || b.Level != 0 {
			t.Errorf("emptied and forgotten: %+v, %v", b, err)
		}
	})
}
