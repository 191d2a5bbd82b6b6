package queue_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// TestLookAtCluster: who looks sees the same on a Redis Cluster.
func TestLookAtCluster(t *testing.T) {
	t.Parallel()
	rdb := redistest.Cluster(t, 3).Client(t)
	c, ctx := open(t, rdb, 4), t.Context()
	class := put(t, c, "c", 10, "1/1h")
	var names []string
	for i := range 30 {
		admit(t, c, newJob("c", fmt.Sprint("k", i), "1"))
		names = append(names, fmt.Sprint("c/k", i))
	}
	some, err := c.Buckets().Some(ctx, names)
	if err != nil || len(some) != 30 {
		t.Errorf("%d buckets, %v", len(some), err)
	}
	if found := walked(t, c, 8, "c"); len(found) != 30 {
		t.Errorf("%d buckets are walked", len(found))
	}
	if lines, err := c.Buckets().Lines(ctx, names); err != nil || slices.ContainsFunc(lines, func(n int) bool { return n != 1 }) {
		t.Errorf("lines %v, %v", lines, err)
	}
	once(t, "buckets", bucketPages(t, c, queue.BucketQuery{Limit: 8}), names)
	if got := jobPages(t, c, queue.JobQuery{Class: "c", Limit: 8}, nil); len(got) != 30 {
		t.Errorf("jobs: %q", got)
	}
	if list, err := c.Standings(ctx); err != nil || len(list) != 1 || list[0].Books.Waiting() != 30 || list[0].Oldest <= 0 {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := c.Classes().PutIf(ctx, class, class.Version); err != nil {
		t.Error(err)
	}
	if _, err := c.Dead().Groups(ctx, "c", 5); err != nil {
		t.Error(err)
	}
	if _, err := c.RecordPoint(ctx); err != nil {
		t.Error(err)
	}
	points := history(t, c, queue.Recent)
	if p := points[len(points)-1]; !p.Recorded || p.Waiting != 30 {
		t.Errorf("%+v", p)
	}
	for shard := range c.Shards() {
		_, err := c.Outlet("w", shard).Depart(ctx, queue.Ask{})
		must(t, err)
	}
	_, err = c.Report(ctx, queue.Report{Worker: "w", Host: "box"})
	must(t, err)
	if list, err := c.Workers(ctx); err != nil || len(list) != 1 || list[0].Host != "box" || len(list[0].Shards) != 4 {
		t.Errorf("%+v, %v", list, err)
	}
	testAnswers(t, c)
	must(t, c.Retire(ctx, "w"))
}

// Answers reach those who asked: the questions of both kinds go out, and nothing is asked again at once.
func TestAnswers(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c := open(t, rdb, 2)
		put(t, c, "c", 10, "1/1h")
		_, err := c.Outlet("w", 0).Depart(t.Context(), queue.Ask{})
		must(t, err)
		testAnswers(t, c)
	})
}

// testAnswers asks, and answers as a worker named w.
func testAnswers(t *testing.T, c *queue.Client) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	asked, ended := make(chan string, 100), make(chan error)
	go func() { ended <- c.Wakes(ctx, func(queue.Wake) {}, func(bucket string) { asked <- bucket }) }()
	defer func() {
		cancel()
		if err := <-ended; err == nil {
			t.Error("it ended without a word of why")
		}
	}()
	hear := func(want string, ask func()) {
		t.Helper()
		for limit := time.After(time.Minute); ; {
			ask() // again and again: who listens may not do so yet, and a client does not ask twice in 2 s
			select {
			case got := <-asked:
				if got != want {
					t.Errorf("asked for %q, want %q", got, want)
				}
				return
			case <-time.After(100 * time.Millisecond):
			case <-limit:
				t.Fatalf("%q was not asked for", want)
			}
		}
	}
	hear("", func() {
		if flow, err := c.Flow(ctx); err != nil || len(flow) != 0 {
			t.Errorf("before any answer: %v, %v", flow, err)
		}
	})
	hear("c/k y", func() {
		if starts, err := c.Starts(ctx, "c", "k y"); err != nil || len(starts) != 0 {
			t.Errorf("before any answer: %v, %v", starts, err)
		}
	})
	for again := true; again; {
		again = !answered(t, c)
	}
}

// answered answers and looks whether that is seen; false when it took so long that the answer may have expired.
func answered(t *testing.T, c *queue.Client) bool {
	t.Helper()
	ctx, began := t.Context(), time.Now()
	now, err := c.Now(ctx)
	must(t, err)
	now = now.UTC()
	start := func(ago time.Duration) queue.Start {
		return queue.Start{Due: now.Add(-ago - time.Millisecond), Started: now.Add(-ago), Lateness: time.Millisecond, Worker: "w"}
	}
	back := start(time.Second)
	back.Back = true
	must(t, c.Answer(ctx, "w", queue.Answers{
		Flow:   map[string]float64{"c/k y": 2.5, "c/z": 0.2},
		Starts: map[string][]queue.Start{"c/k y": {start(2 * time.Minute), back, start(2 * time.Second)}},
	}))
	flow, err := c.Flow(ctx)
	must(t, err)
	starts, err := c.Starts(ctx, "c", "k y")
	must(t, err)
	if time.Since(began) > 2*time.Second {
		return false
	}
	if len(flow) != 2 || flow["c/k y"] != 2.5 {
		t.Errorf("%v", flow)
	}
	if len(starts) != 2 || starts[0] != start(2*time.Second) || starts[1] != back {
		t.Errorf("%+v", starts)
	}
	return true
}
