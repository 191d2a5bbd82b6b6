package httpmeter_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spout-queue/spout/meter"
	"github.com/spout-queue/spout/meter/httpmeter"
)

// answer is a status and the fields of an answer, in pairs.
type answer struct {
	status int
	fields []string
}

func (a answer) header() http.Header {
	h := http.Header{}
	for i := 0; i < len(a.fields); i += 2 {
		h.Add(a.fields[i], a.fields[i+1])
	}
	return h
}

func answered(status int, fields ...string) answer { return answer{status, fields} }

func always(status int, fields ...string) func(int) answer {
	return func(int) answer { return answer{status, fields} }
}

// upstream is a RoundTripper that answers without a network, and notes when it was asked.
type upstream struct {
	answer func(n int) answer // n from 1

	mu sync.Mutex
	at []time.Time
}

func (u *upstream) RoundTrip(req *http.Request) (*http.Response, error) {
	u.mu.Lock()
	u.at = append(u.at, time.Now())
	n := len(u.at)
	u.mu.Unlock()
	if req.Body != nil {
		_, _ = io.Copy(io.Discard, req.Body)
		_ = req.Body.Close()
	}
	a := u.answer(n)
	return &http.Response{StatusCode: a.status, Header: a.header(), Body: http.NoBody}, nil
}

func (u *upstream) calls() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.at)
}

// body tells whether it was closed.
type body struct {
	io.Reader

	closed atomic.Int64
}

func (b *body) Close() error { b.closed.Add(1); return nil }

func newBody() *body { return &body{Reader: strings.NewReader("payload")} }

func request(ctx context.Context, t *testing.T, url string, b io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, b)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

// send sends one request and returns the status, how long it took, and the error.
func send(ctx context.Context, t *testing.T, rt http.RoundTripper, b io.Reader) (int, time.Duration, error) {
	t.Helper()
	began := time.Now()
	resp, err := do(t, rt, request(ctx, t, "http://api.example/x", b))
	return resp.StatusCode, time.Since(began), err
}

func TestWaitsForItsOwnLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := &upstream{answer: always(200)}
		rt := &httpmeter.Transport{Base: up, Meter: newMeter(t, meter.Limit{Capacity: 2, Count: 1, Period: time.Second}, meter.Options{})}
		var wg sync.WaitGroup
		for range 5 {
			wg.Go(func() {
				if status, _, err := send(t.Context(), t, rt, nil); status != 200 || err != nil {
					t.Errorf("%d, %v", status, err)
				}
			})
		}
		wg.Wait()
		for i, want := range []time.Duration{0, 0, time.Second, 2 * time.Second, 3 * time.Second} {
			if got := up.at[i].Sub(up.at[0]); got != want {
				t.Errorf("request %d after %v, want %v", i, got, want)
			}
		}
	})
}

func TestDeadlineTooNear(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := &upstream{answer: always(200)}
		m := newMeter(t, perTenSeconds(1), meter.Options{})
		rt := &httpmeter.Transport{Base: up, Meter: m, Key: everybody}
		if _, _, err := send(t.Context(), t, rt, nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 9*time.Second)
		defer cancel()
		b := newBody()
		_, took, err := send(ctx, t, rt, b)
		refused, ok := errors.AsType[*meter.RefusedError](err)
		if !ok || refused.RetryAfter() != 10*time.Second || took != 0 {
			t.Errorf("after %v: %v", took, err)
		}
		if b.closed.Load() != 1 || up.calls() != 1 {
			t.Errorf("body closed %d times, %d calls", b.closed.Load(), up.calls())
		}
		if d, err := m.Peek(t.Context(), "everybody", 1); err != nil || d.RetryAfter != 10*time.Second {
			t.Errorf("something was taken: %+v, %v", d, err)
		}
	})
}

