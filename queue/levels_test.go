package queue_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

// walked is all that a walk through classes finds in all shards, by name; every step takes about limit.
func walked(t *testing.T, c *queue.Client, limit int, classes ...string) map[string]queue.Level {
	t.Helper()
	found := map[string]queue.Level{}
	for shard := range c.Shards() {
		steps := 0
		for w := (queue.Walk{Shard: shard, Classes: classes}); len(w.Classes) > 0; steps++ {
			list, err := c.Buckets().Levels(t.Context(), &w, limit)
			must(t, err)
			for _, l := range list {
				found[l.Name] = l
			}
			if steps > 1000 {
				t.Fatal("the walk does not end")
			}
		}
	}
	return found
}

// A walk finds every bucket, with what waits in it and when it opens, and sick ones.
func TestLevels(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c := openAt(t, rdb, 3)
		for _, class := range []string{"large", "small", "without"} {
			put(t, c, class, 10, "1/1h")
		}
		var jobs []queue.Job
		want := map[string]queue.Level{}
		for i := range 1200 {
			key := fmt.Sprint("tenant ", i)
			jobs = append(jobs, newJob("large", key, "1"))
			want["large/"+key] = queue.Level{Name: "large/" + key, Line: 1, Later: -1}
		}
		admit(t, c, jobs...)
		admit(t, c, newJobs("small", "three", 3)...)
		later := newJob("small", "later", "1")
		later.NotBefore = time.UnixMicro(start).Add(time.Hour)
		admit(t, c, later)
		must(t, c.Buckets().Pause(t.Context(), "small", "closed"))
		admit(t, c, newJob("small", "held", "1"))
		must(t, c.Buckets().Hold(t.Context(), "small", "held", time.UnixMicro(start).Add(time.Minute)))
		must(t, rdb.HSet(t.Context(), "{spout:1}:sick", "small/broken", "WRONGTYPE").Err())
		for _, l := range []queue.Level{
			{"small/three", 3, -1, 0},
			{"small/later", 0, 1, time.Hour},
			{"small/closed", 0, 0, queue.Never},
			{"small/held", 1, -1, time.Minute},
			{"small/broken", 0, -1, queue.Never},
		} {
			want[l.Name] = l
		}
		for _, limit := range []int{1, 100, 1000} {
			found := walked(t, c, limit, "large", "small", "without", "unknown")
			for name, l := range want {
				got := found[name]
				if got.Opens != queue.Never {
					got.Opens = got.Opens.Truncate(time.Second) // those that joined at once are spread
				}
				if got != l {
					t.Errorf("in steps of %d: %+v, want %+v", limit, found[name], l)
				}
			}
			if len(found) != len(want) {
				t.Errorf("in steps of %d there are %d buckets instead of %d", limit, len(found), len(want))
			}
		}
		if found := walked(t, c, 10, "small"); len(found) != 5 {
			t.Errorf("of one class: %v", found)
		}
		lines, err := c.Buckets().Lines(t.Context(), []string{"small/three", "large/tenant 7", "small/later", "none/k", "small/broken", "small/held"})
		if err != nil || !slices.Equal(lines, []int{3, 1, 0, 0, 0, 1}) {
			t.Errorf("lines %v, %v", lines, err)
		}
	})
}

func TestBadLevels(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c := open(t, rdb, 2)
		for _, w := range []queue.Walk{{Shard: -1}, {Shard: 2}} {
			if _, err := c.Buckets().Levels(t.Context(), &w, 10); !errors.Is(err, queue.ErrInvalid) {
				t.Errorf("%+v: %v", w, err)
			}
		}
		for _, limit := range []int{0, 1001} {
			if _, err := c.Buckets().Levels(t.Context(), &queue.Walk{Classes: []string{"c"}}, limit); !errors.Is(err, queue.ErrInvalid) {
				t.Errorf("limit %d: %v", limit, err)
			}
		}
		for _, names := range [][]string{{"c"}, make([]string, 101)} {
			if _, err := c.Buckets().Lines(t.Context(), names); !errors.Is(err, queue.ErrInvalid) {
				t.Errorf("%.50q: %v", names, err)
			}
		}
	})
}

// A shallow look tells of movement, and of the class itself.
func TestStandingsTo(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c := openAt(t, rdb, 2)
		put(t, c, "a", 2, "1/1m")
		put(t, c, "b", 2, "1/1m")
		look := func(depth queue.Depth) queue.Standing {
			t.Helper()
			all, err := c.StandingsTo(t.Context(), func(class string) queue.Depth {
				if class == "a" {
					return depth
				}
				return queue.ToHeads
			})
			if err != nil || len(all) != 2 || len(all[0].Moves) != c.Shards() {
				t.Fatalf("%+v, %v", all, err)
			}
			return all[0]
		}
		before := look(queue.ToBooks)
		admit(t, c, newJobs("a", "k", 2)...)
		after := look(queue.ToBooks)
		if moved := changes(before.Moves, after.Moves); moved != 1 {
			t.Errorf("one bucket moved, and %d shards are told: %v, then %v", moved, before.Moves, after.Moves)
		}
		_ = refused(t, c, newJob("a", "k", "more"))
		if changes(after.Moves, look(queue.ToBooks).Moves) != 1 {
			t.Error("a refusal is no movement")
		}
		must(t, c.SetClock(t.Context(), start+micros(10*time.Second)))
		for depth, want := range []struct {
			buckets, fullest int64
			oldest           time.Duration
		}{{}, {1, 2, 0}, {1, 2, 10 * time.Second}} {
			if s := look(queue.Depth(depth)); s.Books.Waiting() != 2 || s.Capacity != 2 || s.Buckets != want.buckets || s.Fullest != want.fullest || s.Oldest != want.oldest {
				t.Errorf("depth %d: %+v", depth, s)
			}
		}
		must(t, c.Classes().Hold(t.Context(), "a", time.UnixMicro(start).Add(time.Hour), "why"))
		must(t, c.Classes().Drain(t.Context(), "a"))
		if s := look(queue.ToBooks); !s.Held || !s.Draining || s.Hold == 0 {
			t.Errorf("%+v", s)
		}
	})
}

func changes(a, b []int64) (n int) {
	for i := range a {
		if a[i] != b[i] {
			n++
		}
	}
	return n
}
