package queue_test

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// vector is one bucket's trace at exact server times. An event is an admission, a departure call or a change of rate.
type vector struct {
	Name       string `json:"name"`
	Capacity   int    `json:"capacity"`
	IntervalUS int64  `json:"interval_us"`
	CatchUpUS  int64  `json:"catch_up_us"`
	Events     []struct {
		AtUS             int64     `json:"at_us"`
		Admit            string    `json:"admit"`
		Position         int       `json:"position"`
		EstimatedStartUS int64     `json:"estimated_start_us"`
		Rejected         string    `json:"rejected"`
		RetryAfterUS     int64     `json:"retry_after_us"`
		Depart           *[]string `json:"depart"`
		WaitUS           *int64    `json:"wait_us"`
		SetIntervalUS    int64     `json:"set_interval_us"`
	} `json:"events"`
}

func readVectors(t *testing.T) []vector {
	t.Helper()
	b, err := os.ReadFile("testdata/outflow.json")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Vectors []vector `json:"vectors"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Vectors) == 0 {
		t.Fatal("testdata/outflow.json has no vectors")
	}
	return file.Vectors
}

func TestOutflowVectors(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		for _, v := range readVectors(t) {
			t.Run(v.Name, func(t *testing.T) {
				runVector(t, rdb, v)
			})
		}
	})
}

func interval(us int64) queue.Rate {
	return queue.Rate{Limit: 1, Period: time.Duration(us) * time.Microsecond}
}

func runVector(t *testing.T, rdb *redis.Client, v vector) {
	t.Helper()
	ctx := t.Context()
	client, err := queue.OpenWithClock(ctx, rdb, queue.Options{Prefix: v.Name, Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	class := queue.NewClass("vector", v.Capacity, interval(v.IntervalUS))
	class.CatchUp = time.Duration(v.CatchUpUS) * time.Microsecond
	put := func() {
		t.Helper()
		if _, err := client.Classes().Put(ctx, class); err != nil {
			t.Fatal(err)
		}
	}
	clock := func(us int64) {
		t.Helper()
		if err := client.SetClock(ctx, us); err != nil {
			t.Fatal(err)
		}
	}
	clock(0)
	put()
	outlet := client.Outlet("w", 0)
	for i, e := range v.Events {
		clock(e.AtUS)
		switch {
		case e.SetIntervalUS > 0:
			class.Rate = interval(e.SetIntervalUS)
			put()
		case e.Depart != nil:
			d, err := outlet.Depart(ctx, queue.Ask{Want: 100})
			if err != nil {
				t.Fatalf("event %d at %d: %v", i, e.AtUS, err)
			}
			got := []string{}
			for _, j := range d.Jobs {
				got = append(got, j.ID)
			}
			if diff := cmp.Diff(*e.Depart, got); diff != "" {
				t.Fatalf("event %d at %d: departures (-want +got):\n%s", i, e.AtUS, diff)
			}
			if e.WaitUS != nil && d.Wait.Microseconds() != *e.WaitUS {
				t.Fatalf("event %d at %d: wait %d us, want %d", i, e.AtUS, d.Wait.Microseconds(), *e.WaitUS)
			}
		default:
			r, err := client.Submit(ctx, queue.Job{Class: "vector", Key: "k", ID: e.Admit, Payload: []byte("null")})
			full, refused := errors.AsType[*queue.FullError](err)
			switch {
			case e.Rejected != "" && !refused:
				t.Fatalf("event %d at %d: %s: %+v, %v; want it rejected", i, e.AtUS, e.Admit, r, err)
			case e.Rejected != "":
				if string(full.Reason) != e.Rejected || full.RetryAfter.Microseconds() != e.RetryAfterUS {
					t.Fatalf("event %d at %d: %s: %s after %d us, want %s after %d", i, e.AtUS, e.Admit,
						full.Reason, full.RetryAfter.Microseconds(), e.Rejected, e.RetryAfterUS)
				}
			case err != nil:
				t.Fatalf("event %d at %d: %s: %v", i, e.AtUS, e.Admit, err)
			case r.Position != e.Position || r.EstimatedStart.UnixMicro() != e.EstimatedStartUS:
				t.Fatalf("event %d at %d: %s: position %d, start %d; want %d, %d", i, e.AtUS, e.Admit,
					r.Position, r.EstimatedStart.UnixMicro(), e.Position, e.EstimatedStartUS)
			}
		}
	}
}
