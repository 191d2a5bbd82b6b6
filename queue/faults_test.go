package queue_test

import (
	"context"
	"errors"
	"io"
	"strings"

	"github.com/redis/go-redis/v9"
)

// fault is what happens to a script call on its way to Redis and back.
type fault string

const (
	noFault     fault = ""
	replyLost   fault = "reply lost"   // carried out, and nobody hears of it
	requestLost fault = "request lost" // never arrives
	sentTwice   fault = "sent twice"   // as go-redis does after a network error: the second reply counts
	delayed     fault = "delayed"      // arrives later, when nobody waits for it any more
)

// unreliable is a go-redis hook that lets a fault happen to the next script call. Calls must come one after the other.
type unreliable struct {
	next fault
	err  error                         // what all script calls end with, when set
	held []func(context.Context) error // delayed calls that have not arrived yet
}

func (u *unreliable) DialHook(next redis.DialHook) redis.DialHook { return next }

func (u *unreliable) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (u *unreliable) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if !strings.HasPrefix(cmd.Name(), "eval") {
			return next(ctx, cmd)
		}
		if u.err != nil {
			return u.err
		}
		f := u.next
		u.next = noFault
		switch f {
		case replyLost:
			return errors.Join(next(ctx, cmd), io.EOF)
		case requestLost:
			return io.EOF
		case sentTwice:
			if err := next(ctx, cmd); err != nil {
				return err
			}
			return next(ctx, cmd)
		case delayed:
			u.held = append(u.held, func(ctx context.Context) error {
				return next(ctx, redis.NewCmd(ctx, cmd.Args()...))
			})
			return io.EOF
		default:
			return next(ctx, cmd)
		}
	}
}

// raiser is a go-redis hook that changes class c just before anybody else does.
type raiser struct {
	rdb  *redis.Client
	done bool
}

func (r *raiser) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r *raiser) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (r *raiser) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if strings.HasPrefix(cmd.Name(), "eval") && !r.done {
			r.done = true
			if err := r.rdb.HIncrBy(ctx, "{spout:0}:class:c", "version", 1).Err(); err != nil {
				return err
			}
		}
		return next(ctx, cmd)
	}
}
