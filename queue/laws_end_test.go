package queue_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/spout-queue/spout/queue"
)

// finish ends everything there is and looks at what is left in Redis: the classes and what they count, identities within
// their dedup windows, and what is kept for the retention.
func (w *lawWorld) finish(rt *rapid.T) {
	for _, outlet := range w.outlets {
		_, err := outlet.Leave(w.ctx)
		must(rt, err)
	}
	for name := range w.m.classes {
		must(rt, w.client.Classes().Resume(w.ctx, name))
		for _, key := range []string{"a", "b"} {
			must(rt, w.client.Buckets().Resume(w.ctx, name, key))
			must(rt, w.client.Buckets().Unhold(w.ctx, name, key))
		}
		_, _, err := w.client.Classes().Purge(w.ctx, name)
		must(rt, err)
	}
	w.setClock(rt, max(w.latest, w.m.now)+float64(micros(100*time.Hour)))
	for shard := range w.client.Shards() {
		outlet := w.client.Outlet("the last", shard)
		if d, err := outlet.Depart(w.ctx, queue.Ask{Want: 100, Suspect: true}); err != nil || len(d.Jobs) > 0 || d.Wait >= 0 {
			rt.Fatalf("after the end: %+v, %v", d, err)
		}
		_, err := outlet.Leave(w.ctx)
		must(rt, err)
	}
	w.leftover(rt)
}

// leftover compares the keys that are left with those that may be.
func (w *lawWorld) leftover(rt *rapid.T) {
	keys, err := w.rdb.Keys(w.ctx, "*").Result()
	must(rt, err)
	for _, key := range keys {
		_, kind, _ := strings.Cut(key, "}:")
		kind, _, _ = strings.Cut(kind, ":")
		switch {
		case slices.Contains([]string{"", "classes", "class", "stats", "stamp", "server", "workers", "clock"}, kind):
		case kind == "job" && w.isMark(rt, key):
		case kind == "ended": // it goes by itself
		default:
			rt.Fatalf("%s is left over: %v", key, w.client.Redis().Type(w.ctx, key))
		}
	}
}

// isMark tells whether a job's key is nothing but its identity.
func (w *lawWorld) isMark(rt *rapid.T, key string) bool {
	fields, err := w.rdb.HKeys(w.ctx, key).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		rt.Fatal(err)
	}
	slices.Sort(fields)
	return fmt.Sprint(fields) == "[is meta]"
}
