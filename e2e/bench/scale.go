package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spout-queue/spout/queue"
)

// scale: Redis time per departure with many buckets of one job each, against few.
func scale(ctx context.Context, b *bench) ([]row, error) {
	const many, few = 100_000, 100
	cost := func(keys int) (float64, error) {
		client, err := b.fresh(ctx, perSecond("scale", 1000))
		if err != nil {
			return 0, err
		}
		var batch []queue.Job
		for i := range keys {
			batch = append(batch, job("scale", i))
		}
		for i := 0; i < len(batch); i += 1000 {
			for _, r := range client.SubmitMany(ctx, batch[i:min(i+1000, len(batch))]) {
				if r.Err != nil {
					return 0, r.Err
				}
			}
		}
		if err := b.rdb.ConfigResetStat(ctx).Err(); err != nil {
			return 0, err
		}
		departed := 0
		for shard := range client.Shards() {
			outlet := client.Outlet("bench", shard)
			for departed < keys && departed < 20_000*(shard+1)/client.Shards() {
				found, err := outlet.Depart(ctx, queue.Ask{Want: 32})
				if err != nil {
					return 0, err
				}
				if departed += len(found.Jobs); len(found.Jobs) == 0 {
					break
				}
			}
		}
		micros, err := b.redisMicros(ctx)
		return micros / float64(departed), err
	}
	var ratios []float64
	for range b.rounds {
		small := make([]float64, 0, 20)
		for range 20 { // few departures each, so many rounds of them
			c, err := cost(few)
			if err != nil {
				return nil, err
			}
			small = append(small, c)
		}
		large, err := cost(many)
		if err != nil {
			return nil, err
		}
		ratios = append(ratios, large/median(small))
	}
	return []row{{"100,000 buckets with one job each: Redis time per departure against 100", "within 1.5", spanOf(ratios, "%.2f")}}, nil
}

// keysLeft: what is left in Redis of buckets that were drained and have been idle for two intervals.
func keysLeft(ctx context.Context, b *bench) ([]row, error) {
	client, err := b.fresh(ctx, perSecond("keys", 10))
	if err != nil {
		return nil, err
	}
	const n = 500
	h, done := countdown(n)
	stop, err := drain(ctx, client, 1, h)
	if err != nil {
		return nil, err
	}
	if err := fill(ctx, client, "keys", n, 50); err != nil {
		return nil, err
	}
	if err := wait(ctx, done); err != nil {
		return nil, err
	}
	<-time.After(2 * 100 * time.Millisecond)
	<-time.After(50 * time.Millisecond) // for the calls themselves
	keys, err := b.rdb.Keys(ctx, "*").Result()
	if err != nil {
		return nil, err
	}
	left := 0
	for _, key := range keys {
		if strings.Contains(key, "keys/") || strings.Contains(key, ":job:") {
			left++
		}
	}
	return []row{{"all buckets drained and idle for 2 intervals: keys of theirs left", "0", fmt.Sprint(left)}}, stop()
}