func TestObeysRetryAfter(t *testing.T) {
	t.Parallel()
	for what, c := range map[string]struct {
		fields []string
		want   time.Duration
	}{
		"seconds": {[]string{"Retry-After", "7"}, 7 * time.Second},
		"a date, by the server's clock": {
			[]string{"Retry-After", "Sun, 06 Nov 1994 08:49:44 GMT", "Date", "Sun, 06 Nov 1994 08:49:37 GMT"}, 7 * time.Second,
		},
		"a limit used up":     {[]string{"RateLimit", `"a";r=3;t=60, "b";r=0;t=7`}, 7 * time.Second},
		"X-RateLimit":         {[]string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "7"}, 7 * time.Second},
		"no longer than told": {[]string{"Retry-After", "99999"}, 20 * time.Minute},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				up := &upstream{answer: func(n int) answer {
					if n == 1 {
						return answered(429, c.fields...)
					}
					return answered(200)
				}}
				var held time.Duration
				rt := &httpmeter.Transport{Base: up, MaxHold: 20 * time.Minute, OnHold: func(_ string, after time.Duration) { held = after }}
				b := newBody()
				if status, took, err := send(t.Context(), t, rt, b); status != 429 || took != 0 || err != nil {
					t.Fatalf("%d after %v, %v: the answer is the caller's, as it is", status, took, err)
				}
				if up.calls() != 1 || b.closed.Load() != 1 {
					t.Errorf("%d calls, body closed %d times", up.calls(), b.closed.Load())
				}
				if got := rt.Held("api.example"); got != c.want || held != c.want {
					t.Errorf("held for %v, reported %v, want %v", got, held, c.want)
				}
				if status, took, err := send(t.Context(), t, rt, nil); status != 200 || took != c.want || err != nil {
					t.Errorf("%d after %v, %v, want %v", status, took, err, c.want)
				}
			})
		})
	}
}

func TestHeldAndTheDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := &upstream{answer: always(503, "Retry-After", "60")}
		m := newMeter(t, perTenSeconds(5), meter.Options{})
		rt := &httpmeter.Transport{Base: up, Meter: m, Key: everybody}
		_, _, _ = send(t.Context(), t, rt, nil)
		<-time.After(30 * time.Second)

		// http.Client hands its Timeout on as a deadline.
		client := &http.Client{Transport: rt, Timeout: 10 * time.Second}
		b := newBody()
		began := time.Now()
		resp, err := client.Do(request(t.Context(), t, "http://api.example/", b))
		if err == nil {
			_ = resp.Body.Close()
		}
		held, ok := errors.AsType[*httpmeter.HeldError](err)
		if !ok || held.RetryAfter() != 30*time.Second || held.Key != "everybody" || time.Since(began) != 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
		if b.closed.Load() == 0 || up.calls() != 1 {
			t.Errorf("body closed %d times, %d calls", b.closed.Load(), up.calls())
		}
		if d, err := m.Peek(t.Context(), "everybody", 5); err != nil || !d.Conform {
			t.Errorf("something was taken: %+v, %v", d, err)
		}

		// One whose context ends while it waits.
		ctx, cancel := context.WithCancelCause(t.Context())
		gone := errors.New("gone")
		time.AfterFunc(5*time.Second, func() { cancel(gone) })
		if _, took, err := send(ctx, t, rt, newBody()); !errors.Is(err, gone) || took != 5*time.Second {
			t.Errorf("after %v: %v", took, err)
		}
		if _, _, err := send(ctx, t, rt, newBody()); !errors.Is(err, gone) || up.calls() != 1 {
			t.Errorf("%v", err)
		}

		// Another key is none of its business.
		other := &httpmeter.Transport{Base: up}
		if _, took, err := send(t.Context(), t, other, nil); took != 0 || err != nil {
			t.Errorf("after %v: %v", took, err)
		}
	})
}

// Those who wait for the meter when the server closes the key do not leave together when it opens, but at the rate.
func TestHoldWhileWaiting(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		up := &upstream{answer: func(n int) answer {
			if n == 3 {
				return answered(429, "Retry-After", "60")
			}
			return answered(200)
		}}
		rt := &httpmeter.Transport{Base: up, Meter: newMeter(t, meter.Limit{Capacity: 1, Count: 1, Period: time.Second}, meter.Options{})}
		var wg sync.WaitGroup
		for range 10 {
			wg.Go(func() { _, _, _ = send(t.Context(), t, rt, nil) })
		}
		wg.Wait()
		for i, at := range up.at[1:] {
			gap, least := at.Sub(up.at[i]), time.Second
			if i == 2 { // between the third and the fourth
				least = time.Minute
			}
			if gap < least || gap > least+time.Second {
				t.Errorf("request %d came %v after the one before, want %v", i+1, gap, least)
			}
		}
	})
}

