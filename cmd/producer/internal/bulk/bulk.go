// Package bulk submits a stream of jobs, one JSON object per line, whatever its length, in bounded memory.
//
// Jobs of one bucket are admitted in the order of the input: while the first of them waits for room, those behind it wait
// too. Jobs of other buckets go on, as far ahead as the bound on what is held lets the input be read.
package bulk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/spout-queue/spout/queue"
)

// OnFull says what to do with a job that is rejected for lack of room.
type OnFull string

// The ways to go on.
const (
	Wait OnFull = "wait" // submit it again when told
	Skip OnFull = "skip" // leave it out
	Fail OnFull = "fail" // stop
)

const (
	// batchMost jobs and batchBytes of payload are one script call per shard: more would be several, between which a job
	// could overtake another of its bucket.
	batchMost  = 100
	batchBytes = 1 << 20
	// holdLines and holdBytes are the default bounds on what is held of the input.
	holdLines = 10_000
	holdBytes = 64 << 20
	// finishTime is how long the call under way may take to finish after an interrupt.
	finishTime = 10 * time.Second
)

// Submitter is the queue.
type Submitter interface {
	SubmitMany(ctx context.Context, jobs []queue.Job) []queue.Result
}

// Options of [Run].
type Options struct {
	OnFull OnFull
	// Batch is the most jobs of one call, 1 to 100.
	Batch int
	// Ack is what the receipt of each line must vouch for, when that is more than its class asks for.
	Ack queue.Ack
	// Trace is the context of the span that the jobs are submitted in, empty for none.
	Trace string
	// Patience is how long a call is repeated while Redis does not answer.
	Patience time.Duration
	// Answer is told the final answer to each line.
	Answer func(number int, receipt queue.Receipt, err error) error
	// Progress is told, after each call, how far it is.
	Progress func(Summary)
	Log      *slog.Logger

	hold bounds
}

// bounds are the most of the input that is held.
type bounds struct{ lines, bytes int }

// ErrFull and ErrDraining end a run that is to fail on a bucket that does not take a job.
var (
	ErrFull     = errors.New("stopped at a full bucket")
	ErrDraining = errors.New("stopped at a draining bucket")
)

// ErrInput ends a run whose input cannot be read.
var ErrInput = errors.New("the input cannot be read")

// Run submits the jobs of the input. It returns early, with the summary so far, when ctx ends, when Redis stays away, when
// the input cannot be read, and with ErrFull and ErrDraining.
func Run(ctx context.Context, to Submitter, input io.Reader, o Options) (Summary, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	chunks := make(chan chunk, 1)
	go scan(ctx, input, chunks)
	held := pending{buckets: map[string]*bucket{}, most: cmp.Or(o.hold, bounds{holdLines, holdBytes})}
	r := &run{to: to, o: o, input: chunks, sum: newSummary(), held: held}
	err := r.loop(ctx)
	r.sum.Unanswered = r.held.lines
	return r.sum, err
}

// run is one run. One goroutine owns it.
type run struct {
	to     Submitter
	o      Options
	input  <-chan chunk // nil once it has ended
	held   pending
	sum    Summary
	logged time.Time
}

