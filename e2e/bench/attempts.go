package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// dead: how long a page of dead jobs and the retry of one take, among 100,000.
func dead(ctx context.Context, b *bench) ([]row, error) {
	const n = 100_000
	class := perSecond("dead", 10_000)
	class.CatchUp = time.Second
	client, err := b.fresh(ctx, class)
	if err != nil {
		return nil, err
	}
	for range n / 1000 {
		if err := fail(ctx, client, class.Name, 1000, 100, queue.Dead); err != nil {
			return nil, err
		}
	}
	var list, retry []time.Duration
	page := queue.DeadQuery{Class: class.Name, Limit: 100}
	for range 50 {
		began := time.Now()
		jobs, err := client.Dead().List(ctx, page)
		list = append(list, time.Since(began))
		if err != nil || len(jobs) != page.Limit {
			return nil, fmt.Errorf("a page of %d dead jobs: %w", len(jobs), err)
		}
		began = time.Now()
		if _, err := client.Dead().Retry(ctx, jobs[rand.IntN(len(jobs))].Ref); err != nil { //nolint:gosec // no secret
			return nil, err
		}
		retry = append(retry, time.Since(began))
		page.Before = jobs[len(jobs)-1].EndedAt
	}
	return []row{
		{"a page of 100 out of 100,000 dead jobs, p99", "20 ms", fmt.Sprintf("%.2f ms", ms(quantile(list, 0.99)))},
		{"retry of one of 100,000 dead jobs, p99", "20 ms", fmt.Sprintf("%.2f ms", ms(quantile(retry, 0.99)))},
	}, nil
}

// fail lets n jobs of as many keys depart and settles them.
func fail(ctx context.Context, client *queue.Client, class string, n, keys int, outcome queue.Outcome) error {
	batch := make([]queue.Job, 0, n)
	for i := range n {
		batch = append(batch, job(class, i%keys))
	}
	for _, r := range client.SubmitMany(ctx, batch) {
		if r.Err != nil {
			return r.Err
		}
	}
	for shard := range client.Shards() {
		outlet := client.Outlet("fails", shard)
		for {
			found, err := outlet.Depart(ctx, queue.Ask{Want: queue.SettleMost})
			if errors.Is(err, queue.ErrRefused) {
				continue
			}
			if err != nil {
				return err
			}
			if len(found.Jobs) == 0 && (found.Wait < 0 || found.Wait > time.Second) {
				break
			}
			if _, err := outlet.Settle(ctx, verdicts(found.Jobs, outcome)); err != nil {
				return err
			}
		}
	}
	return nil
}

func verdicts(jobs []queue.Departure, outcome queue.Outcome) []queue.Verdict {
	list := make([]queue.Verdict, len(jobs))
	for i, j := range jobs {
		list[i] = queue.Verdict{
			Ref: j.Ref, Stamp: j.Stamp, Class: j.Class, Outcome: outcome, Due: j.Due, Started: j.Due,
			Error: strings.Repeat("upstream answered 500 ", 20),
		}
	}
	return list
}

// holds: for how long one call with 64 departures holds Redis, each of another bucket.
func holds(ctx context.Context, b *bench) ([]row, error) {
	class := perSecond("holds", 10_000)
	class.Retry.Order = queue.Park
	client, err := b.fresh(ctx, class)
	if err != nil {
		return nil, err
	}
	var settle, reclaim []float64
	for round := range 100 {
		batch := make([]queue.Job, 0, queue.SettleMost)
		for key := range queue.SettleMost {
			batch = append(batch, job(class.Name, 1000*round+key))
		}
		for _, r := range client.SubmitMany(ctx, batch) {
			if r.Err != nil {
				return nil, r.Err
			}
		}
		for _, measure := range []struct {
			into *[]float64
			end  func(*queue.Outlet, string, []queue.Departure) error
		}{
			{&reclaim, func(_ *queue.Outlet, worker string, _ []queue.Departure) error {
				beats, err := client.Beats(ctx, 0)
				if err != nil {
					return err
				}
				_, err = client.Reclaim(ctx, 0, worker, beats[worker])
				return err
			}},
			{&settle, func(o *queue.Outlet, _ string, jobs []queue.Departure) error {
				_, err := o.Settle(ctx, verdicts(jobs, queue.Failed))
				return err
			}},
		} {
			worker := fmt.Sprint("w", round, len(reclaim))
			micros, err := b.hold(ctx, client.Outlet(worker, 0), worker, measure.end)
			if err != nil {
				return nil, err
			}
			*measure.into = append(*measure.into, micros/1000)
		}
	}
	return []row{
		{"one settle of 64 failed attempts, 64 buckets: holds Redis, p99", "5 ms", fmt.Sprintf("%.2f ms", quantile(settle, 0.99))},
		{"one reclaim of 64 departures, 64 buckets: holds Redis, p99", "5 ms", fmt.Sprintf("%.2f ms", quantile(reclaim, 0.99))},
	}, nil
}

