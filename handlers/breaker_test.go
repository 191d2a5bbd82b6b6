package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spout-queue/spout/handlers"
)

// newBreakerBubble is newBubble without a time that departures are good for, and a service that is reached at once.
func newBreakerBubble() *bubble {
	b := newBubble()
	b.net.took = 0
	b.HTTPCall = handlers.NewTestHTTPCall(handlers.HTTPOptions{}, b.net.Dial, nil)
	return b
}

func (n *slowNet) set(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.err = err
}

func (n *slowNet) dialled() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.dials
}

// TestBreaker: five failures in a row open it; then nothing is dialled for 10 s and no attempt fails; then one tries.
func TestBreaker(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreakerBubble()
		defer b.finish()
		down := errors.New("connection refused")
		b.net.set(down)
		for i := range 5 {
			if _, err := b.attempt(t); !errors.Is(err, down) {
				t.Fatalf("call %d: %v", i, err)
			}
		}
		open := func(least, most time.Duration) {
			t.Helper()
			dials := b.net.dialled()
			_, err := b.attempt(t)
			d, class, ok := held(err)
			if !ok || class || d < least || d > most || b.net.dialled() != dials {
				t.Errorf("got %v and %d dials; want a hold of %v to %v and none", err, b.net.dialled()-dials, least, most)
			}
			if ok && !strings.Contains(err.Error(), "the breaker of a.example:80 is open: its last 5 calls from this worker failed") {
				t.Errorf("the reason is %v", err)
			}
		}
		open(10*time.Second, 11*time.Second)
		<-time.After(9 * time.Second)
		open(time.Second, 1100*time.Millisecond)
		<-time.After(time.Second)
		if _, err := b.attempt(t); !errors.Is(err, down) {
			t.Errorf("the one that tries: %v", err)
		}
		open(10*time.Second, 11*time.Second)
		<-time.After(10 * time.Second)
		b.net.set(nil)
		for range 3 {
			if _, err := b.attempt(t); err != nil {
				t.Errorf("once it is well again: %v", err)
			}
		}
		if n := b.Breakers(); n != 0 {
			t.Errorf("%d breakers for a host that is well", n)
		}
	})
}

// TestOneTries: of many that come when the breaker may be tried, one calls and the others wait for it.
func TestOneTries(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBreakerBubble()
		defer b.finish()
		b.net.set(errors.New("connection refused"))
		for range 5 {
			_, _ = b.attempt(t)
		}
		b.net.set(nil)
		b.net.took = 3 * time.Second
		<-time.After(10 * time.Second)
		dials := b.net.dialled()
		var wg sync.WaitGroup
		var mu sync.Mutex
		var done, heldBack int
		for range 10 {
			wg.Go(func() {
				_, err := b.attempt(t)
				d, _, ok := held(err)
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					done++
				case ok && d >= time.Second && d <= 1100*time.Millisecond:
					heldBack++
				}
			})
		}
		wg.Wait()
		if done != 1 || heldBack != 9 || b.net.dialled() != dials+1 {
			t.Errorf("%d done, %d held, %d dials; want 1, 9 and 1", done, heldBack, b.net.dialled()-dials)
		}
	})
}

// TestGiveBackIsNoTrial: an attempt that was given back says nothing about the host, and another may try at once.
func TestGiveBackIsNoTrial(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble() // departures are good for 25 ms, dials take 100 ms
		defer b.finish()
		b.net.set(errors.New("connection refused"))
		b.net.took = 0
		for range 5 {
			_, _ = b.attempt(t)
		}
		b.net.set(nil)
		b.net.took = 100 * time.Millisecond
		<-time.After(10 * time.Second)
		if _, err := b.attempt(t); !givesBack(err) {
			t.Fatalf("got %v, want a give-back", err)
		}
		<-time.After(time.Second)
		if _, err := b.attempt(t); err != nil {
			t.Errorf("with the connection there: %v", err)
		}
	})
}

// TestWhatOpensABreaker: only what says that the host is not well.
func TestWhatOpensABreaker(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer func(w http.ResponseWriter, r *http.Request)
		opens  bool
	}{
		"502":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(502) }, true},
		"503":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }, true},
		"504":       {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(504) }, true},
		"no answer": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
		"too slow":  {silence, true},
		"half an answer": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			_, _ = io.WriteString(w, "x")
		}, true},
		"200": {ok, false},
		"404": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(404) }, false},
		"429": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) }, false},
		"500": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(500) }, false},
		"503 with a time": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "7")
			w.WriteHeader(503)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBreakerBubble()
				defer b.finish()
				b.server.Handler = http.HandlerFunc(test.answer)
				for range 5 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Second)
					_, _ = b.attemptIn(ctx, t)
					cancel()
				}
				dials := b.net.dialled()
				b.CloseIdleConnections()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				_, err := b.attemptIn(ctx, t)
				if opened := b.net.dialled() == dials; opened != test.opens {
					t.Errorf("the sixth call: %v; open: %v, want %v", err, opened, test.opens)
				}
			})
		})
	}
}

// TestBreakersAreApart: of hosts, and from attempts that the worker ends; and they are bounded.
func TestBreakersAreApart(t *testing.T) {
	t.Parallel()
	h := handlers.NewTestHTTPCall(handlers.HTTPOptions{}, noNetwork, nil)
	call := func(ctx context.Context, host string) error {
		return h.ProcessTask(ctx, task(t, object{"url": "http://" + host + "/"}))
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	for range 9 {
		if err := call(gone, "c.example"); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		_ = call(t.Context(), "a.example")
	}
	for host, open := range map[string]bool{"a.example": true, "A.example:80": true, "a.example:81": false, "b.example": false, "c.example": false} {
		if _, _, ok := held(call(t.Context(), host)); ok != open {
			t.Errorf("%s: open %v, want %v", host, ok, open)
		}
	}
	for i := range 5000 {
		_ = call(t.Context(), fmt.Sprintf("h%d.example", i))
	}
	if n := h.Breakers(); n > 4096 {
		t.Errorf("%d breakers", n)
	}
}

// TestConnectTimeout: a dial that takes longer than it may is over, whatever the timeout of the attempt.
func TestConnectTimeout(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h := handlers.NewTestHTTPCall(handlers.HTTPOptions{ConnectTimeout: 2 * time.Second}, func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}, nil)
		began := time.Now()
		err := h.ProcessTask(t.Context(), task(t, object{"url": "http://a.example"}))
		if took := time.Since(began); err == nil || took != 2*time.Second || !strings.Contains(err.Error(), "no connection to a.example:80 within 2s") {
			t.Errorf("got %v after %v, want one that says so after 2s", err, took)
		}
	})
}
