package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/console"
	"github.com/spout-queue/spout/queue"
)

// startDashboard serves the dashboard and the API on a loopback address, for everybody on this machine, until ctx ends; the
// returned function waits for that.
func startDashboard(ctx context.Context, client *queue.Client, b *broker, addr string) (url string, wait func() error, err error) {
	guard, err := access.NewGuard(access.Options{Local: true})
	if err != nil {
		return "", nil, err
	}
	c, err := console.New(console.Options{Client: client, Guard: guard, NATS: b.waiting, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return "", nil, err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return "", nil, fmt.Errorf("start the dashboard: %w", err)
	}
	if ip := net.ParseIP(host(listener.Addr())); ip == nil || !ip.IsLoopback() {
		return "", nil, errors.Join(fmt.Errorf("start the dashboard: %s is not on this machine alone, and nobody has to log in", addr), listener.Close())
	}
	var all sync.WaitGroup
	var served error
	all.Go(func() { c.Run(ctx) })
	all.Go(func() { served = c.Serve(ctx, listener, nil) })
	return "http://" + listener.Addr().String() + "/", func() error {
		all.Wait()
		return served
	}, nil
}

func host(addr net.Addr) string {
	h, _, _ := net.SplitHostPort(addr.String()) // a listener's address has a port
	return h
}
