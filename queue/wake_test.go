package queue_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// TestWakes: what becomes the earliest due of its shard is told, and nothing else.
func TestWakes(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c := openAt(t, rdb, 1)
		put(t, c, "c", 10, "1/10s")
		ctx, cancel := context.WithCancel(t.Context())
		wakes, ended := make(chan queue.Wake, 10), make(chan error)
		go func() { ended <- c.Wakes(ctx, func(w queue.Wake) { wakes <- w }, nil) }()
		for subscribed := false; !subscribed; {
			n, err := rdb.PubSubNumSub(t.Context(), "{spout:0}:wake").Result()
			must(t, err)
			subscribed = n["{spout:0}:wake"] == 1
		}
		later := newJob("c", "a", "later")
		later.NotBefore = at(5_000_000)
		admit(t, c, later)
		admit(t, c, newJob("c", "b", "now"))
		admit(t, c, newJob("c", "b", "second"), newJob("c", "c", "as early"))
		must(t, c.Classes().Pause(t.Context(), "c"))
		must(t, c.Classes().Resume(t.Context(), "c"))
		for i, want := range []time.Time{at(5_000_000), at(0), at(0)} {
			select {
			case w := <-wakes:
				if w.Shard != 0 || w.Class != "c" || !w.Due.Equal(want) {
					t.Errorf("wake %d: %+v, want class c at %v", i, w, want)
				}
			case <-time.After(10 * time.Second):
				t.Fatalf("wake %d did not come", i)
			}
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) || len(wakes) != 0 {
			t.Errorf("%v, and %d more wakes", err, len(wakes))
		}
	})
}
