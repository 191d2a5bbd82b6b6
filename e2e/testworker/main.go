// Testworker is a worker whose handlers misbehave, for the end-to-end tests.
package main

import (
	"context"
	"errors"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

func main() {
	classes := flag.String("classes", "", "drain only these, separated by commas")
	patience := flag.Duration("shutdown-timeout", 30*time.Second, "how long what runs may finish after SIGTERM")
	flag.Parse()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	o := scheduler.Options{Classes: strings.FieldsFunc(*classes, comma), ShutdownTimeout: *patience, Logger: log}
	err := run(ctx, os.Getenv("SPOUT_REDIS"), o)
	stop()
	if err != nil {
		log.LogAttrs(ctx, slog.LevelError, "worker failed", slog.Any("error", err))
		os.Exit(1)
	}
}

func comma(r rune) bool { return r == ',' }

func run(ctx context.Context, url string, o scheduler.Options) (err error) {
	options, err := redis.ParseURL(url)
	if err != nil {
		return err
	}
	options.MaxRetries = -1
	rdb := redis.NewClient(options)
	defer func() { err = errors.Join(err, rdb.Close()) }()
	client, err := queue.Open(ctx, rdb, queue.Options{})
	if err != nil {
		return err
	}
	worker, err := scheduler.New(client, newMux(), o)
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}
