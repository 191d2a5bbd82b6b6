package scheduler_test

import (
	"context"
	"sync"
	"testing"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/scheduler"
)

// fate is what befalls a worker's process: while it is frozen, no call of it begins or ends, whatever its deadline, and its
// handlers do not go on.
type fate struct {
	mu   sync.Mutex
	thaw chan struct{} // not nil while it is frozen
}

func (f *fate) freeze() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.thaw == nil {
		f.thaw = make(chan struct{})
	}
}

func (f *fate) melt() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.thaw != nil {
		close(f.thaw)
		f.thaw = nil
	}
}

// pass waits until the process goes on.
func (f *fate) pass() {
	f.mu.Lock()
	thaw := f.thaw
	f.mu.Unlock()
	if thaw != nil {
		<-thaw
	}
}

// DialHook implements redis.Hook.
func (f *fate) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook implements redis.Hook.
func (f *fate) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		f.pass()
		err := next(ctx, cmd)
		f.pass()
		return err
	}
}

// ProcessPipelineHook implements redis.Hook.
func (f *fate) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		f.pass()
		err := next(ctx, cmds)
		f.pass()
		return err
	}
}

// mortal starts a worker whose process can freeze, before and after its handler's work. A dead one comes round again at
// the end of tb, so that it can be stopped.
func (s *site) mortal(tb testing.TB, number int, h asynq.HandlerFunc, o scheduler.Options, hooks ...redis.Hook) (*worker, *fate) {
	tb.Helper()
	f := &fate{}
	w := s.work(tb, number, func(ctx context.Context, task *asynq.Task) error {
		err := h(ctx, task)
		f.pass()
		return err
	}, o, append(hooks, f)...)
	tb.Cleanup(f.melt)
	return w, f
}
