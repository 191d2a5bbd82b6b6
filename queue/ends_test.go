package queue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

// TestWaitingEnds: each job that ends while it waits is told to one of those that listen.
func TestWaitingEnds(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 1, "1/1s", func(c *queue.Class) { c.Overflow, c.MaxWait = queue.DropOldest, 10*time.Second })
		ends := make(chan queue.WaitingEnd, 10)
		ctx, stop := context.WithCancel(t.Context())
		var listening sync.WaitGroup
		for range 2 {
			listening.Go(func() { _ = s.c.WaitingEnds(ctx, func(e queue.WaitingEnd) { ends <- e }) })
		}
		eventually(t, "two listen", func() bool {
			return rdb.PubSubNumSub(t.Context(), "{spout:0}:ends").Val()["{spout:0}:ends"] == 2
		})
		first := admit(t, s.c, newJob("c", "a key", "an id"))[0]
		second := admit(t, s.c, newJob("c", "a key", "dropper"))[0]
		_, err := s.c.Cancel(t.Context(), second.Ref)
		must(t, err)
		third := admit(t, s.c, newJob("c", "a key", "late"))[0]
		s.advance(20 * time.Second)
		s.none()
		want := []queue.WaitingEnd{
			{Class: "c", Key: "a key", ID: "an id", Ref: first.Ref, State: queue.Dropped},
			{Class: "c", Key: "a key", ID: "dropper", Ref: second.Ref, State: queue.Cancelled},
			{Class: "c", Key: "a key", ID: "late", Ref: third.Ref, State: queue.Expired},
		}
		got := map[queue.WaitingEnd]int{}
		for range want {
			select {
			case e := <-ends:
				got[e]++
			case <-time.After(20 * time.Second):
				t.Fatalf("told %v, want %v", got, want)
			}
		}
		stop()
		listening.Wait()
		for _, e := range want {
			if got[e] != 1 || len(ends) > 0 {
				t.Errorf("%+v was told %d times, of all %v; %d more", e, got[e], got, len(ends))
			}
		}
	})
}
