package queue

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Revival is what [DeadJobs.RetryAll] did.
type Revival struct {
	// Retried went round again; Left are still dead, for want of room in their buckets.
	Retried, Left int
	// RetryAfter is when there should be room for the next of those that are left.
	RetryAfter time.Duration
}

// RetryAll goes once through the dead jobs of a class, or of one bucket when key is not empty, the oldest first, and sends
// those round again for which there is room: each leaves its bucket at the bucket's rate. Jobs that died after a time, zero
// for now, are left alone: those that die again are not sent round for ever. progress, which may be nil, hears of every step.
func (d DeadJobs) RetryAll(
	ctx context.Context, class, key string, until time.Time, progress func(Revival),
) (Revival, error) {
	var sum Revival
	if _, err := d.c.Classes().Get(ctx, class); err != nil {
		return sum, err
	}
	if until.IsZero() {
		var err error
		if until, err = d.c.Now(ctx); err != nil {
			return sum, err
		}
	}
	for shard := range d.c.tags {
		if key != "" && shard != shardOf(class+"/"+key, len(d.c.tags)) {
			continue
		}
		if err := d.reviveShard(ctx, shard, class, key, until, &sum, progress); err != nil {
			return sum, err
		}
	}
	return sum, nil
}

func (d DeadJobs) reviveShard(
	ctx context.Context, shard int, class, key string, until time.Time, sum *Revival, progress func(Revival),
) error {
	full := map[string]bool{} // buckets without room
	skipped := int64(0)       // dead jobs that stay where they are in the list
	for {
		refs, err := d.c.rdb.ZRangeByScore(ctx, d.c.key(shard, "dead", class), &redis.ZRangeBy{
			Min: "-inf", Max: strconv.FormatInt(until.UnixMicro(), 10), Offset: skipped, Count: deadStep,
		}).Result()
		if err != nil {
			return readError("list dead jobs of class "+class, err)
		}
		buckets, err := d.bucketsOf(ctx, shard, refs)
		if err != nil {
			return err
		}
		for i, ref := range refs {
			if key != "" && buckets[i] != class+"/"+key {
				skipped++
				continue
			}
			if stays, err := d.revive(ctx, ref, buckets[i], full, sum); err != nil {
				return err
			} else if stays {
				skipped++
			}
			if progress != nil {
				progress(*sum)
			}
		}
		if len(refs) < deadStep {
			return nil
		}
	}
}

// revive sends one job round again. True means that it stays dead.
func (d DeadJobs) revive(ctx context.Context, ref, bucket string, full map[string]bool, sum *Revival) (bool, error) {
	if full[bucket] {
		sum.Left++
		return true, nil
	}
	_, err := d.Retry(ctx, ref)
	if wait, ok := errors.AsType[*FullError](err); ok {
		full[bucket] = true
		after := max(wait.RetryAfter, time.Millisecond)
		if sum.Left == 0 || after < sum.RetryAfter {
			sum.RetryAfter = after
		}
		sum.Left++
		return true, nil
	}
	if errors.Is(err, ErrDraining) {
		full[bucket] = true
		sum.Left++
		return true, nil
	}
	if errors.Is(err, ErrNotFound) { // somebody else was quicker
		return false, nil
	}
	if err == nil {
		sum.Retried++
	}
	return false, err
}
