// Handler shows a worker with a job type of its own that does all that a handler can do: it heeds its deadline, answers with
// a result, and says which failures are for good, which others may be tried again, and when its service wants to be left alone.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/handlers"
	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// order is the payload of a job.
type order struct {
	Item   string `json:"item"`
	Amount int    `json:"amount"`
}

// warehouse is the service that the jobs are for.
type warehouse interface {
	// Reserve is given the same key in each attempt of a job, so that it reserves once.
	Reserve(ctx context.Context, key string, o order) (number string, err error)
}

// busyError is how it asks to be left alone.
type busyError struct{ until time.Time }

func (e *busyError) Error() string { return "the warehouse is busy" }

// reserve is the handler of the type stock:reserve.
type reserve struct{ warehouse warehouse }

// ProcessTask makes one attempt. Its error decides what becomes of the job.
func (r reserve) ProcessTask(ctx context.Context, task *asynq.Task) error {
	var o order
	if err := json.Unmarshal(task.Payload(), &o); err != nil || o.Item == "" || o.Amount < 1 {
		return fmt.Errorf("no order: %w", asynq.SkipRetry) // for good: it would be no better next time
	}
	number, err := r.warehouse.Reserve(ctx, task.Headers()["Spout-Ref"], o) // ctx ends at the class's timeout
	if busy, ok := errors.AsType[*busyError](err); ok {
		// Not a failure: the job is the first to leave when the hold of its bucket ends.
		return &handlers.HoldError{Err: err, For: max(time.Until(busy.until), time.Millisecond)}
	}
	if err != nil {
		return err // tried again after the class's backoff, when the bucket lets it out
	}
	if w := task.ResultWriter(); w != nil { // for queue.Await, and for as long as the class retains it
		_, err = fmt.Fprintf(w, `{"number":%q}`, number)
	}
	return err
}

func run(ctx context.Context, rdb redis.UniversalClient, w warehouse, log *slog.Logger) error {
	client, err := queue.Open(ctx, rdb, queue.Options{})
	if err != nil {
		return err
	}
	class := queue.NewClass("stock", 1000, queue.Rate{Limit: 10, Period: time.Second})
	class.Timeout, class.Retention = 5*time.Second, time.Hour
	if _, err := client.Classes().Put(ctx, class); err != nil {
		return err
	}
	mux := handlers.NewMux()
	mux.Handle("stock:reserve", reserve{w})
	worker, err := scheduler.New(client, mux, scheduler.Options{Classes: []string{"stock"}, Logger: log})
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

func main() {
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	rdb := redis.NewClient(&redis.Options{Addr: os.Getenv("REDIS"), MaxRetries: -1})
	if err := run(ctx, rdb, shelf{}, log); err != nil {
		log.LogAttrs(ctx, slog.LevelError, "worker failed", slog.Any("error", err))
	}
}

// shelf is a warehouse that has everything.
type shelf struct{}

func (shelf) Reserve(_ context.Context, key string, o order) (string, error) {
	return fmt.Sprintf("%s-%d-%.4s", o.Item, o.Amount, key), nil
}
