package httpmeter_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/spout-queue/spout/meter"
	"github.com/spout-queue/spout/meter/httpmeter"
)

// hourly is slow enough for examples to be the same each time.
func hourly(capacity int64) *meter.Meter {
	m, err := meter.New(meter.Memory(), meter.Limit{Capacity: capacity, Count: capacity, Period: time.Hour}, meter.Options{})
	if err != nil {
		panic(err)
	}
	return m
}

// answers sends requests to a handler that does nothing behind the quotas.
func answers(o httpmeter.Options, n int, quotas ...httpmeter.Quota) []*httptest.ResponseRecorder {
	limit, err := httpmeter.Middleware(o, quotas...)
	if err != nil {
		panic(err)
	}
	service := limit(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	all := make([]*httptest.ResponseRecorder, n)
	for i := range all {
		all[i] = httptest.NewRecorder()
		service.ServeHTTP(all[i], httptest.NewRequest(http.MethodPost, "/", http.NoBody))
	}
	return all
}

func ExampleQuota() {
	size := httpmeter.Quota{
		Name: "bytes", Unit: "content-bytes", Meter: hourly(1000), Key: everybody,
		Cost: func(*http.Request) int64 { return 400 }, // such as r.ContentLength
	}
	for _, r := range answers(httpmeter.Options{}, 3, size) {
		fmt.Println(r.Code, r.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 200 "bytes";q=1000;qu="content-bytes";w=3600
	// 200 "bytes";q=1000;qu="content-bytes";w=3600
	// 429 "bytes";q=1000;qu="content-bytes";w=3600
}

func ExampleOptions() {
	o := httpmeter.Options{NoFields: true, XRateLimit: true}
	r := answers(o, 1, httpmeter.Quota{Meter: hourly(10), Key: everybody})[0]
	fmt.Printf("%s of %s, %q\n", r.Header().Get("X-Ratelimit-Remaining"), r.Header().Get("X-Ratelimit-Limit"), r.Header().Get("RateLimit"))
	// Output: 9 of 10, ""
}

func ExampleReport() {
	o := httpmeter.Options{Report: func(r *http.Request, p httpmeter.Report) {
		fmt.Println(r.Method, p.Quota, p.Decision.Conform, p.Decision.RetryAfter.Round(time.Hour), p.Err)
	}}
	answers(o, 2, httpmeter.Quota{Meter: hourly(1), Key: everybody})
	// Output: POST default false 1h0m0s <nil>
}

// held is the error of a request that would have to wait for longer than it may.
func held() error {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer upstream.Close()
	t := &httpmeter.Transport{Key: everybody}
	defer t.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, upstream.URL, http.NoBody)
		if err != nil {
			return err
		}
		resp, err := t.RoundTrip(req)
		if err != nil {
			return err
		}
		_ = resp.Body.Close()
	}
}

func ExampleHeldError() {
	if err, ok := errors.AsType[*httpmeter.HeldError](held()); ok {
		fmt.Println(err.Key, err.After.Round(time.Second))
	}
	// Output: everybody 1m0s
}

func ExampleHeldError_Error() {
	fmt.Println(&httpmeter.HeldError{Key: "api.example.com", After: time.Minute})
	// Output: httpmeter: the server has asked "api.example.com" to wait for another 1m0s, which is after the deadline
}

func ExampleHeldError_RetryAfter() {
	if err, ok := held().(interface{ RetryAfter() time.Duration }); ok {
		fmt.Println(err.RetryAfter().Round(time.Second))
	}
	// Output: 1m0s
}

func ExampleTransport_RoundTrip() {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	t := &httpmeter.Transport{Meter: hourly(1), Key: everybody}
	defer t.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for range 2 {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, upstream.URL, http.NoBody)
		if err != nil {
			panic(err)
		}
		resp, err := t.RoundTrip(req)
		if refused, ok := errors.AsType[*meter.RefusedError](err); ok {
			fmt.Println("not sent; retry after", refused.RetryAfter().Round(time.Hour))
			return
		}
		_ = resp.Body.Close()
		fmt.Println(resp.StatusCode)
	}
	// Output:
	// 200
	// not sent; retry after 1h0m0s
}

func ExampleTransport_CloseIdleConnections() {
	client := &http.Client{Transport: &httpmeter.Transport{Base: &http.Transport{}}}
	client.CloseIdleConnections() // reaches Base
	// Output:
}
