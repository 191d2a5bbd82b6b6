package queue_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

// TestClosed: what closes a bucket by itself is told apart from what closes its class, and a hold that is over closes nothing.
func TestClosed(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 5, "1/1s")
		ctx, classes, buckets := t.Context(), s.c.Classes(), s.c.Buckets()
		must(t, classes.Pause(ctx, "c"))
		want := func(when string, want queue.Closed) {
			t.Helper()
			if got, err := buckets.Closed(ctx, "c", "k"); got != want || err != nil {
				t.Errorf("%s: %+v, %v; want %+v", when, got, err, want)
			}
		}
		want("its class is paused", queue.Closed{})
		must(t, buckets.Pause(ctx, "c", "k"))
		must(t, buckets.Drain(ctx, "c", "k"))
		now, err := s.c.Now(ctx)
		must(t, err)
		past, until := now.Add(-time.Hour).Truncate(time.Microsecond).UTC(), now.Add(1000*time.Hour).Truncate(time.Microsecond).UTC()
		must(t, buckets.Hold(ctx, "c", "k", until))
		want("by itself, too", queue.Closed{Paused: true, Draining: true, Hold: until, HoldReason: "an operator"})
		must(t, buckets.Hold(ctx, "c", "k", past))
		must(t, buckets.Resume(ctx, "c", "k"))
		want("with a hold that is over", queue.Closed{})
		if _, err := buckets.Closed(ctx, "c", ""); queue.ReasonOf(err) != queue.ReasonInvalid {
			t.Errorf("without a key: %v", err)
		}
	})
}
