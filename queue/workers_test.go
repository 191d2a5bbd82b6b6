package queue_test

import (
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

func TestWorkers(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c := open(t, rdb, 2)
		put(t, c, "c", 10, "100/1s")
		if list, err := c.Workers(t.Context()); err != nil || len(list) != 0 {
			t.Fatalf("before any worker: %+v, %v", list, err)
		}
		admit(t, c, newJob("c", "a", "1"), newJob("c", "b", "1"), newJob("c", "d", "1"))
		since := time.UnixMicro(start).UTC()
		calls, outlets := int64(0), []*queue.Outlet{c.Outlet("new", 0), c.Outlet("new", 1)}
		for out := 0; out < 3; calls++ { // buckets of one submission begin a little after one another
			for _, o := range outlets {
				d, err := o.Depart(t.Context(), queue.Ask{Want: 10})
				must(t, err)
				out += len(d.Jobs)
			}
		}
		for _, name := range []string{"old", "left"} {
			for shard := range c.Shards() {
				_, err := c.Outlet(name, shard).Depart(t.Context(), queue.Ask{Want: 10})
				must(t, err)
				if name == "left" {
					_, err := c.Outlet(name, shard).Leave(t.Context())
					must(t, err)
				}
			}
		}
		next, err := c.Report(t.Context(), queue.Report{
			Worker: "new", Host: "box", Process: 7, Version: "v1", Classes: []string{"c", "d"}, Concurrency: 64, Busy: 3, Since: since,
		})
		must(t, err)
		if next <= 0 || next > 5*time.Second {
			t.Errorf("the next report in %v", next)
		}
		list, err := c.Workers(t.Context())
		must(t, err)
		if len(list) != 2 || list[0].Name != "new" || list[1].Name != "old" {
			t.Fatalf("%+v", list)
		}
		w, old := list[0], list[1]
		if w.Reported.IsZero() || w.Age < 0 || w.Age > time.Minute || w.Host != "box" || w.Process != 7 || w.Version != "v1" ||
			!slices.Equal(w.Classes, []string{"c", "d"}) || w.Concurrency != 64 || w.Busy != 3 || !w.Since.Equal(since) ||
			w.Out != 3 || !slices.Equal(w.Shards, []int{0, 1}) || w.Calls != 2*calls {
			t.Errorf("%+v", w)
		}
		if !old.Reported.IsZero() || old.Host != "" || old.Out != 0 || len(old.Shards) != 2 {
			t.Errorf("one that does not report: %+v", old)
		}
		must(t, c.Retire(t.Context(), "new"))
		if list, err := c.Workers(t.Context()); err != nil || !list[0].Reported.IsZero() {
			t.Errorf("after it retired: %+v, %v", list, err)
		}
	})
}
