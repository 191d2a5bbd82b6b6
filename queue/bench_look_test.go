package queue_test

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// sent counts the commands that a client sends.
type sent struct{ n atomic.Int64 }

func (s *sent) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (s *sent) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		s.n.Add(1)
		return next(ctx, cmd)
	}
}

func (s *sent) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// BenchmarkLook is what those cost who look at 10,000 buckets: some of them, how all classes stand, and a sweep over all.
func BenchmarkLook(b *testing.B) {
	rdb := redistest.Start(b).Client(b)
	c, err := queue.Open(b.Context(), rdb, queue.Options{Shards: 4})
	must(b, err)
	var classes []string
	for n := range 5 {
		class := queue.NewClass(fmt.Sprint("c", n), 10, queue.Rate{Limit: 1, Period: 3600e9})
		_, err := c.Classes().Put(b.Context(), class)
		must(b, err)
		classes = append(classes, class.Name)
	}
	var jobs []queue.Job
	var names []string
	for i := range 10_000 {
		job := newJob(fmt.Sprint("c", i%5), fmt.Sprint("tenant ", i), "1")
		jobs = append(jobs, job)
		if names = append(names, job.Class+"/"+job.Key); len(jobs) == 1000 {
			for _, r := range c.SubmitMany(b.Context(), jobs) {
				must(b, r.Err)
			}
			jobs = nil
		}
	}
	count := &sent{}
	rdb.AddHook(count)
	measure := func(name string, look func()) {
		b.Run(name, func(b *testing.B) {
			before := count.n.Load()
			for b.Loop() {
				look()
			}
			b.ReportMetric(float64(count.n.Load()-before)/float64(b.N), "commands/op")
		})
	}
	measure("Some50", func() {
		if list, err := c.Buckets().Some(b.Context(), names[:50]); err != nil || len(list) != 50 {
			b.Fatal(len(list), err)
		}
	})
	measure("Lines50", func() {
		if list, err := c.Buckets().Lines(b.Context(), names[:50]); err != nil || len(list) != 50 {
			b.Fatal(len(list), err)
		}
	})
	measure("Page50", func() {
		if _, _, err := c.Buckets().Page(b.Context(), queue.BucketQuery{Class: "c1", Limit: 50}); err != nil {
			b.Fatal(err)
		}
	})
	measure("Standings", func() {
		if _, err := c.Standings(b.Context()); err != nil {
			b.Fatal(err)
		}
	})
	measure("Sweep", func() {
		found := 0
		for shard := range c.Shards() {
			for w := (queue.Walk{Shard: shard, Classes: classes}); len(w.Classes) > 0; {
				list, err := c.Buckets().Levels(b.Context(), &w, 500)
				must(b, err)
				found += len(list)
			}
		}
		if found < 10_000 {
			b.Fatalf("%d buckets", found)
		}
	})
}
