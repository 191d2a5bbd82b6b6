package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/handlers"
	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// A Transport knows no queue: join is how the two are put together.
func ExampleTransport() {
	join := func(client *queue.Client) handlers.Submitter {
		return handlers.Submitter{
			Submit: func(ctx context.Context, j handlers.Job) (string, error) {
				receipt, err := client.Submit(ctx, queue.Job{
					Class: j.Class, Key: j.Key, ID: j.ID, Type: j.Type, Payload: j.Payload, MaxWait: j.MaxWait,
				})
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

	through, stop := exampleQueue()
	defer stop()
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello, "+r.URL.Query().Get("name"))
	}))
	defer upstream.Close()

	client := &http.Client{Timeout: 10 * time.Second} // any that there is
	client.Transport = &handlers.Transport{Submitter: join(through), Class: "api"}

	resp, err := client.Get(upstream.URL + "?name=ann")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(resp.Body)
	fmt.Println(resp.Status, string(body), err)
	// Output:
	// 200 OK hello, ann <nil>
}

// exampleQueue has a class api and a worker that drains it, in this process.
func exampleQueue() (client *queue.Client, stop func()) {
	server := miniredis.NewMiniRedis() // a real program has the address of a real Redis
	must(server.Start())
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	ctx, cancel := context.WithCancel(context.Background())
	client, err := queue.Open(ctx, rdb, queue.Options{})
	must(err)
	class := queue.NewClass("api", 100, queue.Rate{Limit: 5, Period: time.Second})
	class.Retention = 10 * time.Second // a transport needs some
	class.HTTP.AllowPrivate = true     // the upstream is on loopback
	_, err = client.Classes().Put(ctx, class)
	must(err)

	call := handlers.NewHTTPCall(handlers.HTTPOptions{FreshUntil: scheduler.FreshUntil})
	mux := handlers.NewMux()
	mux.Handle(handlers.HTTPCallType, call)
	worker, err := scheduler.New(client, mux, scheduler.Options{})
	must(err)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	return client, func() {
		cancel()
		must(<-ended)
		call.CloseIdleConnections()
		must(rdb.Close())
		server.Close()
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
