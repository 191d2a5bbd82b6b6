package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/queue"
)

const (
	jobs    = 30_000
	slots   = 64
	callers = 32
	buckets = 100
)

// work is one measured side: what it took in wall clock and in Redis.
type work struct{ perSecond, micros float64 }

// countdown is a handler that does nothing and tells when it has done so n times.
func countdown(n int64) (h asynq.HandlerFunc, done <-chan struct{}) {
	var seen atomic.Int64
	all := make(chan struct{})
	return func(context.Context, *asynq.Task) error {
		if seen.Add(1) == n {
			close(all)
		}
		return nil
	}, all
}

// processed: jobs/s of one worker against asynq's servers, pair by pair, and Redis time from submission to done.
func processed(ctx context.Context, b *bench) ([]row, error) {
	var one, four, redis []float64
	var ours []float64
	for range b.rounds {
		a1, err := b.asynqDrain(ctx, 1)
		if err != nil {
			return nil, err
		}
		s, err := b.spoutDrain(ctx)
		if err != nil {
			return nil, err
		}
		a4, err := b.asynqDrain(ctx, 4)
		if err != nil {
			return nil, err
		}
		one = append(one, s.perSecond/a1.perSecond)
		four = append(four, s.perSecond/a4.perSecond)
		redis = append(redis, s.micros/a1.micros)
		ours = append(ours, s.perSecond)
	}
	return []row{
		{"30,000 no-op jobs, 64 slots: processed/s against asynq, 1 server", ">= 2.5", spanOf(one, "%.2f")},
		{"the same against 4 asynq servers with 4 queues", ">= 1.3", spanOf(four, "%.2f")},
		{"Redis time per job, submit to done, against asynq, 1 server", "<= 1.25", spanOf(redis, "%.2f")},
		{"(processed/s)", "", spanOf(ours, "%.0f")},
	}, nil
}

func (b *bench) spoutDrain(ctx context.Context) (work, error) {
	client, err := b.fresh(ctx, perSecond("noop", 10_000))
	if err != nil {
		return work{}, err
	}
	if err := fill(ctx, client, "noop", jobs, buckets); err != nil {
		return work{}, err
	}
	h, done := countdown(jobs)
	begin := time.Now()
	stop, err := drain(ctx, client, 1, h)
	if err != nil {
		return work{}, err
	}
	if err := wait(ctx, done); err != nil {
		return work{}, err
	}
	took := time.Since(begin)
	if err := stop(); err != nil {
		return work{}, err
	}
	micros, err := b.redisMicros(ctx)
	return work{jobs / took.Seconds(), micros / jobs}, err
}

// fill submits n jobs over some keys with 32 callers, as asynq's side does.
func fill(ctx context.Context, client *queue.Client, class string, n, keys int) error {
	_, err := inParallel(ctx, n, func(ctx context.Context, i int) error {
		_, err := client.Submit(ctx, job(class, i%keys))
		return err
	})
	return err
}

func job(class string, key int) queue.Job {
	return queue.Job{Class: class, Key: fmt.Sprintf("k%d", key), Type: "noop", Payload: []byte(`{"to":"somebody","n":1}`)}
}

func (b *bench) asynqDrain(ctx context.Context, servers int) (work, error) {
	if err := b.rdb.FlushAll(ctx).Err(); err != nil {
		return work{}, err
	}
	if err := b.rdb.ConfigResetStat(ctx).Err(); err != nil {
		return work{}, err
	}
	client := asynq.NewClientFromRedisClient(b.rdb)
	if _, err := b.enqueue(ctx, client, jobs, servers); err != nil {
		return work{}, err
	}
	h, done := countdown(jobs)
	begin := time.Now()
	var running []*asynq.Server
	for i := range servers {
		srv := asynq.NewServerFromRedisClient(b.rdb, asynq.Config{
			Concurrency: slots / servers, Queues: map[string]int{queueName(i): 1}, Logger: quiet{slog.New(slog.DiscardHandler)},
		})
		if err := srv.Start(h); err != nil {
			return work{}, err
		}
		running = append(running, srv)
	}
	if err := wait(ctx, done); err != nil {
		return work{}, err
	}
	took := time.Since(begin)
	for _, srv := range running {
		srv.Shutdown()
	}
	micros, err := b.redisMicros(ctx)
	return work{jobs / took.Seconds(), micros / jobs}, err
}

