package meter_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spout-queue/spout/meter"
)

func ExampleNewCollector() {
	perUser := orPanic(meter.New(meter.Memory(), hourly(1), meter.Options{}))
	reg := prometheus.NewRegistry() // the program's own
	reg.MustRegister(orPanic(meter.NewCollector(map[string]*meter.Meter{"per-user": perUser})))
	orPanic(perUser.Check(context.Background(), "user:42", 1))
	orPanic(perUser.Check(context.Background(), "user:42", 1))
	for _, family := range orPanic(reg.Gather()) {
		if strings.HasSuffix(family.GetName(), "decisions_total") {
			for _, m := range family.GetMetric() {
				fmt.Println(m.GetLabel()[0].GetValue(), m.GetCounter().GetValue())
			}
		}
	}
	// Output:
	// conform 1
	// refuse 1
}

func ExampleClaim() {
	bytes := orPanic(meter.New(meter.Memory(), hourly(1000), meter.Options{}))
	d := orPanic(meter.CheckAll(context.Background(), meter.Claim{Meter: bytes, Key: "tenant:7", Cost: 400}))
	fmt.Println(d.Conform, d.Each[0].Remaining)
	// Output: true 600
}

func ExampleCounts() {
	m := orPanic(meter.New(meter.Memory(), hourly(1), meter.Options{}))
	orPanic(m.Check(context.Background(), "user:42", 2))
	fmt.Printf("%+v\n", m.Counts())
	// Output: {Conformed:0 Refused:1 Never:1 Shadow:0 Cached:0 Leased:0 AwayClosed:0 AwayOpen:0 AwayLocal:0}
}

func ExampleLimit_String() {
	fmt.Println(meter.Limit{Capacity: 20, Count: 10, Period: time.Second})
	fmt.Println(meter.Limit{Algorithm: meter.SlidingLog, Count: 10, Period: time.Minute})
	// Output:
	// gcra 10/1s capacity 20
	// sliding-window-log 10/1m0s
}

func ExampleRefusedError_Error() {
	err := &meter.RefusedError{Key: "user:42", Decision: meter.Decision{Limit: 5, RetryAfter: 2 * time.Second}}
	fmt.Println(err)
	// Output: meter: "user:42": the cost does not conform in time; retry after 2s
}

func ExampleRefusedError_RetryAfter() {
	m := orPanic(meter.New(meter.Memory(), hourly(1), meter.Options{}))
	orPanic(m.Check(context.Background(), "user:42", 1))
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if refused, ok := errors.AsType[*meter.RefusedError](m.Wait(ctx, "user:42", 1)); ok {
		fmt.Println(refused.RetryAfter().Round(time.Minute))
	}
	// Output: 1h0m0s
}
