package queue_test

import (
	"context"
	"crypto/rand"
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

// inExample runs an example with a client of its own.
func inExample(run func(ctx context.Context, client *queue.Client) error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	client, end, err := openExample(ctx)
	if err == nil {
		err = run(ctx, client)
		end()
	}
	if err != nil {
		fmt.Println(err)
	}
}

// attemptOne is what a worker does, in short: it takes one job that may leave now and says what became of the attempt.
func attemptOne(ctx context.Context, client *queue.Client, verdict queue.Verdict) error {
	for shard := range client.Shards() {
		outlet := client.Outlet(rand.Text(), shard) // whoever has left is not heard again
		d, err := outlet.Depart(ctx, queue.Ask{Want: 1})
		if err != nil {
			return err
		}
		for _, job := range d.Jobs {
			verdict.Ref, verdict.Stamp, verdict.Class, verdict.Due = job.Ref, job.Stamp, job.Class, job.Due
			if _, err := outlet.Settle(ctx, []queue.Verdict{verdict}); err != nil {
				return err
			}
		}
		if _, err := outlet.Leave(ctx); err != nil {
			return err
		}
	}
	return nil
}

func mail(id string) queue.Job {
	return queue.Job{Class: "mail", Key: "tenant-7", ID: id, Payload: []byte(`null`)}
}

func ExampleClient_Cancel() {
	inExample(func(ctx context.Context, client *queue.Client) error {
		receipt, err := client.Submit(ctx, mail("invoice"))
		if err != nil {
			return err
		}
		state, err := client.Cancel(ctx, receipt.Ref)
		fmt.Println(state, err)
		_, err = client.Cancel(ctx, receipt.Ref)
		fmt.Println(errors.Is(err, queue.ErrNotFound))
		return nil
	})
	// Output:
	// cancelled <nil>
	// true
}

func ExampleClient_Await() {
	inExample(func(ctx context.Context, client *queue.Client) error {
		class := queue.NewClass("mail", 2, queue.Rate{Limit: 20, Period: time.Second})
		class.Retention = time.Hour // so that a late caller learns the end, too
		if _, err := client.Classes().Put(ctx, class); err != nil {
			return err
		}
		receipt, err := client.Submit(ctx, mail("invoice"))
		if err != nil {
			return err
		}
		go func() { _ = attemptOne(ctx, client, queue.Verdict{Outcome: queue.Done, Result: []byte("sent")}) }()
		ending, err := client.Await(ctx, receipt.Ref)
		fmt.Printf("%s: %s %v\n", ending.State, ending.Result, err)
		return nil
	})
	// Output: done: sent <nil>
}

func ExampleClient_Job() {
	inExample(func(ctx context.Context, client *queue.Client) error {
		receipt, err := client.Submit(ctx, mail("invoice"))
		if err != nil {
			return err
		}
		if err := attemptOne(ctx, client, queue.Verdict{Outcome: queue.Failed, Error: "503"}); err != nil {
			return err
		}
		job, err := client.Job(ctx, receipt.Ref)
		fmt.Println(job.State, job.History[0].Outcome, job.History[0].Error, err)
		return nil
	})
	// Output: later failed 503 <nil>
}

func ExampleDeadJobs_Retry() {
	inExample(func(ctx context.Context, client *queue.Client) error {
		receipt, err := client.Submit(ctx, mail("invoice"))
		if err != nil {
			return err
		}
		if err := attemptOne(ctx, client, queue.Verdict{Outcome: queue.Dead, Error: "no such tenant"}); err != nil {
			return err
		}
		dead, err := client.Dead().List(ctx, queue.DeadQuery{Class: "mail", Key: "tenant-7", Limit: 10})
		if err != nil {
			return err
		}
		fmt.Println(dead[0].ID, dead[0].Error)
		receipt, err = client.Dead().Retry(ctx, receipt.Ref)
		fmt.Println(receipt.Status, "at position", receipt.Position, err)
		return nil
	})
	// Output:
	// invoice no such tenant
	// admitted at position 1 <nil>
}

func ExampleDeadJobs_RetryAll() {
	inExample(func(ctx context.Context, client *queue.Client) error {
		for _, id := range []string{"1", "2", "3"} {
			if _, err := client.SubmitWait(ctx, mail(id)); err != nil {
				return err
			}
			<-time.After(60 * time.Millisecond) // 20 a second leave
			if err := attemptOne(ctx, client, queue.Verdict{Outcome: queue.Dead}); err != nil {
				return err
			}
		}
		done, err := client.Dead().RetryAll(ctx, "mail", "", time.Time{}, nil)
		fmt.Println(done.Retried, "retried", done.Left, "left for want of room", done.RetryAfter > 0, err)
		n, err := client.Dead().Purge(ctx, "mail", "tenant-7")
		fmt.Println(n, "purged", err)
		return nil
	})
	// Output:
	// 2 retried 1 left for want of room true <nil>
	// 1 purged <nil>
}

func ExampleClient_Audit() {
	inExample(func(ctx context.Context, client *queue.Client) error {
		client.SubmitMany(ctx, []queue.Job{mail("1"), mail("2")})
		if err := attemptOne(ctx, client, queue.Verdict{Outcome: queue.Done}); err != nil {
			return err
		}
		accounts, err := client.Audit(ctx, "mail")
		for _, a := range accounts {
			if a.Books.Admitted > 0 {
				fmt.Println(a.Books.Admitted, "admitted", a.Line, "in line", a.Books.Done, "done, off:", a.Off, err)
			}
		}
		return nil
	})
	// Output: 2 admitted 1 in line 1 done, off: [] <nil>
}

func ExampleBuckets_Hold() {
	inExample(func(ctx context.Context, client *queue.Client) error {
		now, err := client.Now(ctx)
		if err != nil {
			return err
		}
		// The called service said 429 and Retry-After: 120.
		if err := client.Buckets().Hold(ctx, "mail", "tenant-7", now.Add(2*time.Minute)); err != nil {
			return err
		}
		receipt, err := client.Submit(ctx, mail("1"))
		fmt.Println("leaves in", receipt.Wait.Round(time.Second), err)
		return client.Buckets().Unhold(ctx, "mail", "tenant-7")
	})
	// Output: leaves in 2m0s <nil>
}

func ExampleBuckets_Drain() {
	inExample(func(ctx context.Context, client *queue.Client) error {
		if err := client.Buckets().Drain(ctx, "mail", "tenant-7"); err != nil {
			return err
		}
		_, err := client.Submit(ctx, mail("1"))
		fmt.Println(err)
		if err := client.Buckets().Resume(ctx, "mail", "tenant-7"); err != nil {
			return err
		}
		receipt, err := client.Submit(ctx, mail("1"))
		fmt.Println(receipt.Status, err)
		return nil
	})
	// Output:
	// queue: draining: bucket mail/tenant-7, or its class, admits nothing until it is resumed
	// admitted <nil>
}

func ExampleClient_Reclaim() {
	inExample(func(ctx context.Context, client *queue.Client) error {
		receipt, err := client.Submit(ctx, mail("1"))
		if err != nil {
			return err
		}
		shard := int(receipt.Ref[0] - '0')
		if _, err := client.Outlet("lost", shard).Depart(ctx, queue.Ask{Want: 1}); err != nil {
			return err
		}
		beats, err := client.Beats(ctx, shard) // the same for so long that the worker must be dead
		if err != nil {
			return err
		}
		done, err := client.Reclaim(ctx, shard, "lost", beats["lost"])
		fmt.Println(done.Returned, "returned", err)
		return nil
	})
	// Output: 1 returned <nil>
}

func ExampleParseAck() {
	for _, text := range []string{"replicated(2)", "printed"} {
		ack, err := queue.ParseAck(text)
		fmt.Println(ack, err)
	}
	// Output:
	// replicated(2) <nil>
	//  queue: invalid: ack "printed" is none of memory, fsynced and replicated(n), n from 1 to 16
}
