package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/spout-queue/spout/handlers"
	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// spout puts all calls into their tenants' buckets at once; two workers, as in two processes, drain them.
func spout(ctx context.Context, t task) error {
	rdb := redis.NewClient(options(t.redis))
	defer rdb.Close() //nolint:errcheck // the program ends
	client, err := queue.Open(ctx, rdb, queue.Options{Prefix: "outbound-example"})
	if err != nil {
		return err
	}
	class := queue.NewClass("api", t.each(), queue.Rate{Limit: 1, Period: t.limit.interval()})
	class.Retention = time.Minute
	class.HTTP.AllowPrivate = true // the API of this example is on this machine
	if _, err := client.Classes().Put(ctx, class); err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	workers, draining := errgroup.WithContext(ctx)
	for range 2 {
		workers.Go(func() error { return work(draining, client) })
	}
	refs, err := submit(ctx, client, t)
	if err != nil {
		return err
	}
	for _, ref := range refs {
		ending, err := client.Await(ctx, ref)
		if err != nil {
			return err
		}
		if ending.State != queue.Completed {
			return fmt.Errorf("job %s is %s: %s", ref, ending.State, ending.Error)
		}
	}
	stop()
	return workers.Wait()
}

func options(address string) *redis.Options {
	o := &redis.Options{Addr: address, MaxRetries: -1, ContextTimeoutEnabled: true}
	if strings.HasPrefix(address, "/") {
		o.Network = "unix"
	}
	return o
}

// work is a worker.
func work(ctx context.Context, client *queue.Client) error {
	call := handlers.NewHTTPCall(handlers.HTTPOptions{FreshUntil: scheduler.FreshUntil})
	defer call.CloseIdleConnections()
	mux := handlers.NewMux()
	mux.Handle(handlers.HTTPCallType, call)
	worker, err := scheduler.New(client, mux, scheduler.Options{Classes: []string{"api"}})
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

// submit puts all calls into the buckets and returns the refs of the jobs.
func submit(ctx context.Context, client *queue.Client, t task) ([]string, error) {
	jobs := make([]queue.Job, 0, t.Calls)
	for n := range t.each() {
		for tenant := range t.Tenants {
			payload, err := json.Marshal(map[string]string{"method": "GET", "url": t.address(tenant, n)})
			if err != nil {
				return nil, err
			}
			jobs = append(jobs, queue.Job{Class: "api", Key: strconv.Itoa(tenant), Payload: payload})
		}
	}
	refs := make([]string, len(jobs))
	for i, result := range client.SubmitMany(ctx, jobs) {
		if result.Err != nil {
			return nil, result.Err
		}
		refs[i] = result.Receipt.Ref
	}
	return refs, nil
}
