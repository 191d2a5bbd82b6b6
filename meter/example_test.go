package meter_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/meter"
)

// hourly is slow enough for examples to be the same each time.
func hourly(capacity int64) meter.Limit {
	return meter.Limit{Capacity: capacity, Count: 1, Period: time.Hour}
}

func orPanic[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func ExampleRedis() {
	client := redis.NewClient(&redis.Options{Addr: "localhost:6379"}) // connects with the first call
	defer client.Close()                                              //nolint:errcheck // an example
	perUser, err := meter.New(meter.Redis(client), meter.Limit{Capacity: 20, Count: 10, Period: time.Second}, meter.Options{})
	fmt.Println(perUser.Limit(), err)
	// Output: gcra 10/1s capacity 20 <nil>
}

func ExampleMemory() {
	m := orPanic(meter.New(meter.Memory(), hourly(2), meter.Options{}))
	for range 3 {
		d := orPanic(m.Check(context.Background(), "user:42", 1))
		fmt.Println(d.Conform, d.Remaining)
	}
	// Output:
	// true 1
	// true 0
	// false 0
}

func ExampleMemoryOf() {
	m := orPanic(meter.New(meter.MemoryOf(1), hourly(2), meter.Options{}))
	orPanic(m.Check(context.Background(), "user:1", 1))
	_, err := m.Check(context.Background(), "user:2", 1)
	fmt.Println(errors.Is(err, meter.ErrFull))
	// Output: true
}

func ExampleNew() {
	_, err := meter.New(meter.Memory(), meter.Limit{Capacity: 0, Count: 1, Period: time.Second}, meter.Options{})
	fmt.Println(err)
	// Output: meter: invalid: limit gcra 1/1s capacity 0: capacity 0 must be above zero
}

func ExampleMeter_Check() {
	m := orPanic(meter.New(meter.Memory(), hourly(5), meter.Options{}))
	d := orPanic(m.Check(context.Background(), "user:42", 6))
	fmt.Println(d.Conform, d.Never)
	d = orPanic(m.Check(context.Background(), "user:42", 5))
	fmt.Println(d.Conform, d.Remaining)
	// Output:
	// false true
	// true 0
}

func ExampleMeter_Peek() {
	m := orPanic(meter.New(meter.Memory(), hourly(5), meter.Options{}))
	d := orPanic(m.Peek(context.Background(), "user:42", 5))
	fmt.Println(d.Conform, d.Remaining)
	// Output: true 5
}

func ExampleMeter_Take() {
	m := orPanic(meter.New(meter.Memory(), hourly(5), meter.Options{}))
	n, d, err := m.Take(context.Background(), "user:42", 8)
	fmt.Println(n, d.Conform, err)
	// Output: 5 true <nil>
}

func ExampleMeter_Refund() {
	m := orPanic(meter.New(meter.Memory(), meter.Limit{Algorithm: meter.SlidingLog, Count: 5, Period: time.Hour}, meter.Options{}))
	orPanic(m.Check(context.Background(), "user:42", 5))
	d := orPanic(m.Refund(context.Background(), "user:42", 2))
	fmt.Println(d.Remaining)
	// Output: 2
}

func ExampleMeter_Reset() {
	m := orPanic(meter.New(meter.Memory(), hourly(5), meter.Options{}))
	orPanic(m.Check(context.Background(), "user:42", 5))
	err := m.Reset(context.Background(), "user:42")
	fmt.Println(orPanic(m.Check(context.Background(), "user:42", 0)).Remaining, err)
	// Output: 5 <nil>
}

func ExampleMeter_Limit() {
	m := orPanic(meter.New(meter.Memory(), meter.Limit{Algorithm: meter.FixedWindow, Count: 5, Period: time.Hour}, meter.Options{}))
	fmt.Println(m.Limit())
	// Output: fixed-window 5/1h0m0s
}

func ExampleMeter_Wait() {
	m := orPanic(meter.New(meter.Memory(), hourly(1), meter.Options{}))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	fmt.Println(m.Wait(ctx, "user:42", 1))
	_, late := errors.AsType[*meter.RefusedError](m.Wait(ctx, "user:42", 1)) // at once: an hour is too long
	fmt.Println(late)
	// Output:
	// <nil>
	// true
}

func ExampleMeter_Reserve() {
	tokens := orPanic(meter.New(meter.Memory(), hourly(10_000), meter.Options{}))
	r := orPanic(tokens.Reserve(context.Background(), "tenant:7", 4000, 0)) // the most the answer may need
	if r.Decision.Conform {
		_ = r.Settle(context.Background(), 1250) // what it needed
	}
	fmt.Println(orPanic(tokens.Check(context.Background(), "tenant:7", 0)).Remaining)
	// Output: 8750
}

func ExampleReservation_Settle() {
	m := orPanic(meter.New(meter.Memory(), hourly(10), meter.Options{}))
	r := orPanic(m.Reserve(context.Background(), "tenant:7", 4, 0))
	fmt.Println(r.Settle(context.Background(), 6), orPanic(m.Check(context.Background(), "tenant:7", 0)).Remaining)
	// Output: <nil> 4
}

func ExampleReservation_Cancel() {
	m := orPanic(meter.New(meter.Memory(), hourly(10), meter.Options{}))
	r := orPanic(m.Reserve(context.Background(), "tenant:7", 4, 0))
	fmt.Println(r.Cancel(context.Background()), orPanic(m.Check(context.Background(), "tenant:7", 0)).Remaining)
	// Output: <nil> 10
}

func ExampleCheckAll() {
	store := meter.Memory()
	perUser := orPanic(meter.New(store, hourly(2), meter.Options{}))
	overall := orPanic(meter.New(store, hourly(100), meter.Options{}))
	for range 3 {
		d := orPanic(meter.CheckAll(context.Background(),
			meter.Claim{Meter: perUser, Key: "user:{7}", Cost: 1},
			meter.Claim{Meter: overall, Key: "all:{7}", Cost: 1}))
		fmt.Println(d.Conform, d.Refused, d.Each[1].Remaining)
	}
	// Output:
	// true [] 99
	// true [] 98
	// false [0] 98
}

func ExampleMeter_OrEnqueue() {
	m := orPanic(meter.New(meter.Memory(), hourly(1), meter.Options{}))
	for range 2 {
		d := orPanic(m.OrEnqueue(context.Background(), "user:42", 1, func(_ context.Context, due time.Time) error {
			fmt.Println("into the line, due in", time.Until(due).Round(time.Minute))
			return nil
		}))
		fmt.Println(d.Conform)
	}
	// Output:
	// true
	// into the line, due in 1h0m0s
	// false
}

func ExampleThrottle() {
	fmt.Println(meter.Throttle(context.Background(), meter.Memory(), "user:42", 15, 30, 60, 1))
	// Output: [0 16 15 -1 2] <nil>
}

func ExampleFunnel() {
	d, err := meter.Funnel(context.Background(), meter.Memory(), "laoqian", "reply", 15, 0.5)
	fmt.Println(d.Conform, d.Remaining, err)
	// Output: true 14 <nil>
}

func ExampleMeter_Counts() {
	m := orPanic(meter.New(meter.Memory(), hourly(1), meter.Options{Shadow: true}))
	orPanic(m.Check(context.Background(), "user:42", 1))
	orPanic(m.Check(context.Background(), "user:42", 1))
	c := m.Counts()
	fmt.Println(c.Conformed, c.Refused, c.Shadow)
	// Output: 1 1 1
}

func ExampleLimit_Validate() {
	fmt.Println(meter.Limit{Capacity: 200_000, Count: 200_000, Period: 24 * time.Hour}.Validate())
	// Output: <nil>
}

func ExamplePenalty() {
	l := hourly(1)
	l.Penalty = meter.Penalty{Refusals: 2, Within: time.Minute, For: 24 * time.Hour}
	m := orPanic(meter.New(meter.Memory(), l, meter.Options{}))
	for range 3 {
		fmt.Println(orPanic(m.Check(context.Background(), "user:42", 1)).RetryAfter.Round(time.Hour))
	}
	// Output:
	// 0s
	// 1h0m0s
	// 24h0m0s
}

func ExampleOptions() {
	_, err := meter.New(meter.Memory(), hourly(100), meter.Options{DenialCache: 10_000, Away: meter.AwayLocal, Share: 4})
	fmt.Println(err)
	// Output: <nil>
}

func ExampleRefusedError() {
	m := orPanic(meter.New(meter.Memory(), hourly(1), meter.Options{}))
	fmt.Println(m.Wait(context.Background(), "user:42", 2))
	// Output: meter: "user:42": the cost is above the limit of 1 and can never conform
}
