package main

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// rush is busy for the first call.
type rush struct{ calls int }

func (r *rush) Reserve(ctx context.Context, key string, o order) (string, error) {
	if r.calls++; r.calls == 1 {
		return "", &busyError{until: time.Now().Add(100 * time.Millisecond)}
	}
	return shelf{}.Reserve(ctx, key[:1], o)
}

func TestHandler(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := server.Client(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	warehouse := new(rush)
	go func() { ended <- run(ctx, rdb, warehouse, slog.New(slog.DiscardHandler)) }()

	client, err := queue.Open(t.Context(), server.Client(t), queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	submit := func(payload string) queue.Ending {
		t.Helper()
		job := queue.Job{Class: "stock", Key: "k", Type: "stock:reserve", Payload: []byte(payload)}
		for { // until the worker has made the class
			receipt, err := client.Submit(t.Context(), job)
			if queue.ReasonOf(err) == queue.ReasonUnknownClass {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			e, err := client.Await(t.Context(), receipt.Ref)
			if err != nil {
				t.Fatal(err)
			}
			return e
		}
	}
	if e := submit(`{"item":"tea","amount":7}`); !strings.HasPrefix(string(e.Result), `{"number":"tea-7-`) || warehouse.calls != 2 {
		t.Errorf("%+v after %d calls; want tea after 2", e, warehouse.calls)
	}
	if e := submit(`{}`); e.State != queue.Kept || e.Error != "no order" {
		t.Errorf("%+v; want it dead", e)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
