package client_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/cmd/admin/client"
	"github.com/spout-queue/spout/queue"
)

// openExample serves the API of an installation with one class: 2 places per key, 20 jobs a second. Nobody drains it.
func openExample(ctx context.Context) (*client.Client, func(), error) {
	store, err := miniredis.Run()
	if err != nil {
		return nil, nil, err
	}
	rdb := redis.NewClient(&redis.Options{Addr: store.Addr(), MaxRetries: -1})
	direct, err := queue.Open(ctx, rdb, queue.Options{})
	if err == nil {
		_, err = direct.Classes().Put(ctx, queue.NewClass("mail", 2, queue.Rate{Limit: 20, Period: time.Second}))
	}
	if err != nil {
		return nil, nil, err
	}
	server := httptest.NewServer(handlerOf(direct))
	end := func() {
		server.Close()
		_ = rdb.Close()
		store.Close()
	}
	c, err := client.New(server.URL+"/spout", client.Options{})
	return c, end, err
}

// example runs something on it.
func example(do func(context.Context, *client.Client) error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, end, err := openExample(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer end()
	if err := do(ctx, c); err != nil {
		fmt.Println(err)
	}
}

func submit(ctx context.Context, c *client.Client, id string) (queue.Receipt, error) {
	return c.Submit(ctx, queue.Job{Class: "mail", Key: "tenant-7", ID: id, Payload: []byte(`{"to":"ann"}`)})
}

func ExampleNew() {
	_, err := client.New("http://spout.example.com", client.Options{Token: "a-token"})
	fmt.Println(err)
	_, err = client.New("https://spout.example.com", client.Options{Token: "a-token"})
	fmt.Println(err)
	// Output:
	// the token would go to spout.example.com in the clear: use https, or allow plain http where the way there is safe
	// <nil>
}

func ExampleClient_Submit() {
	example(func(ctx context.Context, c *client.Client) error {
		for _, id := range []string{"welcome", "invoice", "reminder", "welcome"} {
			receipt, err := submit(ctx, c, id)
			if full, ok := errors.AsType[*queue.FullError](err); ok {
				fmt.Println(id, "found no room:", full.Level, "of", full.Capacity)
				continue
			} else if err != nil {
				return err
			}
			fmt.Println(id, receipt.Status, "at position", receipt.Position)
		}
		return nil
	})
	// Output:
	// welcome admitted at position 1
	// invoice admitted at position 2
	// reminder found no room: 2 of 2
	// welcome duplicate at position 1
}

func ExampleClient_SubmitMany() {
	example(func(ctx context.Context, c *client.Client) error {
		results := c.SubmitMany(ctx, []queue.Job{
			{Class: "mail", Key: "tenant-7", Payload: []byte("1")},
			{Class: "sms", Key: "tenant-7", Payload: []byte("1")},
		})
		for _, r := range results {
			fmt.Println(r.Receipt.Position, errors.Is(r.Err, queue.ErrUnknownClass))
		}
		return nil
	})
	// Output:
	// 1 false
	// 0 true
}

func ExampleClient_SubmitWait() {
	example(func(ctx context.Context, c *client.Client) error {
		if _, err := c.Drain(ctx, "mail", "tenant-7"); err != nil {
			return err
		}
		_, err := c.SubmitWait(ctx, queue.Job{Class: "mail", Key: "tenant-7", Payload: []byte("1")})
		fmt.Println(errors.Is(err, queue.ErrDraining)) // to wait would not help
		return nil
	})
	// Output: true
}

func ExampleClient_Await() {
	example(func(ctx context.Context, c *client.Client) error {
		receipt, err := submit(ctx, c, "welcome")
		if err != nil {
			return err
		}
		soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
		defer cancel()
		_, err = c.Await(soon, receipt.Ref)
		fmt.Println(errors.Is(err, context.DeadlineExceeded)) // nobody drains the bucket
		return nil
	})
	// Output: true
}

func ExampleClient_Jobs() {
	example(func(ctx context.Context, c *client.Client) error {
		for _, id := range []string{"welcome", "invoice"} {
			if _, err := submit(ctx, c, id); err != nil {
				return err
			}
		}
		for job, err := range c.Jobs(ctx, queue.JobQuery{Class: "mail", Key: "tenant-7"}) {
			if err != nil {
				return err
			}
			fmt.Println(job.ID, job.State, job.Position)
		}
		return nil
	})
	// Output:
	// welcome line 1
	// invoice line 2
}

func ExampleClient_Cancel() {
	example(func(ctx context.Context, c *client.Client) error {
		receipt, err := submit(ctx, c, "welcome")
		if err != nil {
			return err
		}
		state, err := c.Cancel(ctx, receipt.Ref)
		fmt.Println(state, err)
		_, err = c.Job(ctx, receipt.Ref)
		fmt.Println(errors.Is(err, queue.ErrNotFound))
		return nil
	})
	// Output:
	// cancelled <nil>
	// true
}

func ExampleClient_PutClassIf() {
	example(func(ctx context.Context, c *client.Client) error {
		class, err := c.Class(ctx, "mail")
		if err != nil {
			return err
		}
		seen := class.Version
		class.Capacity = 500
		plan, err := c.Diff(ctx, class.Class)
		fmt.Println(plan.Change, plan.Fields, err)
		stored, err := c.PutClassIf(ctx, class.Class, seen)
		fmt.Println("version", stored.Version, err)
		_, err = c.PutClassIf(ctx, class.Class, seen)
		fmt.Println(errors.Is(err, queue.ErrConflict)) // somebody has changed it since
		return nil
	})
	// Output:
	// changed [{capacity 2 500}] <nil>
	// version 2 <nil>
	// true
}

func ExampleClient_RemoveClass() {
	example(func(ctx context.Context, c *client.Client) error {
		if _, err := submit(ctx, c, "welcome"); err != nil {
			return err
		}
		_, _, err := c.RemoveClass(ctx, "mail", false)
		if busy, ok := errors.AsType[*queue.BusyError](err); ok {
			fmt.Println(busy.Waiting, "wait")
		}
		waiting, dead, err := c.RemoveClass(ctx, "mail", true)
		fmt.Println(waiting, dead, err)
		return nil
	})
	// Output:
	// 1 wait
	// 1 0 <nil>
}

func ExampleClient_Hold() {
	example(func(ctx context.Context, c *client.Client) error {
		until := time.Date(2150, 1, 1, 0, 0, 0, 0, time.UTC)
		for range 2 {
			changed, err := c.Hold(ctx, "mail", "tenant-7", until)
			fmt.Println("changed something:", changed, err)
		}
		bucket, err := c.Bucket(ctx, "mail", "tenant-7")
		fmt.Println(bucket.Hold.Format(time.DateOnly), bucket.HoldReason, err)
		return err
	})
	// Output:
	// changed something: true <nil>
	// changed something: false <nil>
	// 2150-01-01 an operator <nil>
}

func ExampleClient_Pause() {
	example(func(ctx context.Context, c *client.Client) error {
		if _, err := c.Pause(ctx, "mail", ""); err != nil { // all buckets of the class
			return err
		}
		bucket, err := c.Bucket(ctx, "mail", "tenant-7")
		fmt.Println(bucket.Paused, err)
		_, err = c.Resume(ctx, "mail", "")
		return err
	})
	// Output: true <nil>
}

func ExampleClient_Purge() {
	example(func(ctx context.Context, c *client.Client) error {
		if _, err := submit(ctx, c, "welcome"); err != nil {
			return err
		}
		would, err := c.WouldPurge(ctx, "mail", "tenant-7")
		fmt.Println(would, err)
		n, err := c.Purge(ctx, "mail", "tenant-7")
		fmt.Println(n, err)
		return nil
	})
	// Output:
	// 1 <nil>
	// 1 <nil>
}

func ExampleClient_Buckets() {
	example(func(ctx context.Context, c *client.Client) error {
		if _, err := submit(ctx, c, "welcome"); err != nil {
			return err
		}
		for bucket, err := range c.Buckets(ctx, queue.BucketQuery{Class: "mail", Prefix: "tenant-"}) {
			if err != nil {
				return err
			}
			fmt.Println(bucket.Name(), bucket.Level, "of", bucket.Capacity)
		}
		return nil
	})
	// Output: mail/tenant-7 1 of 2
}

// Dead jobs go round again as long as there is room for them.
func ExampleClient_RetryDead() {
	example(func(ctx context.Context, c *client.Client) error {
		var before time.Time
		for {
			pass, err := c.RetryDead(ctx, "mail", "", before)
			if err != nil {
				return err
			}
			if before = pass.Before; !pass.More && pass.Left == 0 {
				fmt.Println("none is left")
				return nil
			}
			select {
			case <-time.After(pass.RetryAfter):
			case <-ctx.Done():
				return ctx.Err()
			}
		}
	})
	// Output: none is left
}

func ExampleClient_Changes() {
	example(func(ctx context.Context, c *client.Client) error {
		if _, err := c.Pause(ctx, "mail", "tenant-7"); err != nil {
			return err
		}
		for change, err := range c.Changes(ctx, "mail", "tenant-7") {
			if err != nil {
				return err
			}
			fmt.Println(change.Who, change.Action, change.Target)
		}
		return nil
	})
	// Output: ann pause mail/tenant-7
}

func ExampleClient_Check() {
	example(func(ctx context.Context, c *client.Client) error {
		for range 2 {
			d, err := c.Check(ctx, client.Question{Key: "ann:login", Limit: "1/1h"})
			fmt.Println(d.Conform, err)
		}
		return nil
	})
	// Output:
	// true <nil>
	// false <nil>
}
