package queue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

// TestOverhear: what is told, and what ends in line, is heard by all who listen, and so is that a connection was lost.
func TestOverhear(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		s := newShop(t, rdb)
		put(t, s.c, "c", 5, "1/1s")
		type gap struct {
			class string
			n     int
		}
		heard, missed, listening := make(chan queue.Event, 10), make(chan gap, 10), make(chan struct{}, 10)
		ctx, stop := context.WithCancel(t.Context())
		var listeners sync.WaitGroup
		listeners.Go(func() {
			_ = s.c.Overhear(ctx, queue.Ear{
				Heard:     func(e queue.Event) { heard <- e },
				Missed:    func(class string, n int) { missed <- gap{class, n} },
				Listening: func() { listening <- struct{}{} },
			})
		})
		defer listeners.Wait()
		defer stop()
		within(t, "listening", listening)
		receipt := admit(t, s.c, newJob("c", "a key", "an id"))[0]
		_, err := s.c.Cancel(t.Context(), receipt.Ref)
		must(t, err)
		if e := within(t, "the end in line", heard); e.What != "cancelled" || e.Class != "c" || e.Key != "a key" || e.ID != "an id" || e.Ref != receipt.Ref {
			t.Errorf("heard %+v", e)
		}
		told := queue.Event{What: "failed", At: time.Unix(1, 0).UTC(), Class: "c", Key: "k", ID: "i", Ref: "0-x", Attempt: 2, Error: "why", Until: time.Unix(2, 0).UTC()}
		must(t, s.c.Tell(t.Context(), []queue.Event{told}, map[string]int{"c": 3}))
		if e := within(t, "what a worker tells", heard); e != told {
			t.Errorf("heard %+v, want %+v", e, told)
		}
		if g := within(t, "what a worker cannot tell", missed); g != (gap{"c", 3}) {
			t.Errorf("missed %+v", g)
		}
		if rdb.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err() != nil {
			return // miniredis does not know that
		}
		if g := within(t, "that the connection was lost", missed); g != (gap{}) {
			t.Errorf("missed %+v", g)
		}
		within(t, "listening again", listening)
	})
}

func within[E any](t *testing.T, what string, c <-chan E) E {
	t.Helper()
	select {
	case e := <-c:
		return e
	case <-time.After(time.Minute):
		t.Fatalf("never: %s", what)
		panic("not reached")
	}
}
