package httpmeter

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spout-queue/spout/internal/ratelimit"
	"github.com/spout-queue/spout/meter"
)

const (
	defaultMaxHold = time.Hour
	refundTimeout  = time.Second
)

// Transport is an [http.RoundTripper] that sends a request when its own limit lets it and the server has not asked for
// patience. The zero value has no limit of its own and obeys the server. Set its fields before the first use.
//
// # What the server says
//
// An answer can hold its key: requests of that key wait until the time it names.
//
//   - Retry-After, in seconds or as a date, of a 3xx, 403, 429 or 503. It goes before the others.
//   - RateLimit, when an item has nothing left (r=0): until the end of its window t. Without t the window w of the item of the
//     same name in RateLimit-Policy stands for it, unless it counts concurrent requests.
//   - Where there is no RateLimit: X-RateLimit-Remaining of 0 with X-RateLimit-Reset, in seconds, in seconds or milliseconds since
//     1970, as a date or as a duration. The names without X- (drafts up to 06), with X-Rate-Limit-, and those of Discord, OpenAI and
//     Anthropic are known too. On a 429 the reset is enough.
//
// Dates are compared with the Date of the answer, so the clocks need not agree. RateLimit fields of answers out of a cache (Age)
// and malformed ones are ignored. A hold is known to this Transport only, ends by itself, and is never shortened by a
// later answer.
//
// # Waiting
//
// A request waits at most until its context ends. When the deadline of the context, or the Timeout of the [http.Client], is
// too near, RoundTrip fails at once, with a [*HeldError] or a [*meter.RefusedError], and nothing is taken from the meter.
//
// Nothing is ever sent again: an answer of 429 is returned to the caller, and only what is sent after it waits. Whoever repeats a
// request repeats it through the Transport. The body of a request that is not sent is closed.
type Transport struct {
	// Base sends. Defaults to http.DefaultTransport.
	Base http.RoundTripper
	// Meter is the own limit: each request takes its cost with [meter.Meter.Wait]. Nil is none.
	Meter *meter.Meter
	// Key names whom the server counts a request for, such as a host and an account. Defaults to the host of the URL, in
	// lower case, without a port that is the scheme's own.
	Key func(*http.Request) string
	// Cost of a request in the own limit, 0 or more units. Defaults to 1.
	Cost func(*http.Request) int64
	// MaxHold is the longest a single answer can hold a key: what is above it is cut. Defaults to 1 h.
	MaxHold time.Duration
	// OnHold, when set, is called when an answer holds a key for longer than it was held before.
	OnHold func(key string, after time.Duration)

	holds holds
}

// HeldError is the error of [Transport.RoundTrip] for a request whose deadline is before the time the server has named. It
// was not sent.
type HeldError struct {
	// Key of the request.
	Key string
	// After is the time until the hold ends.
	After time.Duration
}

// Error says how long the hold lasts.
func (e *HeldError) Error() string {
	return fmt.Sprintf("httpmeter: the server has asked %.80q to wait for another %v, which is after the deadline", e.Key, e.After)
}

// RetryAfter is the time until the hold ends.
func (e *HeldError) RetryAfter() time.Duration { return e.After }

// RoundTrip waits and sends req once.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	key := t.key(req)
	if err := t.wait(req, key); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // a RoundTripper closes it even when it fails
		}
		return nil, err
	}
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	resp, err := base.RoundTrip(req)
	if err == nil {
		t.heed(key, resp)
	}
	return resp, err
}

// CloseIdleConnections closes those of Base.
func (t *Transport) CloseIdleConnections() {
	base := t.Base
	if base == nil {
		base = http.DefaultTransport
	}
	if c, ok := base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// Held is how long requests of key have to wait for the server's sake, 0 when not.
func (t *Transport) Held(key string) time.Duration { return t.holds.left(key, time.Now()) }

// wait returns when req may go out. A hold that begins while the meter lets wait gives the units back and waits for them anew, so
// that those who wait do not all leave at its end.
func (t *Transport) wait(req *http.Request, key string) error {
	ctx := req.Context()
	cost := int64(1)
	if t.Cost != nil {
		cost = t.Cost(req)
	}
	for {
		if err := t.holds.wait(ctx, key); err != nil {
			return err
		}
		if t.Meter == nil || cost == 0 {
			return nil
		}
		if err := t.Meter.Wait(ctx, key, cost); err != nil {
			return err
		}
		if t.Held(key) == 0 {
			return nil
		}
		t.refund(ctx, key, cost)
	}
}

// refund gives back what was taken for a request that does not go out. If it fails the server is called less, not more.
func (t *Transport) refund(ctx context.Context, key string, cost int64) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), refundTimeout)
	defer cancel()
	_, _ = t.Meter.Refund(ctx, key, cost)
}

// heed holds key when the answer asks for it.
func (t *Transport) heed(key string, resp *http.Response) {
	now := time.Now()
	most := t.MaxHold
	if most <= 0 {
		most = defaultMaxHold
	}
	asked, _ := ratelimit.Wait(resp.StatusCode, resp.Header, now)
	after := min(asked, most)
	if after > 0 && t.holds.extend(key, now, after) && t.OnHold != nil {
		t.OnHold(key, after)
	}
}

func (t *Transport) key(req *http.Request) string {
	if t.Key != nil {
		return t.Key(req)
	}
	host := strings.ToLower(req.URL.Host)
	switch req.URL.Scheme {
	case "http":
		return strings.TrimSuffix(host, ":80")
	case "https":
		return strings.TrimSuffix(host, ":443")
	default:
		return host
	}
}