func TestDefaultKey(t *testing.T) {
	t.Parallel()
	rt := &httpmeter.Transport{Base: &upstream{answer: always(429, "Retry-After", "60")}}
	for url, key := range map[string]string{
		"https://API.example:443/a":  "api.example",
		"http://b.example:80/":       "b.example",
		"http://c.example:443/":      "c.example:443",
		"https://[2001:db8::1]:8/?q": "[2001:db8::1]:8",
	} {
		if _, err := do(t, rt, request(t.Context(), t, url, nil)); err != nil {
			t.Fatal(err)
		}
		if rt.Held(key) == 0 {
			t.Errorf("%s did not hold %s", url, key)
		}
	}
}

// Keys that are no longer held are forgotten.
func TestHoldsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rt := &httpmeter.Transport{Base: &upstream{answer: always(429, "Retry-After", "1")}, Key: func(r *http.Request) string { return r.URL.Path }}
		most := 0
		for i := range 5000 {
			if _, err := do(t, rt, request(t.Context(), t, fmt.Sprintf("http://api.example/%d", i), nil)); err != nil {
				t.Fatal(err)
			}
			most = max(most, rt.HeldKeys())
			<-time.After(100 * time.Millisecond)
		}
		if most > 100 {
			t.Errorf("remembered %d keys when 10 were held", most)
		}
	})
}

// The two sides together, over sockets: the client is told once and is never refused.
func TestTransportMeetsMiddleware(t *testing.T) {
	t.Parallel()
	h, reached := limited(t, httpmeter.Options{}, httpmeter.Quota{
		Meter: newMeter(t, meter.Limit{Capacity: 3, Count: 3, Period: time.Second}, meter.Options{}), Key: everybody,
	})
	server := httptest.NewServer(h)
	defer server.Close()
	rt := &httpmeter.Transport{Base: server.Client().Transport}
	defer rt.CloseIdleConnections()
	began := time.Now()
	for i := range 5 {
		resp, err := do(t, rt, request(t.Context(), t, server.URL, strings.NewReader("x")))
		if err != nil {
			t.Fatal(err)
		}
		if resp.StatusCode != http.StatusOK {
			t.Errorf("request %d: %d", i, resp.StatusCode)
		}
	}
	if took := time.Since(began); reached() != 5 || took < time.Second {
		t.Errorf("%d requests in %v", reached(), took)
	}
}

// A failing service is the base's own error, and a canceled wait leaves nothing behind.
func TestBaseFails(t *testing.T) {
	t.Parallel()
	failed := errors.New("no route")
	rt := &httpmeter.Transport{Base: failing{failed}}
	if _, _, err := send(t.Context(), t, rt, newBody()); !errors.Is(err, failed) {
		t.Error(err)
	}
	rt.CloseIdleConnections() // a base without is fine
}

type failing struct{ err error }

func (f failing) RoundTrip(req *http.Request) (*http.Response, error) {
	_ = req.Body.Close()
	return nil, f.err
}

func TestTransportIsSafeForConcurrentUse(t *testing.T) {
	t.Parallel()
	up := &upstream{answer: func(n int) answer {
		if n%10 == 0 {
			return answered(429, "X-RateLimit-Reset", "0.005")
		}
		return answered(200, "RateLimit", `"a";r=1;t=1`)
	}}
	rt := &httpmeter.Transport{Base: up, Meter: newMeter(t, meter.Limit{Capacity: 100, Count: 10_000, Period: time.Second}, meter.Options{})}
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 50 {
				if _, _, err := send(t.Context(), t, rt, newBody()); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if up.calls() != 800 {
		t.Errorf("%d calls", up.calls())
	}
}
