package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/handlers"
	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// The demo: three tenants of an API that allows four calls a second to each.
const (
	demoClass = "demo"
	perTenant = 20
	limit     = 4
	capacity  = 15
	retention = 10 * time.Minute
)

func tenants() []string { return []string{"ada", "bob", "cyd"} }

// run starts everything, shows one burst and then whatever else is submitted, until ctx ends.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("dev", flag.ContinueOnError)
	flags.SetOutput(out)
	once := flags.Bool("once", false, "exit when the burst has been called")
	addr := flags.String("addr", "127.0.0.1:0", "loopback address of the dashboard and the API; port 0 is any that is free")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return nil
		}
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	server, err := startRedis()
	if err != nil {
		return err
	}
	defer server.Close()
	nats, err := startNATS()
	if err != nil {
		return err
	}
	defer nats.close()
	up, err := startUpstream(ctx)
	if err != nil {
		return err
	}
	defer up.close()
	client, err := openQueue(ctx, server.Addr())
	if err != nil {
		return err
	}
	defer client.Redis().Close() //nolint:errcheck // the server goes with it
	worker, err := startWorker(ctx, client)
	if err != nil {
		return err
	}
	bridge, err := startBridge(ctx, client, nats.url())
	if err != nil {
		return err
	}
	url, dashboard, err := startDashboard(ctx, client, nats, *addr)
	if err != nil {
		return err
	}

	s := &show{out: out, client: client, up: up, redis: server.Addr(), nats: nats.url(), dashboard: url}
	s.introduce()
	s.naive(ctx)
	s.burst(ctx)
	s.watch(ctx, *once)
	cancel()
	return errors.Join(bridge(), dashboard(), worker())
}

// startRedis runs miniredis: enough Redis for one process, and nothing to install.
func startRedis() (*miniredis.Miniredis, error) {
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	if err := server.StartAddr("127.0.0.1:0"); err != nil {
		return nil, fmt.Errorf("start the embedded redis: %w", err)
	}
	return server, nil
}

func openQueue(ctx context.Context, addr string) (*queue.Client, error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1, ContextTimeoutEnabled: true})
	client, err := queue.Open(ctx, rdb, queue.Options{Check: handlers.CheckPayload})
	if err != nil {
		return nil, err
	}
	class := queue.NewClass(demoClass, capacity, queue.Rate{Limit: limit, Period: time.Second})
	class.HTTP.AllowPrivate = true // the upstream is on loopback
	class.Retention = retention
	_, err = client.Classes().Put(ctx, class)
	return client, err
}

// startWorker drains until ctx ends; the returned function waits for that.
func startWorker(ctx context.Context, client *queue.Client) (wait func() error, err error) {
	mux := handlers.NewMux()
	call := handlers.NewHTTPCall(handlers.HTTPOptions{FreshUntil: scheduler.FreshUntil})
	mux.Handle(handlers.HTTPCallType, call)
	s, err := scheduler.New(client, mux, scheduler.Options{ShutdownTimeout: 2 * time.Second})
	if err != nil {
		return nil, err
	}
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	return func() error {
		defer call.CloseIdleConnections()
		return <-ended
	}, nil
}
