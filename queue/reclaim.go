package queue

import (
	"context"
	"fmt"
	"strings"
)

// Beats reads the beat of every worker of a shard: a text that changes for as long as the worker lives.
func (c *Client) Beats(ctx context.Context, shard int) (map[string]string, error) {
	beats, err := c.rdb.HGetAll(ctx, c.tags[shard]+":workers").Result()
	if err != nil {
		return nil, readError("read the workers", err)
	}
	for worker, beat := range beats {
		if strings.HasPrefix(beat, "-") { // it has left, or was reclaimed
			delete(beats, worker)
		}
	}
	return beats, nil
}

// Reclaimed is what a worker left behind.
type Reclaimed struct {
	// Refused: it lives, its beat has changed.
	Refused bool
	// Returned to their buckets, and Dead for having taken too many workers down.
	Returned, Dead int
	// Crashed are the jobs that the worker had.
	Crashed []Crash
}

// Crash is an attempt whose worker was gone before it ended. That the worker had begun it is not known.
type Crash struct {
	Class, Key, ID, Ref string
	// Attempt is its number, 1 for the first.
	Attempt int
	// State is Line for a job that went back to its bucket, Kept for one that is dead, Cancelled for one that was to be.
	State State
	// Error is what is kept with the job.
	Error string
}

// Reclaim returns what a dead worker had out in a shard to its buckets. beat is what stood still: see [Client.Beats]. A
// worker that lives after all is not reclaimed.
func (c *Client) Reclaim(ctx context.Context, shard int, worker, beat string) (Reclaimed, error) {
	if beat == "" {
		return Reclaimed{}, fmt.Errorf("%w: reclaim of worker %q without its beat", ErrInvalid, clip(worker))
	}
	return c.reclaim(ctx, shard, worker, beat)
}

func (c *Client) reclaim(ctx context.Context, shard int, worker, beat string) (sum Reclaimed, err error) {
	for {
		r, err := c.run(ctx, c.scripts.reclaim, shard, "reclaim worker "+worker, worker, beat)
		if err != nil {
			return sum, err
		}
		if r.text(0) == "refused" {
			sum.Refused = true
			return sum, nil
		}
		sum.Returned += int(r.int(1))
		sum.Dead += int(r.int(2))
		sum.Crashed = append(sum.Crashed, readCrashes(r[min(4, len(r)):])...)
		if r.int(3) == 0 {
			return sum, nil
		}
	}
}

// readCrashes reads what tell in reclaim.lua says.
func readCrashes(r reply) (all []Crash) {
	for ; len(r) >= 5; r = r[5:] {
		id, bucket, _ := strings.Cut(r.text(3), "\n")
		class, key, _ := strings.Cut(bucket, "/")
		all = append(all, Crash{
			Class: class, Key: key, ID: id, Ref: r.text(1), Attempt: int(r.int(2)), State: State(r.text(0)), Error: r.text(4),
		})
	}
	return all
}
