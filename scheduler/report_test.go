package scheduler_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// eventually tries until it holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for limit := time.Now().Add(patience); !holds(); {
		if time.Now().After(limit) {
			t.Fatalf("never: %s", what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// Two workers tell of themselves, and of what starts while somebody asks, and of nothing else.
func TestWorkersTell(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		s := newSite(t, rdb, 2)
		s.class(t, "c", 50*time.Millisecond)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go s.client.Record(ctx, slog.New(slog.DiscardHandler))
		for n := range 2 {
			s.work(t, n, nil, scheduler.Options{
				Concurrency: 8, Version: "v1", Classes: []string{"c"},
				Freshness: time.Second, // so that something starts, also on a machine that is busy
			})
		}
		for _, bucket := range []string{"c/a", "c/b"} {
			s.submit(t, bucket, 1000)
		}
		s.await(t, "c/a", 20)
		for _, kind := range []string{"flow", "starts"} {
			keys, err := rdb.Keys(t.Context(), "{spout:*}:"+kind+":*").Result()
			if err != nil || len(keys) != 0 {
				t.Errorf("before anybody asked: %v, %v", keys, err)
			}
		}

		eventually(t, "a flow of both buckets", func() bool {
			flow, err := s.client.Flow(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for bucket, rate := range flow {
				if most := 6.1*20/5 + 1; rate > most { // in 5 s, with starts that are late by up to a second
					t.Errorf("%s starts %.1f times a second, more than %.1f", bucket, rate, most)
				}
			}
			return flow["c/a"] > 1 && flow["c/b"] > 1
		})
		var starts []queue.Start
		eventually(t, "20 starts of a bucket", func() bool {
			var err error
			if starts, err = s.client.Starts(t.Context(), "c", "a"); err != nil {
				t.Fatal(err)
			}
			return len(starts) >= 20
		})
		for i, start := range starts {
			if start.Worker == "" || start.Lateness < 0 || start.Started.Sub(start.Due) != start.Lateness ||
				i > 0 && start.Started.Before(starts[i-1].Started) {
				t.Errorf("start %d: %+v", i, start)
			}
		}

		workers, err := s.client.Workers(t.Context())
		if err != nil || len(workers) != 2 {
			t.Fatalf("%+v, %v", workers, err)
		}
		for _, w := range workers {
			if w.Reported.IsZero() || w.Host == "" || w.Process == 0 || w.Version != "v1" || w.Concurrency != 8 || len(w.Shards) != 2 ||
				len(w.Classes) != 1 || w.Calls == 0 || time.Since(w.Since) > patience {
				t.Errorf("%+v", w)
			}
		}
		eventually(t, "a point with starts in the history", func() bool {
			h, err := s.client.History(t.Context(), "c", queue.Recent)
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range h.Points {
				if p.Over > 0 && p.Starts > 0 && p.Departed > 0 && p.Lateness.P50 > 0 && p.Wait.P99 > p.Wait.P50 {
					return true
				}
			}
			return false
		})
		// Once nobody asks any more, the answers expire.
		eventually(t, "silence", func() bool {
			keys, err := rdb.Keys(t.Context(), "{spout:*}:[fs]*:*-*-*").Result()
			if err != nil {
				t.Fatal(err)
			}
			return len(keys) == 0
		})
	})
}

// A worker that stops takes back what it told.
func TestWorkersRetire(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		s := newSite(t, rdb, 1)
		w := s.work(t, 0, nil, scheduler.Options{})
		key := "{spout:0}:worker:" + w.Name()
		eventually(t, "a report", func() bool { return rdb.Exists(t.Context(), key).Val() == 1 })
		w.stop(t)
		if rdb.Exists(t.Context(), key).Val() != 0 {
			t.Error("its report is still there")
		}
		if list, err := s.client.Workers(t.Context()); err != nil || len(list) != 0 {
			t.Errorf("%+v, %v", list, err)
		}
	})
}
