package api_test

import (
	"context"
	"net"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
)

// gone is a Redis that goes away once a command with some argument has been carried out.
type gone struct {
	after string
	away  atomic.Bool
}

func (g *gone) DialHook(next redis.DialHook) redis.DialHook { return next }

func (g *gone) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if g.away.Load() {
			return &net.OpError{Op: "dial", Err: net.ErrClosed}
		}
		return next(ctx, cmds)
	}
}

func (g *gone) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if g.away.Load() {
			err := &net.OpError{Op: "dial", Err: net.ErrClosed}
			cmd.SetErr(err)
			return err
		}
		err := next(ctx, cmd)
		if err == nil && slices.Contains(cmd.Args(), any(g.after)) {
			g.away.Store(true)
		}
		return err
	}
}

// What was done is not answered as if nothing were, when it cannot be said how it stands.
func TestDoneAndNotSeen(t *testing.T) {
	t.Parallel()
	rdb := redistest.MiniClient(t)
	s := newSite(t, rdb)
	s.class("calls", 10)
	g := &gone{after: "pause"}
	rdb.AddHook(g)
	s.ask("operator", "POST", "/v1/classes/calls/buckets/k/pause", "").want(t, 504, map[string]any{"reason": "unknown"})
	if !g.away.Load() {
		t.Error("it did not go away")
	}
}
