package httpmeter_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"time"

	"github.com/spout-queue/spout/meter"
	"github.com/spout-queue/spout/meter/httpmeter"
)

func ExampleMiddleware() {
	perUser, err := meter.New(meter.Memory(), meter.Limit{Capacity: 2, Count: 6, Period: time.Minute}, meter.Options{})
	if err != nil {
		panic(err)
	}
	limit, err := httpmeter.Middleware(httpmeter.Options{}, httpmeter.Quota{
		Name: "requests", Meter: perUser, Key: func(r *http.Request) string { return "user:" + r.Header.Get("X-User") },
	})
	if err != nil {
		panic(err)
	}
	service := limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))

	for range 3 {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("X-User", "42")
		w := httptest.NewRecorder()
		service.ServeHTTP(w, r)
		fmt.Println(w.Header().Get("RateLimit-Policy"), w.Header().Get("RateLimit"))
		fmt.Printf("Retry-After %q\n%d %s\n", w.Header().Get("Retry-After"), w.Code, w.Body)
	}
	// Output:
	// "requests";q=2;w=20 "requests";r=1;t=10
	// Retry-After ""
	// 200 hello
	// "requests";q=2;w=20 "requests";r=0;t=10
	// Retry-After ""
	// 200 hello
	// "requests";q=2;w=20 "requests";r=0;t=10
	// Retry-After "10"
	// 429 {"type":"https://iana.org/assignments/http-problem-types#quota-exceeded","title":"Request cannot be satisfied as assigned quota has been exceeded","status":429,"detail":"Try again in 10 s.","violated-policies":["requests"]}
}

func ExampleClientAddr() {
	key := httpmeter.ClientAddr(netip.MustParsePrefix("10.0.0.0/8")) // our load balancers

	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.RemoteAddr = "10.0.0.1:41234"
	r.Header.Add("X-Forwarded-For", "198.51.100.1") // what the client wrote
	r.Header.Add("X-Forwarded-For", "203.0.113.7")  // what the load balancer saw
	fmt.Println(key(r))
	// Output:
	// address:203.0.113.7
}

func ExampleTransport() {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "30")
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	defer upstream.Close()

	ours, err := meter.New(meter.Memory(), meter.Limit{Capacity: 10, Count: 30, Period: time.Minute}, meter.Options{})
	if err != nil {
		panic(err)
	}
	client := &http.Client{
		Transport: &httpmeter.Transport{Meter: ours, Key: func(*http.Request) string { return "upstream" }},
		Timeout:   10 * time.Second,
	}
	defer client.CloseIdleConnections()

	resp, err := client.Get(upstream.URL)
	if err != nil {
		panic(err)
	}
	_, _ = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close()
	fmt.Println("answered", resp.StatusCode)

	again, err := client.Get(upstream.URL) // would have to wait for longer than the Timeout: fails at once
	if err == nil {
		_ = again.Body.Close()
	}
	if held, ok := errors.AsType[*httpmeter.HeldError](err); ok {
		fmt.Println("not sent; retry after", held.RetryAfter().Round(time.Second))
	}
	// Output:
	// answered 429
	// not sent; retry after 30s
}

func ExampleTransport_Held() {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("RateLimit", `"burst";r=0;t=5`)
	}))
	defer upstream.Close()

	transport := &httpmeter.Transport{Key: func(*http.Request) string { return "upstream" }}
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, upstream.URL, nil)
	if err != nil {
		panic(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		panic(err)
	}
	_ = resp.Body.Close()
	fmt.Println(resp.StatusCode, transport.Held("upstream").Round(time.Second), transport.Held("elsewhere"))
	// Output:
	// 200 5s 0s
}
