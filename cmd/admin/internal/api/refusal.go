package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/big"
	"net/http"
	"sync"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// refusal says an error as a problem to whoever asks.
func (s *server) refusal(ctx context.Context, err error) *problem {
	if big, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return newProblem(queue.ReasonTooLarge, fmt.Sprintf("the body has more than %d bytes", big.Limit))
	}
	if own, ok := errors.AsType[*problem](err); ok {
		return own // it has all that follows already
	}
	p := problemOf(err)
	if p.Reason == wire.ReasonDenied && access.From(ctx).Name == "" {
		detail := p.Detail
		p = newProblem(wire.ReasonUnauthenticated, detail)
		p.header.Set("WWW-Authenticate", "Bearer")
	}
	if p.Status == http.StatusTooManyRequests {
		s.rates.fields(ctx, err, p.header)
	}
	s.mourn(ctx, err)
	return p
}

// mourn logs what those who ask are not told.
func (s *server) mourn(ctx context.Context, err error) {
	if ctx.Err() == nil && wire.Public(err) != err { //nolint:errorlint // whether it is another one
		s.log.LogAttrs(ctx, slog.LevelWarn, "a request could not be answered", slog.Any("error", err))
	}
}

// rates knows the outflow of classes, for the RateLimit fields of refusals.
type rates struct {
	desk *desk.Desk

	mu    sync.Mutex
	known map[string]knownRate
}

type knownRate struct {
	rate     queue.Rate
	capacity int
	until    time.Time
}

const (
	rateTime  = 5 * time.Second // how long a class is taken for what it was
	ratesMost = 1000
)

func newRates(d *desk.Desk) *rates { return &rates{desk: d, known: map[string]knownRate{}} }

// fields says what a bucket that refused lets out, and when to come back: RateLimit-Policy has w, the time in which a full bucket
// drains, and q, what drains in it; RateLimit has what is left, which is nothing, for the next t. See ADR 20.
func (c *rates) fields(ctx context.Context, err error, to http.Header) {
	full, ok := errors.AsType[*queue.FullError](err)
	if !ok {
		return
	}
	name := "bucket"
	if full.Reason == queue.ReasonClassFull {
		name = "class" // its max_jobs has no rate of its own
	} else if rate, found := c.of(ctx, full.Class); found {
		to.Set("RateLimit-Policy", policy(rate))
	}
	if !full.Paused {
		to.Set("RateLimit", fmt.Sprintf("%q;r=0;t=%d", name, seconds(full.RetryAfter)))
	}
}

// policy is q in w: both whole, w rounded up and q down.
func policy(k knownRate) string {
	limit, period := big.NewInt(k.rate.Limit), big.NewInt(int64(k.rate.Period))
	perSecond := new(big.Int).Mul(limit, big.NewInt(int64(time.Second)))
	w := new(big.Int).Mul(big.NewInt(int64(k.capacity)), period)
	w.Add(w, perSecond).Sub(w, big.NewInt(1)).Div(w, perSecond)
	q := new(big.Int).Mul(w, perSecond)
	return fmt.Sprintf(`"bucket";q=%d;w=%d`, q.Div(q, period), w)
}

// of reads a class, seldom: refusals come in numbers.
func (c *rates) of(ctx context.Context, class string) (knownRate, bool) {
	c.mu.Lock()
	k, found := c.known[class]
	c.mu.Unlock()
	if found && time.Now().Before(k.until) {
		return k, true
	}
	settings, err := c.desk.Class(ctx, class)
	if err != nil {
		return k, false
	}
	k = knownRate{settings.Rate, settings.Capacity, time.Now().Add(rateTime)}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) >= ratesMost {
		clear(c.known)
	}
	c.known[class] = k
	return k, true
}
