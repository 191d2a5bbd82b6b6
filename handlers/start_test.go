package handlers_test

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/handlers"
)

func TestColdCallIsGivenBackAndTheNextIsWarm(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble()
		defer b.finish()

		took, err := b.attempt(t)
		if !givesBack(err) || took != 25*time.Millisecond {
			t.Fatalf("cold: got %v after %v, want a give-back after 25ms", err, took)
		}
		const want = "POST http://a.example/x: connection to a.example:80 was not ready within 25ms; given back"
		if err.Error() != want || errors.Is(err, asynq.SkipRetry) {
			t.Errorf("cold: got %q, want %q, not permanent", err, want)
		}
		<-time.After(time.Second)
		for range 2 {
			if took, err := b.attempt(t); err != nil || took != 0 {
				t.Fatalf("warm: got %v after %v, want done at once", err, took)
			}
		}
		if b.net.dials != 1 || b.requests.Load() != 2 {
			t.Errorf("%d dials and %d requests, want 1 and 2", b.net.dials, b.requests.Load())
		}
		b.CloseIdleConnections()
		if _, err := b.attempt(t); !givesBack(err) {
			t.Errorf("cold again: got %v, want a give-back", err)
		}
	})
}

// TestConnectionInTime: a dial that ends within the departure is no give-back, up to
// its very end.
func TestConnectionInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble()
		defer b.finish()
		b.net.took = 24 * time.Millisecond
		if took, err := b.attempt(t); err != nil || took != 24*time.Millisecond {
			t.Errorf("got %v after %v, want done after 24ms", err, took)
		}
	})
}

// TestTimeRunsOutWithAConnectionAtHand: net/http chooses at random between a
// connection and the end of the context when it finds both. A request that has
// been given back must not go out either way.
func TestTimeRunsOutWithAConnectionAtHand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble()
		defer b.finish()
		b.net.took = 0
		stall := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GetConn: func(string) { <-time.After(time.Second) },
		})
		var done int64
		for i := range 60 {
			ctx := stall
			if i%2 == 0 {
				ctx = t.Context()
			}
			_, err := b.attemptIn(ctx, t)
			switch {
			case err == nil:
				done++
			case !givesBack(err):
				t.Fatal(err)
			}
			synctest.Wait()
			if got := b.requests.Load(); got != done {
				t.Fatalf("%d requests for %d calls that were done; the last one got %v", got, done, err)
			}
		}
		if done != 30 {
			t.Errorf("%d of 60 calls were done, want the 30 that did not stall", done)
		}
	})
}

// TestLateCallGoesOutWhenDiallingAheadDoesNotHelp: a service that closes unused
// connections sooner than the bucket departs is still called.
func TestLateCallGoesOutWhenDiallingAheadDoesNotHelp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble()
		defer b.finish()
		b.server.ReadHeaderTimeout = time.Second

		for range 3 {
			if _, err := b.attempt(t); !givesBack(err) {
				t.Fatalf("first: got %v, want a give-back", err)
			}
			<-time.After(time.Minute)
			if took, err := b.attempt(t); err != nil || took != 100*time.Millisecond {
				t.Fatalf("second: got %v after %v, want done after 100ms", err, took)
			}
			b.CloseIdleConnections()
		}
		if b.requests.Load() != 3 {
			t.Errorf("%d requests, want 3", b.requests.Load())
		}
	})
}

// TestUnreachableServiceDoesNotHoldTheBucket: the failure of a dial that outlasts
// its attempt is the next attempt's.
func TestUnreachableServiceDoesNotHoldTheBucket(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble()
		defer b.finish()
		b.net.err = errNoNetwork

		if _, err := b.attempt(t); !givesBack(err) {
			t.Fatalf("first: got %v, want a give-back", err)
		}
		for range 3 {
			<-time.After(time.Second)
			took, err := b.attempt(t)
			if givesBack(err) || !errors.Is(err, errNoNetwork) || took != 25*time.Millisecond {
				t.Fatalf("next: got %v after %v, want the error of the dial before after 25ms", err, took)
			}
		}
		<-time.After(time.Second)
		b.net.mu.Lock()
		b.net.err, b.net.took = nil, time.Millisecond
		b.net.mu.Unlock()
		if _, err := b.attempt(t); err != nil {
			t.Errorf("reachable again: %v", err)
		}
	})
}

