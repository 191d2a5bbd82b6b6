package scheduler_test

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// A worker of one's own: a handler, and the classes that it is for.
func Example() {
	server := miniredis.NewMiniRedis() // a real program has the address of a real Redis
	if err := server.Start(); err != nil {
		panic(err)
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer rdb.Close()                                     //nolint:errcheck // the program ends
	ctx, stop := context.WithCancel(context.Background()) // or signal.NotifyContext
	defer stop()

	client, err := queue.Open(ctx, rdb, queue.Options{})
	if err != nil {
		panic(err)
	}
	class := queue.NewClass("mail", 100, queue.Rate{Limit: 50, Period: time.Second})
	if _, err := client.Classes().Put(ctx, class); err != nil {
		panic(err)
	}

	send := asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		fmt.Printf("%s to %s: %s\n", task.Type(), task.Headers()["Spout-Key"], task.Payload())
		if string(task.Payload()) == `"good bye"` {
			stop() // what runs may finish
		}
		return nil
	})
	worker, err := scheduler.New(client, send, scheduler.Options{Classes: []string{"mail"}})
	if err != nil {
		panic(err)
	}

	for _, text := range []string{`"hello"`, `"how are you"`, `"good bye"`} {
		job := queue.Job{Class: "mail", Key: "ann", Type: "mail:send", Payload: []byte(text)}
		if _, err := client.Submit(ctx, job); err != nil {
			panic(err)
		}
	}
	if err := worker.Run(ctx); err != nil {
		panic(err)
	}
	books, err := client.Books(context.Background(), "mail")
	fmt.Println("done:", books.Done, err)
	// Output:
	// mail:send to ann: "hello"
	// mail:send to ann: "how are you"
	// mail:send to ann: "good bye"
	// done: 3 <nil>
}
