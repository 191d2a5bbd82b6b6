// Worker shows a worker with a handler of its own: everything that cmd/worker does, for a job type of yours.
package main

import (
	"context"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/handlers"
	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Getenv("REDIS"), log); err != nil {
		log.LogAttrs(ctx, slog.LevelError, "worker failed", slog.Any("error", err))
	}
}

// run is the ten lines.
func run(ctx context.Context, addr string, log *slog.Logger) error {
	client, err := queue.Open(ctx, redis.NewClient(&redis.Options{Addr: addr, MaxRetries: -1}), queue.Options{})
	if err != nil {
		return err
	}
	mux := handlers.NewMux()
	mux.HandleFunc("mail:send", func(ctx context.Context, t *asynq.Task) error {
		log.LogAttrs(ctx, slog.LevelInfo, "sending", slog.String("to", t.Headers()["Spout-Key"]))
		return nil // done; after an error it is tried again, at the rate of its bucket and as often as the class says
	})
	worker, err := scheduler.New(client, mux, scheduler.Options{Classes: []string{"mail"}, Logger: log})
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}
