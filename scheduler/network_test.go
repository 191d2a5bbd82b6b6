package scheduler_test

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// onCall is a hook around each script call of a client.
type onCall func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error

// ProcessHook implements redis.Hook.
func (f onCall) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "evalsha" || cmd.Name() == "eval" {
			return f(ctx, cmd, next)
		}
		return next(ctx, cmd)
	}
}

// ProcessPipelineHook implements redis.Hook.
func (onCall) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// DialHook implements redis.Hook.
func (onCall) DialHook(next redis.DialHook) redis.DialHook { return next }

// departure tells whether a call asks for departures, and for how many; only there the call number is a number. The call:
// script, keys, tag, worker, call, seen, want, bytes, suspects, classes.
func departure(cmd redis.Cmder) (want int, ok bool) {
	args := cmd.Args()
	if len(args) < 10 {
		return 0, false
	}
	if _, ok := args[5].(int64); !ok {
		return 0, false
	}
	want, ok = args[7].(int)
	return want, ok
}

// settlement tells whether a call settles departures.
func settlement(cmd redis.Cmder) bool {
	args := cmd.Args()
	if len(args) < 10 {
		return false
	}
	switch args[7] {
	case "done", "fail", "dead", "back", "stale", "cancelled":
		return true
	}
	return false
}

// pause waits on the clock of the bubble.
func pause(d time.Duration) {
	if d > 0 {
		<-time.After(d)
	}
}

// jittery is a network: a call takes up to 2 ms each way, and one in twenty is answered late, but in time for a start.
func jittery(seed uint64) onCall {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	delays := func() (there, back time.Duration) {
		mu.Lock()
		defer mu.Unlock()
		most := 2 * time.Millisecond
		there = time.Duration(random.Int64N(int64(most)))
		if random.IntN(20) == 0 {
			most = freshness * 3 / 4
		}
		return there, time.Duration(random.Int64N(int64(most)))
	}
	return func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		there, back := delays()
		pause(there)
		err := next(ctx, cmd)
		pause(back)
		return err
	}
}

// setClock sets the clock of a miniredis apart from that of the bubble, by the time of each call.
type setClock struct {
	m *miniredis.Miniredis

	mu     sync.Mutex
	offset time.Duration
}

func (c *setClock) set(offset time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset = offset
}

func (c *setClock) call(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
	c.mu.Lock()
	c.m.SetTime(time.Now().Add(c.offset))
	c.mu.Unlock()
	return next(ctx, cmd)
}
