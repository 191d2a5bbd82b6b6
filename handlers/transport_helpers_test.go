package handlers_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/handlers"
	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// submitterTo joins a Transport to a queue.
func submitterTo(client *queue.Client) handlers.Submitter {
	return handlers.Submitter{
		Submit: func(ctx context.Context, j handlers.Job) (string, error) {
			receipt, err := client.Submit(ctx, queue.Job{
				Class: j.Class, Key: j.Key, ID: j.ID, Type: j.Type, Payload: j.Payload, MaxWait: j.MaxWait,
			})
			if errors.Is(err, queue.ErrConflict) { // there before, with another text
				err = nil
			}
			if full, ok := errors.AsType[*queue.FullError](err); ok {
				err = &handlers.RejectedError{Err: err, After: full.RetryAfter, Late: full.Reason == queue.ReasonWouldExpire}
			}
			return receipt.Ref, err
		},
		Await: func(ctx context.Context, ref string) (handlers.Ending, error) {
			e, err := client.Await(ctx, ref)
			return handlers.Ending{State: string(e.State), Result: e.Result, Error: e.Error}, err
		},
		Cancel: func(ctx context.Context, ref string) error {
			_, err := client.Cancel(ctx, ref)
			return err
		},
	}
}

// system is a queue with a worker.
type system struct {
	*queue.Client
}

// newCallSystem has a worker for http:call.
func newCallSystem(t *testing.T) system {
	t.Helper()
	return newSystem(t, newCall(t, handlers.HTTPOptions{FreshUntil: scheduler.FreshUntil, Secrets: handlers.Secrets{
		Getenv: func(name string) string { return map[string]string{"SPOUT_SECRET_API": "the secret"}[name] },
	}}))
}

// newSystem starts a Redis and a worker on it that runs jobs with mux.
func newSystem(t *testing.T, mux asynq.Handler) system {
	t.Helper()
	client, err := queue.Open(t.Context(), redistest.Start(t).Client(t), queue.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	worker, err := scheduler.New(client, mux, scheduler.Options{ShutdownTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("worker: %v", err)
		}
	})
	return system{client}
}

// class stores the class api, which may call this machine and keeps results.
func (s system) class(t *testing.T, capacity int, rate queue.Rate, change func(*queue.Class)) {
	t.Helper()
	class := queue.NewClass("api", capacity, rate)
	class.Retention, class.HTTP.AllowPrivate = time.Minute, true
	if change != nil {
		change(&class)
	}
	if _, err := s.Classes().Put(t.Context(), class); err != nil {
		t.Fatal(err)
	}
}

// client sends its requests through buckets of the class api.
func (s system) client() *http.Client {
	return &http.Client{Transport: &handlers.Transport{Submitter: submitterTo(s.Client), Class: "api"}}
}

var fast = queue.Rate{Limit: 1000, Period: time.Second}

// payer is a request's body that tells whether it was closed.
type payer struct {
	io.Reader
	once   sync.Once
	closed chan struct{}
}

func newPayer(r io.Reader) *payer { return &payer{Reader: r, closed: make(chan struct{})} }

func (p *payer) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *payer) isClosed() bool {
	select {
	case <-p.closed:
		return true
	default:
		return false
	}
}
