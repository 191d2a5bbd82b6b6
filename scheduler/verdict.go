package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/queue"
)

// Why an attempt was cut short, in whatever words its handler then returned.
var (
	errStopped   = errors.New("the worker stopped")
	errLost      = errors.New("the worker lost contact with redis")
	errCancelled = errors.New("the job was cancelled")
)

// verdict reads what a handler returned.
func (st *stage) verdict(a *attempt, err error) queue.Verdict {
	v := queue.Verdict{Outcome: queue.Done}
	started, result := st.times(a)
	if err != nil || a.Settings.Retained {
		v.Due, v.Started = a.Due, started
	}
	if err == nil {
		v.Result = result
		return v
	}
	if back, ok := errors.AsType[interface {
		error
		GiveBack() bool
	}](err); ok && back.GiveBack() {
		return queue.Verdict{Outcome: queue.Back, Stale: true}
	}
	if errors.Is(err, errStopped) || errors.Is(err, errLost) {
		return queue.Verdict{Outcome: queue.Back} // the worker's end, not the job's failure
	}
	v.Error = strings.TrimSuffix(err.Error(), ": "+asynq.SkipRetry.Error())
	st.fate(&v, err)
	if v.Outcome == queue.Held {
		return v // hold has the word
	}
	st.log.LogAttrs(context.Background(), slog.LevelInfo, "attempt failed", slog.String("ref", a.Ref),
		slog.String("class", a.Class), slog.String("type", a.Type), slog.Int("attempt", a.Attempt),
		slog.String("outcome", string(v.Outcome)), slog.String("error", v.Error))
	return v
}

// fate is what becomes of an attempt that has not succeeded.
func (st *stage) fate(v *queue.Verdict, err error) {
	v.Outcome = queue.Failed
	switch {
	case errors.Is(err, errCancelled):
		v.Outcome = queue.Stopped
		return
	case errors.Is(err, asynq.SkipRetry):
		v.Outcome = queue.Dead
		return
	}
	if held, ok := errors.AsType[interface {
		error
		Hold() (d time.Duration, class bool)
	}](err); ok {
		v.Outcome = queue.Held
		v.Hold, v.HoldClass = held.Hold()
		throttled, ok := errors.AsType[interface {
			error
			Throttled() bool
		}](err)
		v.Throttled = ok && throttled.Throttled()
		return
	}
	if after, ok := errors.AsType[interface {
		error
		RetryAfter() time.Duration
	}](err); ok {
		delay := after.RetryAfter()
		v.RetryAfter = &delay
	}
}

// hold says that a called service asked to be left alone, and tells the other shards when it is the whole class that is.
func (st *stage) hold(a *attempt, v queue.Verdict) {
	until := a.clock.server(time.Now()).Add(v.Hold)
	st.log.LogAttrs(context.Background(), slog.LevelInfo, "service asked for a hold", slog.String("ref", a.Ref),
		slog.String("class", a.Class), slog.String("key", a.Key), slog.Bool("whole_class", v.HoldClass),
		slog.Time("until", until), slog.String("reason", v.Error))
	if v.HoldClass {
		st.holds.class(a.Class, until, v.Error)
	}
}

// begin says that a handler is being called. It is not when the attempt has been cancelled before.
func (st *stage) begin(a *attempt, cancel context.CancelFunc) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if a.ended != nil {
		return a.ended
	}
	a.end, a.started = cancel, time.Now()
	return nil
}

// whyEnded adds why a handler's context was ended to what it returned.
func (st *stage) whyEnded(a *attempt, err error) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if a.ended == nil {
		return err
	}
	return fmt.Errorf("%w: %w", a.ended, err)
}

// times tells when an attempt's handler was called, by the server's time, and what it wrote.
func (st *stage) times(a *attempt) (started time.Time, result []byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if !a.started.IsZero() {
		started = a.clock.server(a.started)
	}
	return started, a.result
}

// wrote keeps what a handler wrote to its ResultWriter, the last time it did.
func (st *stage) wrote(taskID string, data []byte) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if a := st.attempts[taskID]; a != nil {
		a.result = data[:min(len(data), queue.ResultMost)]
	}
}

// deaf settles an attempt whose handler did not heed the end of its context.
func (st *stage) deaf(a *attempt) {
	started, _ := st.times(a)
	v := queue.Verdict{
		Outcome: queue.Failed, Due: a.Due, Started: started,
		Error: fmt.Sprintf("timed out after %v and ignored it: the handler had not returned %v later", a.Settings.Timeout, deafGrace),
	}
	st.mu.Lock()
	if errors.Is(a.ended, errCancelled) {
		v.Outcome = queue.Stopped
	}
	st.acquit(a) // it may never return
	st.mu.Unlock()
	st.log.LogAttrs(context.Background(), slog.LevelWarn, "handler ignores the end of its context; it keeps its slot until it returns",
		slog.String("ref", a.Ref), slog.String("class", a.Class), slog.String("type", a.Type), slog.Int("attempt", a.Attempt))
	st.settle(a, v)
}

// acquit lets another suspect run: this one has ended, or is settled without its end. st.mu is held.
func (st *stage) acquit(a *attempt) {
	if a.Suspect {
		a.Suspect = false
		st.suspect.put()
	}
}

// cancel ends the attempts of a job that was cancelled.
func (st *stage) cancel(ref string) {
	st.cut(errCancelled, func(a *attempt) bool { return a.Ref == ref })
}

// cut ends the contexts of attempts.
func (st *stage) cut(why error, which func(*attempt) bool) (n int) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, a := range st.attempts {
		if a.ended != nil || !which(a) {
			continue
		}
		n++
		a.ended = why
		if a.end != nil {
			a.end()
		}
		if errors.Is(why, errCancelled) {
			time.AfterFunc(deafGrace, func() { st.settleDeafCancel(a) })
		}
	}
	return n
}

// settleDeafCancel settles a cancelled attempt whose handler runs on, so that the job does not wait for it.
func (st *stage) settleDeafCancel(a *attempt) {
	if st.find(a.taskID()) == a {
		started, _ := st.times(a)
		st.settle(a, queue.Verdict{
			Outcome: queue.Stopped, Due: a.Due, Started: started,
			Error: fmt.Sprintf("cancelled; the handler had not returned %v later", deafGrace),
		})
		st.mu.Lock()
		defer st.mu.Unlock()
		st.acquit(a)
	}
}
