package queue_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// The job that waits longest is found wherever its bucket stands in the index: due, held or paused.
func TestStandingsOldest(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c := openAt(t, rdb, 2)
		put(t, c, "c", 10, "1/1m")
		put(t, c, "idle", 10, "1/1m")
		oldest := func() time.Duration {
			t.Helper()
			standings, err := c.Standings(t.Context())
			must(t, err)
			if len(standings) != 2 || standings[1].Oldest != 0 {
				t.Fatalf("%+v", standings)
			}
			return standings[0].Oldest
		}
		admit(t, c, newJob("c", "first", "1"))
		must(t, c.SetClock(t.Context(), start+micros(10*time.Second)))
		for i := range 30 {
			admit(t, c, newJob("c", fmt.Sprint("k", i), "1"))
		}
		if got := oldest(); got != 10*time.Second {
			t.Errorf("oldest %v, want 10s", got)
		}
		must(t, c.Buckets().Pause(t.Context(), "c", "first"))
		must(t, c.SetClock(t.Context(), start+micros(20*time.Second)))
		if got := oldest(); got != 20*time.Second {
			t.Errorf("oldest in a paused bucket %v, want 20s", got)
		}
		for i := range 100 { // more than are looked at: those in the middle of the index are not seen
			admit(t, c, newJob("c", fmt.Sprint("m", i), "1"))
		}
		if got := oldest(); got != 20*time.Second {
			t.Errorf("oldest at the end of a long index %v, want 20s", got)
		}
		if _, err := c.Buckets().Purge(t.Context(), "c", "first"); err != nil {
			t.Fatal(err)
		}
		if got := oldest(); got < 10*time.Second-time.Millisecond || got > 10*time.Second {
			t.Errorf("oldest of what is left %v, want 10s", got)
		}
		books, err := c.Books(t.Context(), "c")
		must(t, err)
		if books.Waiting() != 130 {
			t.Errorf("%d wait, want 130", books.Waiting())
		}
	})
}
