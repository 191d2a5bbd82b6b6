package main

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

const (
	shownBuckets = 50                    // on the screen, the fullest
	calmBuckets  = 10_000 - shownBuckets // of four classes, not as full
	calmClasses  = 4
	busyClass    = "busy"
	// Busy buckets rise to busyHigh at 10 a second, of which 5 leave, and then fall for busyRest.
	busyHigh = 90
	busyRest = 4 * time.Second
	busyTick = 100 * time.Millisecond
)

// townOf is 10,000 buckets of five classes on 4 shards, of which the fullest 50 are moving: it comes to Redis by its socket.
func townOf(ctx context.Context, b *bench) (*queue.Client, error) {
	b.shards = 4
	classes := []queue.Class{queue.NewClass(busyClass, 100, queue.Rate{Limit: 5, Period: time.Second})}
	for i := range calmClasses {
		classes = append(classes, queue.NewClass(calmClass(i), 10, queue.Rate{Limit: 1, Period: time.Hour}))
	}
	if _, err := b.fresh(ctx, classes...); err != nil {
		return nil, err
	}
	rdb := redis.NewClient(&redis.Options{
		Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socketIn(b.dir))
		},
		PoolSize: 64, MaxRetries: -1,
	})
	client, err := queue.Open(ctx, rdb, queue.Options{Shards: b.shards})
	if err != nil {
		return nil, err
	}
	const batch = 50
	_, err = inParallelBy(ctx, 4, calmBuckets/batch, func(ctx context.Context, i int) error {
		var list []queue.Job
		for key := i * batch; key < (i+1)*batch; key++ {
			for range 2 + key/calmClasses%6 { // one leaves at once, and up to 6 of 10 stay
				list = append(list, job(calmClass(key%calmClasses), key))
			}
		}
		return admitted(client.SubmitMany(ctx, list))
	})
	return client, err
}

func calmClass(i int) string { return fmt.Sprintf("calm-%d", i) }

func admitted(results []queue.Result) error {
	for _, r := range results {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// move has a worker drain, and busy buckets rise and fall, until stop is called.
func move(ctx context.Context, client *queue.Client) (stop func() error, err error) {
	if err := busyFill(ctx, client); err != nil {
		return nil, err
	}
	rest, err := drain(ctx, client, 1, func(context.Context, *asynq.Task) error { return nil })
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- rise(ctx, client) }()
	return func() error {
		cancel()
		if err := <-ended; err != nil {
			return err
		}
		return rest()
	}, nil
}

func busyFill(ctx context.Context, client *queue.Client) error {
	for key := range shownBuckets {
		var list []queue.Job
		for range busyHigh - 20 + key%20 {
			list = append(list, job(busyClass, key))
		}
		if err := admitted(client.SubmitMany(ctx, list)); err != nil {
			return err
		}
	}
	return nil
}

// rise submits a job to each busy bucket that rises, again and again.
func rise(ctx context.Context, client *queue.Client) error {
	var falls [shownBuckets]time.Time // until when
	tick := time.NewTicker(busyTick)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		var list []queue.Job
		var keys []int
		for key, until := range falls {
			if time.Now().After(until) {
				list, keys = append(list, job(busyClass, key)), append(keys, key)
			}
		}
		for i, r := range client.SubmitMany(ctx, list) {
			if r.Err != nil && ctx.Err() == nil {
				return r.Err
			}
			if r.Receipt.Level >= busyHigh {
				falls[keys[i]] = time.Now().Add(busyRest)
			}
		}
	}
}
