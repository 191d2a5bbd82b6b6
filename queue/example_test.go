package queue_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

// openExample opens a client on a Redis of its own, with one class: 2 places per key, 20 jobs a second.
func openExample(ctx context.Context) (*queue.Client, func(), error) {
	server, err := miniredis.Run()
	if err != nil {
		return nil, nil, err
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), MaxRetries: -1, ContextTimeoutEnabled: true})
	end := func() {
		_ = rdb.Close()
		server.Close()
	}
	client, err := queue.Open(ctx, rdb, queue.Options{})
	if err == nil {
		_, err = client.Classes().Put(ctx, queue.NewClass("mail", 2, queue.Rate{Limit: 20, Period: time.Second}))
	}
	return client, end, err
}

func Example() {
	ctx := context.Background()
	client, end, err := openExample(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	for _, id := range []string{"welcome", "invoice", "reminder", "welcome"} {
		job := queue.Job{Class: "mail", Key: "tenant-7", ID: id, Payload: []byte(`{"url": "https://example.org"}`)}
		receipt, err := client.Submit(ctx, job)
		if full, ok := errors.AsType[*queue.FullError](err); ok {
			fmt.Println(id, "found no room:", full.Level, "of", full.Capacity)
		} else if err != nil {
			fmt.Println(err)
		} else {
			fmt.Println(id, receipt.Status, "at position", receipt.Position)
		}
	}
	// Output:
	// welcome admitted at position 1
	// invoice admitted at position 2
	// reminder found no room: 2 of 2
	// welcome duplicate at position 1
}

func ExampleClient_SubmitMany() {
	ctx := context.Background()
	client, end, err := openExample(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	jobs := []queue.Job{
		{Class: "mail", Key: "tenant-7", ID: "1", Payload: []byte(`null`)},
		{Class: "mail", Key: "tenant-8", ID: "2", Payload: []byte(`null`)},
		{Class: "fax", Key: "tenant-8", ID: "3", Payload: []byte(`null`)},
	}
	for i, result := range client.SubmitMany(ctx, jobs) {
		if result.Err != nil {
			fmt.Println(jobs[i].ID, queue.ReasonOf(result.Err))
			continue
		}
		fmt.Println(jobs[i].ID, result.Receipt.Status)
	}
	// Output:
	// 1 admitted
	// 2 admitted
	// 3 unknown_class
}

func ExampleClient_SubmitWait() {
	ctx := context.Background()
	client, end, err := openExample(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	job := func(id string) queue.Job {
		return queue.Job{Class: "mail", Key: "tenant-7", ID: id, Payload: []byte(`null`)}
	}
	client.SubmitMany(ctx, []queue.Job{job("1"), job("2")})
	time.AfterFunc(10*time.Millisecond, func() { // a worker drains the bucket
		for shard := range client.Shards() {
			_, _ = client.Outlet("worker", shard).Depart(ctx, queue.Ask{Want: 1})
		}
	})
	receipt, err := client.SubmitWait(ctx, job("3"))
	fmt.Println(receipt.Status, receipt.Level, err)
	// Output: admitted 2 <nil>
}

func ExampleClasses_Put() {
	ctx := context.Background()
	client, end, err := openExample(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	class := queue.NewClass("github-api", 500, queue.Rate{Limit: 30, Period: time.Minute})
	class.MaxWait = 10 * time.Minute
	class, err = client.Classes().Put(ctx, class)
	fmt.Println(class.Rate, class.MaxPayload, "version", class.Version, err)
	class.Capacity = 0
	_, err = client.Classes().Put(ctx, class)
	fmt.Println(err)
	// Output:
	// 30/60s 256KiB version 1 <nil>
	// queue: invalid: class "github-api": capacity 0 is not between 1 and 1000000
}

func ExampleParseRate() {
	rate, err := queue.ParseRate("30/60s")
	fmt.Println(rate, "is one every", rate.Interval(), err)
	_, err = queue.ParseRate("30 per minute")
	fmt.Println(err)
	// Output:
	// 30/60s is one every 2s <nil>
	// queue: invalid: rate "30 per minute": there is no /; write limit/period, such as 30/60s
}