func (r *run) loop(ctx context.Context) error {
	for {
		r.held.open(time.Now())
		if err := r.read(); err != nil {
			return err
		}
		var err error
		switch {
		case ctx.Err() != nil:
			err = ctx.Err()
		case len(r.held.ready) > 0:
			err = r.submit(ctx)
		case r.held.lines == 0 && r.input == nil:
			return nil
		default:
			err = r.wait(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// read takes what was read ahead, as much as the next call can use and the bounds allow.
func (r *run) read() error {
	for !r.held.full() && r.held.lines-r.held.idle < r.o.Batch {
		select {
		case c, ok := <-r.input:
			if err := r.accept(c, ok); err != nil {
				return err
			}
		default:
			return nil
		}
	}
	return nil
}

// accept takes a chunk in. The channel is closed without a last chunk only when the run is being ended.
func (r *run) accept(c chunk, ok bool) error {
	if !ok {
		r.input = nil
	}
	for _, l := range c.lines {
		if l.bad == nil {
			l.job.Ack, l.job.Trace = r.o.Ack, r.o.Trace
			r.held.add(l)
			continue
		}
		if err := r.answered(l, queue.Receipt{}, l.bad); err != nil {
			return err
		}
	}
	if c.end == nil {
		return nil
	}
	r.input = nil
	if !errors.Is(c.end, io.EOF) {
		return fmt.Errorf("%w: %w", ErrInput, c.end)
	}
	return nil
}

// wait until a bucket opens or there is more to read.
func (r *run) wait(ctx context.Context) error {
	var opens <-chan time.Time
	if len(r.held.closed) > 0 {
		opens = time.After(time.Until(r.held.next))
	}
	input := r.input
	if r.held.full() {
		input = nil
	}
	select {
	case <-opens:
	case <-ctx.Done():
	case c, ok := <-input:
		return r.accept(c, ok)
	}
	return nil
}

// submit makes one call and draws the conclusions. An interrupt lets it finish, so that its jobs have an answer.
func (r *run) submit(ctx context.Context) error {
	jobs, flights := r.held.batch(r.o.Batch)
	ctx, cancel := finishing(ctx)
	defer cancel()
	results := r.to.SubmitMany(ctx, jobs)
	now := time.Now()
	var stop error
	for _, f := range flights {
		if err := r.conclude(now, f, results[:f.n]); stop == nil {
			stop = err
		}
		results = results[f.n:]
		r.held.put(now, f.bucket)
	}
	r.o.Progress(r.sum)
	return stop
}

// finishing is a context that outlives ctx by finishTime.
func finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(finishTime, cancel) })
	return longer, func() { stop(); cancel() }
}

// conclude sorts the lines of one bucket into answered ones and those to submit again, which stay at its head in order.
func (r *run) conclude(now time.Time, f flight, results []queue.Result) error {
	b := f.bucket
	var again []line
	var stop error
	for i, result := range results {
		l := b.lines[i]
		repeat, err := r.judge(now, b, result, len(again) > 0)
		if repeat {
			again = append(again, l)
		} else if err == nil {
			err = r.answered(l, result.Receipt, result.Err)
		}
		if stop == nil {
			stop = err
		}
	}
	done := f.n - len(again)
	copy(b.lines[done:], again)
	clear(b.lines[:done]) // payloads
	b.lines = b.lines[done:]
	return stop
}

// judge tells whether a line is to be submitted again. Of several of one bucket the first refusal counts: the times told
// to those behind it are further off.
func (r *run) judge(now time.Time, b *bucket, result queue.Result, behind bool) (repeat bool, err error) {
	if result.Err == nil {
		b.admitted(result.Receipt)
		b.failing = time.Time{}
		return false, nil
	}
	full, isFull := errors.AsType[*queue.FullError](result.Err)
	reason := queue.ReasonOf(result.Err)
	away := reason == queue.ReasonUnavailable || reason == queue.ReasonUnknown
	switch {
	case away:
		if !behind {
			b.refused(now, blindWait)
		}
		return r.away(now, b, result.Err)
	case !noRoom(reason), r.o.OnFull != Wait:
		b.failing = time.Time{}
		return false, nil
	case behind:
	case reason == queue.ReasonStoreFull, !isFull: // nobody can tell until when
		r.warn("redis is full", result.Err)
		b.refused(now, blindWait)
	case full.Paused:
		r.warn("a bucket is paused, and nobody can tell until when", result.Err)
		b.refused(now, blindWait)
	default:
		b.refused(now, full.RetryAfter)
	}
	b.failing = time.Time{}
	return true, nil
}

// away repeats a call that Redis did not answer: with the same ids, so that what was carried out is not done twice.
func (r *run) away(now time.Time, b *bucket, err error) (repeat bool, stop error) {
	if b.failing.IsZero() {
		b.failing = now
	}
	if now.Sub(b.failing) >= r.o.Patience {
		return true, fmt.Errorf("gave up after %v: %w", r.o.Patience, err)
	}
	r.warn("redis does not answer", err)
	return true, nil
}

// answered notes a final answer.
func (r *run) answered(l line, receipt queue.Receipt, err error) error {
	if l.bad == nil {
		r.held.drop(l)
	}
	r.sum.add(l, receipt, err)
	if failed := r.o.Answer(l.number, receipt, err); failed != nil {
		return failed
	}
	if r.o.OnFull != Fail || err == nil {
		return nil
	}
	switch reason := queue.ReasonOf(err); {
	case noRoom(reason):
		return fmt.Errorf("line %d: %w: %w", l.number, ErrFull, err)
	case draining(reason):
		return fmt.Errorf("line %d: %w: %w", l.number, ErrDraining, err)
	}
	return nil
}

// warn logs what holds the run up, now and then.
func (r *run) warn(why string, err error) {
	if now := time.Now(); now.Sub(r.logged) > mostBackoff {
		r.logged = now
		r.o.Log.Warn("the run is held up", slog.String("why", why), slog.String("error", err.Error()))
	}
}
