package queue_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// TestCluster: everything works on a Redis Cluster, where each script touches one slot.
func TestCluster(t *testing.T) {
	t.Parallel()
	rdb := redistest.Cluster(t, 3).Client(t)
	c, ctx := open(t, rdb, 8), t.Context()
	put(t, c, "c", 100, "1000/1s")
	var jobs []queue.Job
	for i := range 400 {
		jobs = append(jobs, newJob("c", fmt.Sprint("k", i%20), fmt.Sprint(i)))
	}
	admit(t, c, jobs...)
	for i := range 20 {
		if _, err := c.Submit(ctx, newJob("c", fmt.Sprint("k", i), "single")); err != nil {
			t.Error(err)
		}
	}
	must(t, c.Classes().Pause(ctx, "c"))
	must(t, c.Classes().Resume(ctx, "c"))
	done := 0
	for shard := range c.Shards() {
		outlet := c.Outlet("w", shard)
		d, err := outlet.Depart(ctx, queue.Ask{Want: 100})
		must(t, err)
		var verdicts []queue.Verdict
		for _, j := range d.Jobs[:min(len(d.Jobs), queue.SettleMost)] {
			verdicts = append(verdicts, queue.Verdict{Ref: j.Ref, Stamp: j.Stamp, Outcome: queue.Done})
		}
		taken, err := outlet.Settle(ctx, verdicts)
		must(t, err)
		done += len(taken)
		_, err = outlet.Leave(ctx)
		must(t, err)
	}
	books, err := c.Books(ctx, "c")
	if err != nil || books.Admitted != 420 || books.Done != int64(done) || done < 20 || books.Out() != 0 {
		t.Errorf("books: %+v, %v; %d done", books, err, done)
	}
	if list, err := c.Buckets().List(ctx, "c", 100); err != nil || len(list) != 20 {
		t.Errorf("%d buckets, %v; want 20", len(list), err)
	}
	if n, err := c.Classes().PurgeWaiting(ctx, "c"); err != nil || n != 420-done {
		t.Errorf("purged %d, %v; want %d", n, err, 420-done)
	}
	if err := c.Classes().Remove(ctx, "c"); err != nil {
		t.Error(err)
	}
	if _, err := c.Submit(ctx, newJob("c", "k", "1")); !errors.Is(err, queue.ErrUnknownClass) {
		t.Errorf("submit after remove: %v", err)
	}
}