// hold departs all that is due and measures the time Redis spends in what ends it.
func (b *bench) hold(
	ctx context.Context, outlet *queue.Outlet, worker string, end func(*queue.Outlet, string, []queue.Departure) error,
) (float64, error) {
	var jobs []queue.Departure
	for len(jobs) < queue.SettleMost {
		found, err := outlet.Depart(ctx, queue.Ask{Want: queue.SettleMost - len(jobs)})
		if err != nil {
			return 0, err
		}
		jobs = append(jobs, found.Jobs...)
	}
	if err := b.rdb.ConfigResetStat(ctx).Err(); err != nil {
		return 0, err
	}
	if err := end(outlet, worker, jobs); err != nil {
		return 0, err
	}
	return b.redisMicros(ctx)
}

// victimEnv makes this program a worker that takes jobs and never ends them.
const victimEnv = "SPOUT_BENCH_VICTIM"

// victim is what crash kills.
func victim(ctx context.Context, addr string) error {
	client, err := queue.Open(ctx, newClient(addr), queue.Options{})
	if err != nil {
		return err
	}
	s, err := scheduler.New(client, asynq.HandlerFunc(func(ctx context.Context, _ *asynq.Task) error {
		<-ctx.Done()
		return ctx.Err()
	}), scheduler.Options{Concurrency: 10})
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// crash: from the SIGKILL of a worker until its jobs run elsewhere.
func crash(ctx context.Context, b *bench) ([]row, error) {
	const victims, each = 8, 10
	class := perSecond("crash", 1000)
	class.Timeout = time.Hour
	client, err := b.fresh(ctx, class)
	if err != nil {
		return nil, err
	}
	var workers []*exec.Cmd
	for range victims {
		w := exec.Command(os.Args[0]) //nolint:gosec,noctx // this program itself; killed below
		w.Env = append(os.Environ(), victimEnv+"="+b.rdb.Options().Addr)
		w.Stderr = os.Stderr
		if err := w.Start(); err != nil {
			return nil, err
		}
		workers = append(workers, w)
	}
	if err := fill(ctx, client, class.Name, victims*each, victims*each); err != nil {
		return nil, err
	}
	for out := int64(0); out < victims*each; {
		books, err := client.Books(ctx, class.Name)
		if err != nil {
			return nil, err
		}
		out = books.Out()
		<-time.After(10 * time.Millisecond)
	}
	return b.kill(ctx, client, workers, victims*each)
}

// kill ends the workers one after the other, and waits for their jobs.
func (b *bench) kill(ctx context.Context, client *queue.Client, workers []*exec.Cmd, jobs int) ([]row, error) {
	var mu sync.Mutex
	owner, killed := map[string]string{}, map[string]time.Time{} // by ref; by worker
	var took []time.Duration
	done := make(chan struct{})
	stop, err := drain(ctx, client, 1, func(_ context.Context, t *asynq.Task) error {
		mu.Lock()
		defer mu.Unlock()
		took = append(took, time.Since(killed[owner[t.Headers()["Spout-Ref"]]]))
		if len(took) == jobs {
			close(done)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for shard := range client.Shards() {
		beats, err := client.Beats(ctx, shard)
		if err != nil {
			return nil, err
		}
		for worker := range beats {
			owned, err := client.Outlet(worker, shard).Owned(ctx)
			if err != nil {
				return nil, err
			}
			for ref := range owned {
				owner[ref] = worker
			}
		}
	}
	for _, w := range workers {
		mu.Lock()
		name := fmt.Sprintf("-%d-", w.Process.Pid)
		for _, worker := range owner {
			if strings.Contains(worker, name) {
				killed[worker] = time.Now()
			}
		}
		mu.Unlock()
		_ = w.Process.Kill()
		_ = w.Wait()
		<-time.After(rand.N(time.Second)) //nolint:gosec // no secret
	}
	if err := wait(ctx, done); err != nil {
		return nil, err
	}
	mu.Lock()
	defer mu.Unlock()
	return []row{{
		"SIGKILL of a worker until its jobs run elsewhere, p99", "15 s",
		fmt.Sprintf("%.1f s (p50 %.1f s)", quantile(took, 0.99).Seconds(), quantile(took, 0.5).Seconds()),
	}}, stop()
}
