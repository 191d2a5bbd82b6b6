package live_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/admin/internal/changes"
	"github.com/spout-queue/spout/cmd/admin/internal/live"
	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// crowd submits a job to each of 10,000 buckets of a class, and tells their names.
func crowd(t *testing.T, c *queue.Client) []string {
	t.Helper()
	put(t, c, "a", queue.Rate{Limit: 1, Period: time.Hour})
	jobs, names := make([]queue.Job, 10_000), make([]string, 10_000)
	for i := range jobs {
		jobs[i] = queue.Job{Class: "a", Key: fmt.Sprint("key-", i), Payload: json.RawMessage(`{}`)}
		names[i] = "a/" + jobs[i].Key
	}
	for part := range slices.Chunk(jobs, 1000) {
		for _, r := range c.SubmitMany(t.Context(), part) {
			must(t, r.Err)
		}
	}
	return names
}

// knowing is who looks at a crowd and knows them all.
func knowing(t *testing.T) (*queue.Client, *live.Live) {
	t.Helper()
	c, looks, _ := open(t, redistest.Start(t).Addr)
	names := crowd(t, c)
	l := run(t, looks)
	eventually(t, "all are known", func() bool { l.Now(t.Context()); return l.Grid(live.Query{}).Used == len(names) })
	return c, l
}

// soon is how long it may take until what happened is shown: some 2 s, and the rest for a machine with other things to do.
const soon = 8 * time.Second

// shown fails unless a bucket comes first soon.
func shown(t *testing.T, l *live.Live, name string) {
	t.Helper()
	begun := time.Now()
	eventually(t, name+" comes first", func() bool {
		l.Now(t.Context())
		first := l.Choose(live.Query{Limit: 1}).Names
		return len(first) == 1 && first[0] == name
	})
	took := time.Since(begun)
	if t.Logf("%s is shown after %.1f s", name, took.Seconds()); took > soon {
		t.Errorf("that %s is full was shown after %v", name, took)
	}
}

// A bucket that fills among 10,000 is shown soon, wherever it is, also one that was never seen; and so is one that an operator closes.
func TestFull(t *testing.T) {
	t.Parallel()
	c, l := knowing(t)
	defer l.Look()()
	submit(t, c, "a", "key-4321", 9)
	shown(t, l, "a/key-4321")
	_, err := c.Buckets().Purge(t.Context(), "a", "key-4321")
	must(t, err)
	submit(t, c, "a", "new", 10)
	shown(t, l, "a/new")
}

// Also while jobs come and go everywhere.
func TestFullAmongMoving(t *testing.T) {
	t.Parallel()
	c, l := knowing(t)
	defer l.Look()()
	ctx, cancel := context.WithCancel(t.Context())
	var moving sync.WaitGroup
	moving.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for i := 0; ctx.Err() == nil; i++ {
			key := fmt.Sprint("key-", i*37%4000) // each fifty seconds and more apart
			_, _ = c.Submit(ctx, queue.Job{Class: "a", Key: key, Payload: json.RawMessage(`1`)})
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
	})
	defer moving.Wait()
	defer cancel()
	for _, key := range []string{"key-9001", "key-9002", "key-9003"} {
		submit(t, c, "a", key, 9)
		shown(t, l, "a/"+key)
		_, err := c.Buckets().Purge(t.Context(), "a", key)
		must(t, err)
	}
}

// What an operator does to a bucket of a class where nothing else moves is shown soon: the log of changes tells.
func TestHands(t *testing.T) {
	t.Parallel()
	c, l := knowing(t)
	defer l.Look()()
	log := changes.Open(c.Redis(), c.Prefix())
	for key, do := range map[string]func(ctx context.Context, class, key string) error{"key-17": c.Buckets().Pause, "key-18": c.Buckets().Drain} {
		must(t, do(t.Context(), "a", key))
		must(t, log.Add(t.Context(), changes.Change{Action: "closes", Class: "a", Target: "a/" + key}))
		begun := time.Now()
		eventually(t, key+" is closed", func() bool {
			l.Now(t.Context())
			return slices.ContainsFunc(l.Grid(live.Query{}).Cells, func(c live.Cell) bool {
				return c.Shape == map[string]live.Shape{"key-17": live.Paused, "key-18": live.Draining}[key]
			})
		})
		if took := time.Since(begun); took > soon {
			t.Errorf("that %s is closed was shown after %v", key, took)
		}
	}
}
