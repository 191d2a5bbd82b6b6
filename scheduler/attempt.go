package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/queue"
)

// stage is where attempts run: the handler that asynq sees around the user's. It owns the start (only while the departure is
// good), the deadline, panics and the verdict; what asynq is told means nothing.
type stage struct {
	handler   asynq.Handler
	freshness time.Duration
	log       *slog.Logger
	seen      observers
	slots     *slots
	suspect   *token
	holds     *holds
	settles   []*settler
	staleRun  atomic.Int64 // stale departures in a row

	aborted context.Context // ends when the worker will not wait any longer
	abort   context.CancelFunc

	mu        sync.Mutex
	attempts  map[string]*attempt              // by task id
	last      map[string]*attempt              // by bucket: the one that left it last
	returning map[string]map[*attempt]struct{} // by bucket: see goBack
	empty     chan struct{}                    // closed while there are no attempts
}

func newStage(s *Scheduler, h asynq.Handler) *stage {
	aborted, abort := context.WithCancel(context.Background())
	empty := make(chan struct{})
	close(empty)
	return &stage{
		handler: h, freshness: s.o.Freshness, log: s.o.Logger, seen: s.seen, slots: s.slots, suspect: s.suspect, holds: s.holds,
		settles: s.settles,
		aborted: aborted, abort: abort, empty: empty,
		attempts: map[string]*attempt{}, last: map[string]*attempt{}, returning: map[string]map[*attempt]struct{}{},
	}
}

// attempt is one departure in this worker's hands.
type attempt struct {
	queue.Departure
	shard      int
	freshUntil time.Time // on the monotonic clock
	clock      clock     // the server's time, as of the departure
	settled    atomic.Bool
	turn       // among the attempts of its bucket

	// stage.mu is held for these:
	started time.Time          // when the handler was called
	result  []byte             // what it wrote
	end     context.CancelFunc // of the handler's context, nil before it is called
	ended   error              // why it was called: errCancelled, errLost, or nil
}

func (a *attempt) taskID() string { return a.Ref + ":" + a.Stamp }
func (a *attempt) bucket() string { return a.Class + "/" + a.Key }

// admit makes an attempt known before it is fed to asynq.
func (st *stage) admit(a *attempt) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if len(st.attempts) == 0 {
		st.empty = make(chan struct{})
	}
	st.attempts[a.taskID()] = a
	st.line(a)
}

// find returns an attempt that has not ended.
func (st *stage) find(taskID string) *attempt {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.attempts[taskID]
}

// end forgets an attempt and frees its slot.
func (st *stage) end(a *attempt) {
	st.mu.Lock()
	delete(st.attempts, a.taskID())
	st.leave(a)
	st.acquit(a)
	if len(st.attempts) == 0 {
		close(st.empty)
	}
	st.mu.Unlock()
	st.slots.put(1)
}

// wait until no attempt runs, at most for d.
func (st *stage) wait(d time.Duration) {
	st.mu.Lock()
	empty := st.empty
	st.mu.Unlock()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-empty:
	case <-timer.C:
	}
}

// settle gives the verdict on an attempt, once.
func (st *stage) settle(a *attempt, v queue.Verdict) {
	if a.settled.CompareAndSwap(false, true) {
		v.Ref, v.Stamp, v.Class = a.Ref, a.Stamp, a.Class
		var taken func()
		if v.Outcome == queue.Back {
			taken = st.goBack(a)
		}
		if v.Outcome == queue.Held {
			st.hold(a, v)
		}
		st.settles[a.shard].add(a, v, taken)
	}
}

// giveBack returns an attempt that no handler got to see.
func (st *stage) giveBack(taskID string, why ReturnReason) {
	if a := st.find(taskID); a != nil {
		st.seen.returned(a, why)
		st.settle(a, queue.Verdict{Outcome: queue.Back})
		st.end(a)
	}
}

// attemptKey finds the attempt in a handler's context.
type attemptKey struct{}

// FreshUntil tells a handler until when the departure of its attempt is good, on the monotonic clock. A handler that needs
// long before its effect begins, for a cold connection say, may look again and give the attempt back. There is no time
// outside of a handler's context, and none after three give-backs of the same job: it has to go ahead some day.
func FreshUntil(ctx context.Context) (time.Time, bool) {
	a, ok := ctx.Value(attemptKey{}).(*attempt)
	if !ok || a.Backs >= 3 {
		return time.Time{}, false
	}
	return a.freshUntil, true
}

// ProcessTask runs one attempt, if its departure is still good.
func (st *stage) ProcessTask(ctx context.Context, t *asynq.Task) error {
	id, _ := asynq.GetTaskID(ctx)
	a := st.find(id)
	if a == nil { // not one of ours, or settled meanwhile: nothing starts without a departure
		st.log.LogAttrs(ctx, slog.LevelWarn, "task without a departure is not run", slog.String("task", id))
		return nil
	}
	defer st.end(a)
	if !st.awaitTurn(a) || time.Now().After(a.freshUntil) || !st.permitted(ctx, a) {
		st.stale(ctx, a)
		return nil
	}
	st.staleRun.Store(0)
	ctx, ended := st.seen.watch(ctx, a)
	v := st.verdict(a, st.run(ctx, a, t))
	if a.settled.Load() { // without it: its handler was deaf
		v = queue.Verdict{Outcome: queue.Failed, Error: "the handler returned long after its deadline"}
	}
	st.settle(a, v)
	ended(v)
	return nil
}

// staleTooOften is how many stale departures in a row make a worker ask for one at a time.
const staleTooOften = 3

func (st *stage) stale(ctx context.Context, a *attempt) {
	st.seen.returned(a, ReturnedStale)
	st.settle(a, queue.Verdict{Outcome: queue.Back, Stale: true})
	if st.staleRun.Add(1) == staleTooOften {
		st.log.LogAttrs(ctx, slog.LevelWarn,
			"departures become stale before they start: asking for one at a time; "+
				"raise the freshness if redis is far away, lower the concurrency if this machine is busy",
			slog.Duration("freshness", st.freshness))
	}
}

// deafGrace is how long after its deadline a handler may take to return before the attempt is settled without it.
const deafGrace = time.Second

// run calls the handler with its own deadline. A handler that ignores its context keeps its slot until it returns, but not
// the job.
func (st *stage) run(ctx context.Context, a *attempt, t *asynq.Task) (err error) {
	ctx, cancel := context.WithTimeout(context.WithValue(ctx, attemptKey{}, a), a.Settings.Timeout)
	defer cancel()
	if err := st.begin(a, cancel); err != nil {
		return err
	}
	unhook := context.AfterFunc(st.aborted, cancel)
	defer unhook()
	deaf := time.AfterFunc(a.Settings.Timeout+deafGrace, func() {
		st.deaf(a)
	})
	defer deaf.Stop()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
			st.log.LogAttrs(ctx, slog.LevelError, "handler panicked", slog.String("ref", a.Ref),
				slog.String("type", a.Type), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		}
	}()
	a.decide() // as late as can be: the next one of its bucket starts now
	err = st.handler.ProcessTask(ctx, t)
	switch {
	case err == nil:
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		err = fmt.Errorf("timed out after %v: %w", a.Settings.Timeout, err)
	case st.aborted.Err() != nil:
		err = fmt.Errorf("%w: %w", errStopped, err)
	default:
		err = st.whyEnded(a, err)
	}
	return err
}
