package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// metrics: what it costs to be seen. Jobs/s of submission and of drain with everything measured and scraped each second,
// against the same without, pair by pair; and one scrape of an installation of 200 classes.
func metrics(ctx context.Context, b *bench) ([]row, error) {
	var submitted, drained, cpu []float64
	for i := range 2 * b.rounds {
		first := i%2 == 0 // who goes first may be favoured
		x, err := b.watched(ctx, first)
		if err != nil {
			return nil, err
		}
		y, err := b.watched(ctx, !first)
		if err != nil {
			return nil, err
		}
		if !first {
			x, y = y, x
		}
		submitted = append(submitted, x.submit/y.submit)
		drained = append(drained, x.drain/y.drain)
		cpu = append(cpu, x.cpu/y.cpu)
	}
	took, commands, err := b.scrape(ctx)
	if err != nil {
		return nil, err
	}
	return []row{
		{"30,000 no-op jobs with metrics on: processed/s against off", ">= 0.98", spanOf(drained, "%.3f")},
		{"the same: processor time of the worker's process", "<= 1.02", spanOf(cpu, "%.3f")},
		{"the same: submitted/s, 32 callers", ">= 0.98", spanOf(submitted, "%.3f")},
		{"a scrape of 200 classes with 20,000 keys, 4 shards", "< 20 ms", took.Round(100 * time.Microsecond).String()},
		{"the same: Redis commands", "< 500", fmt.Sprint(commands)},
	}, nil
}

// flow is the pace of submission and drain, per second, and the processor time that the drain took, in seconds.
type flow struct{ submit, drain, cpu float64 }

// watched fills and drains, with metrics or without.
func (b *bench) watched(ctx context.Context, on bool) (flow, error) {
	if _, err := b.fresh(ctx, perSecond("noop", 10_000)); err != nil {
		return flow{}, err
	}
	rdb := newClient(b.rdb.Options().Addr) // its hooks go with it
	defer rdb.Close()                      //nolint:errcheck // nothing is under way
	reg := prometheus.NewRegistry()
	var q queue.Options
	var o scheduler.Options
	if on {
		q.Metrics, o.Metrics = queue.NewMetrics(reg), scheduler.NewMetrics(reg, nil)
	}
	client, err := queue.Open(ctx, rdb, q)
	if err != nil {
		return flow{}, err
	}
	if on {
		reg.MustRegister(queue.NewCollector(client, nil))
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		go gatherEach(ctx, reg)
	}
	begin := time.Now()
	if err := fill(ctx, client, "noop", jobs, buckets); err != nil {
		return flow{}, err
	}
	filled := time.Since(begin)
	h, done := countdown(jobs)
	o.Concurrency = slots
	begin = time.Now()
	used := cpuTime()
	stop, err := drainWith(ctx, client, 1, h, o)
	if err != nil {
		return flow{}, err
	}
	if err := wait(ctx, done); err != nil {
		return flow{}, err
	}
	took := time.Since(begin)
	return flow{jobs / filled.Seconds(), jobs / took.Seconds(), (cpuTime() - used).Seconds()}, stop()
}

// gatherEach scrapes every second until ctx ends.
func gatherEach(ctx context.Context, reg *prometheus.Registry) {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_, _ = reg.Gather()
		case <-ctx.Done():
			return
		}
	}
}

// scrape measures the best of ten scrapes of a full installation: on a machine that others use, too, that tells most.
func (b *bench) scrape(ctx context.Context) (best time.Duration, commands int64, err error) {
	if err := b.rdb.FlushAll(ctx).Err(); err != nil {
		return 0, 0, err
	}
	rdb := newClient(b.rdb.Options().Addr)
	defer rdb.Close() //nolint:errcheck // nothing is under way
	sent := &counter{}
	rdb.AddHook(sent)
	client, err := queue.Open(ctx, rdb, queue.Options{Shards: 4})
	if err != nil {
		return 0, 0, err
	}
	const classes, keys = 200, 100
	for i := range classes {
		class := perSecond(fmt.Sprintf("c%d", i), 1)
		if _, err := client.Classes().Put(ctx, class); err != nil {
			return 0, 0, err
		}
		if err := fill(ctx, client, class.Name, keys, keys); err != nil {
			return 0, 0, err
		}
	}
	reg := prometheus.NewRegistry()
	reg.MustRegister(queue.NewCollector(client, nil))
	best = time.Hour
	const scrapes = 10
	for i := range scrapes + 1 {
		if i == 1 { // the first one sends the script
			sent.n.Store(0)
		}
		begin := time.Now()
		if _, err := reg.Gather(); err != nil {
			return 0, 0, err
		}
		best = min(best, time.Since(begin))
	}
	return best, sent.n.Load() / scrapes, nil
}

// counter counts the commands that a client sends.
type counter struct{ n atomic.Int64 }

// DialHook implements [redis.Hook].
func (c *counter) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements [redis.Hook].
func (c *counter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements [redis.Hook].
func (c *counter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}
