// Package revive sends dead jobs round again, at the pace at which their buckets have room.
package revive

import (
	"context"
	"log/slog"
	"time"

	"github.com/spout-queue/spout/queue"
)

const (
	leastPassWait = 100 * time.Millisecond
	mostPassWait  = 5 * time.Second
	logPassEvery  = 30 * time.Second
)

// Reviver goes through dead jobs once, or again and again while some have no room. One is for one run.
type Reviver struct {
	// Wait for room; else one pass is all.
	Wait bool
	// Pass goes through them once, and tells on the way what it did.
	Pass func(ctx context.Context, progress func(queue.Revival)) (queue.Revival, error)
	// Show is told on the way what was done since the beginning.
	Show func(queue.Revival)
	// Log hears now and then that there is no room.
	Log *slog.Logger

	sum    queue.Revival
	vain   time.Duration // least wait after a pass that moved nothing
	logged time.Time
}

// Run returns what it did, also when it ends early.
func (r *Reviver) Run(ctx context.Context) (queue.Revival, error) {
	for {
		pass, err := r.once(ctx)
		switch {
		case ctx.Err() != nil: // the call under way may say anything then
			return r.sum, ctx.Err()
		case err != nil, r.sum.Left == 0, !r.Wait:
			return r.sum, err
		}
		if err := sleep(ctx, r.pause(pass)); err != nil {
			return r.sum, err
		}
	}
}

// once makes a pass and adds it up.
func (r *Reviver) once(ctx context.Context) (queue.Revival, error) {
	before := r.sum
	pass, err := r.Pass(ctx, func(so queue.Revival) {
		r.sum.Retried, r.sum.Left = before.Retried+so.Retried, max(so.Left, before.Left-so.Retried)
		r.Show(r.sum)
	})
	r.sum = queue.Revival{Retried: before.Retried + pass.Retried, Left: pass.Left, RetryAfter: pass.RetryAfter}
	r.Show(r.sum)
	return pass, err
}

// pause is as long as was told, and longer and longer while nobody drains, or nobody can tell when there is room.
func (r *Reviver) pause(pass queue.Revival) time.Duration {
	if pass.Retried > 0 {
		r.vain = leastPassWait
	} else {
		r.vain = min(max(2*r.vain, leastPassWait), mostPassWait)
		if now := time.Now(); now.Sub(r.logged) >= logPassEvery {
			r.logged = now
			r.Log.Warn("there is no room: waiting", slog.Int("left", r.sum.Left), slog.Int("retried", r.sum.Retried))
		}
	}
	return min(max(pass.RetryAfter, r.vain), mostPassWait)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
