package scheduler

import (
	"context"
	"time"

	"github.com/spout-queue/spout/queue"
)

// permitted asks for the start of an attempt of a class with strict pace, and waits for its moment. From then on it is good
// for [queue.StrictFreshness].
func (st *stage) permitted(ctx context.Context, a *attempt) bool {
	if !a.Settings.Strict {
		return true
	}
	sent := time.Now()
	wait, ok, err := st.settles[a.shard].outlet.Start(ctx, &a.Departure, st.freshness)
	if err != nil || !ok {
		return false
	}
	if wait > 0 && !pause(ctx, wait) {
		return false
	}
	a.freshUntil = sent.Add(wait + queue.StrictFreshness)
	return time.Now().Before(a.freshUntil)
}

// token is held by at most one.
type token struct{ free chan struct{} }

func newToken() *token {
	t := &token{free: make(chan struct{}, 1)}
	t.free <- struct{}{}
	return t
}

// take takes the token if it is free.
func (t *token) take() bool {
	select {
	case <-t.free:
		return true
	default:
		return false
	}
}

func (t *token) put() { t.free <- struct{}{} }