func TestStaleDepartureIsGivenBackAtOnce(t *testing.T) {
	t.Parallel()
	h := handlers.NewTestHTTPCall(handlers.HTTPOptions{FreshUntil: freshFor(-time.Millisecond)}, noNetwork, nil)
	err := h.ProcessTask(t.Context(), task(t, object{"url": "http://a.example/"}))
	if !givesBack(err) || !strings.Contains(err.Error(), "no longer good") {
		t.Errorf("got %v, want a give-back", err)
	}
	err = h.ProcessTask(t.Context(), task(t, object{"url": "a.example"}))
	if givesBack(err) || !errors.Is(err, asynq.SkipRetry) {
		t.Errorf("bad payload: got %v, want a permanent error", err)
	}
}

func TestNoFreshnessNoGiveBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBubble()
		defer b.finish()
		b.HTTPCall = handlers.NewTestHTTPCall(handlers.HTTPOptions{
			FreshUntil: func(context.Context) (time.Time, bool) { return time.Time{}, false },
		}, b.net.Dial, nil)
		if took, err := b.attempt(t); err != nil || took != 100*time.Millisecond {
			t.Errorf("got %v after %v, want done after 100ms", err, took)
		}
	})
}

// TestGivenBackIsNeverSent races connections against departures that end in just
// that moment: what was given back the service has not seen, what was done it has
// seen once.
func TestGivenBackIsNeverSent(t *testing.T) {
	t.Parallel()
	for name, h2 := range map[string]bool{"HTTP/1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := prepareService(t, ok)
			o := handlers.HTTPOptions{FreshUntil: func(context.Context) (time.Time, bool) {
				return time.Now().Add(rand.N(1500 * time.Microsecond)), true
			}}
			h := newCall(t, o)
			if h2 {
				h = newTLSCall(t, srv, o)
			} else {
				srv.Start()
			}
			var done, givenBack, failed atomic.Int64
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for range 150 {
						err := h.ProcessTask(t.Context(), task(t, object{"url": srv.URL}))
						switch {
						case err == nil:
							done.Add(1)
						case givesBack(err):
							givenBack.Add(1)
						default:
							failed.Add(1)
							t.Error(err)
						}
						if rand.N(4) == 0 {
							h.CloseIdleConnections()
						}
					}
				})
			}
			wg.Wait()
			srv.Close() // waits for requests that are still being served
			t.Logf("%d done, %d given back, %d failed", done.Load(), givenBack.Load(), failed.Load())
			if n := srv.requests.Load(); n != done.Load() {
				t.Errorf("%d requests for %d calls that were done", n, done.Load())
			}
		})
	}
}

// TestDeadConnectionIsReplaced: when nothing was written the request may go out on
// another connection, but only while the departure is good.
func TestDeadConnectionIsReplaced(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		took time.Duration
		done bool
	}{
		"in time": {10 * time.Millisecond, true},
		"late":    {30 * time.Millisecond, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				b := newBubble()
				defer b.finish()
				b.net.took = 0
				if _, err := b.attempt(t); err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				b.net.took = test.took
				var once sync.Once
				kill := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
					once.Do(func() {
						_ = info.Conn.Close()
						<-time.After(time.Millisecond) // net/http sees it
					})
				}})
				took, err := b.attemptIn(kill, t)
				if test.done && (err != nil || took != 11*time.Millisecond) {
					t.Errorf("got %v after %v, want done after 11ms", err, took)
				}
				if !test.done && (!givesBack(err) || took != 25*time.Millisecond) {
					t.Errorf("got %v after %v, want a give-back after 25ms", err, took)
				}
			})
		})
	}
}

// TestNothingIsSentTwice: net/http would repeat a GET whose reused connection broke,
// and the service would see two requests for one departure.
func TestNothingIsSentTwice(t *testing.T) {
	t.Parallel()
	for name, payload := range map[string]object{
		"GET":                       {},
		"POST with idempotency key": {"method": "POST", "body": "x", "headers": object{"Idempotency-Key": "7"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var seen atomic.Int64
			srv := newService(t, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				if seen.Add(1) > 1 {
					hijack(t, w, "")
				}
			})
			h := newCall(t, handlers.HTTPOptions{FreshUntil: freshFor(time.Minute)})
			payload["url"] = srv.URL
			if err := h.ProcessTask(t.Context(), task(t, payload)); err != nil {
				t.Fatal(err)
			}
			err := h.ProcessTask(t.Context(), task(t, payload))
			if err == nil || givesBack(err) || errors.Is(err, asynq.SkipRetry) || !strings.Contains(err.Error(), "not sent again in this attempt") {
				t.Errorf("got %v, want an error that counts as a failed attempt", err)
			}
			if n := seen.Load(); n != 2 {
				t.Errorf("the service saw %d requests for 2 attempts", n)
			}
		})
	}
}
