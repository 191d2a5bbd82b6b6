package queue_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

// Whoever reclaims a worker is told what became of each job that it had.
func TestCrashed(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 10, "1000/1s", func(c *queue.Class) { c.MaxCrashes, c.Retention = 2, time.Hour })
		refs := []string{admit(t, s.c, newJob("c", "a/b", "crashes"))[0].Ref, admit(t, s.c, newJob("c", "k", "is cancelled"))[0].Ref}
		crash := func(name string, want int, fates ...string) []queue.Crash {
			t.Helper()
			s.advance(time.Second)
			d, err := s.c.Outlet(name, 0).Depart(t.Context(), queue.Ask{Want: 10, Suspect: true})
			must(t, err)
			if len(d.Jobs) != want {
				t.Fatalf("%d jobs departed, want %d", len(d.Jobs), want)
			}
			if name == "first" {
				_, err := s.c.Cancel(t.Context(), refs[1])
				must(t, err)
			}
			r, err := s.c.Reclaim(t.Context(), 0, name, "1")
			must(t, err)
			var got []string
			for _, c := range r.Crashed {
				got = append(got, fmt.Sprintf("%s/%s %s %d %s", c.Class, c.Key, c.ID, c.Attempt, c.State))
			}
			slices.Sort(got)
			if diff := cmp.Diff(fates, got); diff != "" {
				t.Error(diff)
			}
			return r.Crashed
		}
		crash("first", 2, "c/a/b crashes 1 line", "c/k is cancelled 1 cancelled")
		last := crash("second", 1, "c/a/b crashes 2 dead")
		if j := s.state(refs[0]); j.State != queue.Kept || j.Error != last[0].Error || last[0].Ref != j.Ref || j.Error == "" {
			t.Errorf("told %+v of %+v", last, j)
		}
		s.audited()
	})
}