func queueName(i int) string { return fmt.Sprintf("q%d", i) }

func (b *bench) enqueue(ctx context.Context, client *asynq.Client, n, queues int) (time.Duration, error) {
	return inParallel(ctx, n, func(ctx context.Context, i int) error {
		_, err := client.EnqueueContext(ctx, asynq.NewTask("noop", []byte(`{"to":"somebody","n":1}`)), asynq.Queue(queueName(i%queues)))
		return err
	})
}

// submitted: single and batched submissions against asynq's Enqueue.
func submitted(ctx context.Context, b *bench) ([]row, error) {
	var single, many, rate []float64
	for range b.rounds {
		if err := b.rdb.FlushAll(ctx).Err(); err != nil {
			return nil, err
		}
		theirs, err := b.enqueue(ctx, asynq.NewClientFromRedisClient(b.rdb), jobs, 1)
		if err != nil {
			return nil, err
		}
		client, err := b.fresh(ctx, perSecond("noop", 10_000))
		if err != nil {
			return nil, err
		}
		ours, err := inParallel(ctx, jobs, func(ctx context.Context, i int) error {
			_, err := client.Submit(ctx, job("noop", i%buckets))
			return err
		})
		if err != nil {
			return nil, err
		}
		client, err = b.fresh(ctx, perSecond("noop", 10_000))
		if err != nil {
			return nil, err
		}
		batches, err := inParallel(ctx, jobs/100, func(ctx context.Context, i int) error { return submitMany(ctx, client, i) })
		if err != nil {
			return nil, err
		}
		single = append(single, theirs.Seconds()/ours.Seconds())
		many = append(many, theirs.Seconds()/batches.Seconds())
		rate = append(rate, jobs/ours.Seconds())
	}
	return []row{
		{"Submit/s, 32 callers, against asynq's Enqueue", ">= 0.8", spanOf(single, "%.2f")},
		{"SubmitMany(100 jobs of 10 buckets), jobs/s, 32 callers, against Enqueue", ">= 3", spanOf(many, "%.2f")},
		{"(Submit/s)", "", spanOf(rate, "%.0f")},
	}, nil
}

// submitMany submits 100 jobs of 10 buckets.
func submitMany(ctx context.Context, client *queue.Client, i int) error {
	return submitSome(ctx, client, i, 100)
}

// submitSome submits as many jobs as told, of 10 buckets.
func submitSome(ctx context.Context, client *queue.Client, i, size int) error {
	batch := make([]queue.Job, size)
	for n := range batch {
		batch[n] = job("noop", (i*10+n%10)%buckets)
	}
	for _, r := range client.SubmitMany(ctx, batch) {
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// inParallel calls do n times from 32 goroutines.
func inParallel(ctx context.Context, n int, do func(context.Context, int) error) (time.Duration, error) {
	return inParallelBy(ctx, callers, n, do)
}

// inParallelBy calls do n times from as many goroutines as told.
func inParallelBy(ctx context.Context, callers, n int, do func(context.Context, int) error) (time.Duration, error) {
	var next atomic.Int64
	var wg sync.WaitGroup
	failed := make(chan error, callers)
	begin := time.Now()
	for range callers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if err := do(ctx, i); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	wg.Wait()
	took := time.Since(begin)
	select {
	case err := <-failed:
		return took, err
	default:
		return took, nil
	}
}

func wait(ctx context.Context, done <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("not all jobs were run in time: %w", ctx.Err())
	}
}

// quiet keeps asynq's log out of the table.
type quiet struct{ *slog.Logger }

func (quiet) Debug(...any) {}
func (quiet) Info(...any)  {}
func (quiet) Warn(...any)  {}
func (quiet) Error(args ...any) {
	_, _ = fmt.Fprintln(io.Discard, args...)
}
func (q quiet) Fatal(args ...any) { q.Error(args...) }
