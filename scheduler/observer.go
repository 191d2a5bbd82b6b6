package scheduler

import (
	"context"
	"strconv"
	"time"

	"github.com/spout-queue/spout/queue"
)

// Observer is told what happens in a worker: for metrics, traces, events. Every field may be nil. The functions are called
// on the worker's own goroutines, so they must be quick, and safe for concurrent use; what they are given is not theirs to
// change or to keep.
type Observer struct {
	// Called: a call for departures was answered, or failed.
	Called func(Call)
	// Woken: a hint said that a bucket of a shard became the earliest due.
	Woken func(shard int)
	// Started: an attempt is about to start. The handler gets the returned context.
	Started func(context.Context, *Attempt) context.Context
	// Ended: an attempt that was started has ended. The context is the one that Started returned.
	Ended func(context.Context, *Attempt, End)
	// Returned: a departure that did not start goes back to the head of its bucket.
	Returned func(*Attempt, ReturnReason)
	// Refused: Redis did not take a verdict, since the departure was no longer out.
	Refused func(class string)
	// Buried: a job is dead, since its attempt failed for good or was its last one, and why. It is told once Redis has taken
	// that; when the reply is lost, it may not be told.
	Buried func(a *Attempt, why string)
	// Reclaimed: what a worker that is gone had out was taken back, and what became of it. When the reply is lost, it may not be
	// told.
	Reclaimed func(queue.Reclaimed)
	// Repaired: this worker and Redis did not agree on what is out here. Returned were unknown here and went back; ended
	// were told to end, since Redis no longer has them out here.
	Repaired func(returned, ended int)
	// RolledBack: a shard's data turned out to be older than what happened.
	RolledBack func(shard int)
	// Lost: no contact with a shard for so long that its handlers were told to end.
	Lost func(shard int)
}

// Call is one call for departures.
type Call struct {
	Shard, Want, Jobs int
	// Took is the time to the reply.
	Took time.Duration
	// Lost are jobs that went back because an earlier reply was lost.
	Lost int
	// Err is nil when Redis answered.
	Err error
}

// Attempt is one departure that starts.
type Attempt struct {
	*queue.Departure
	// Started is when, by the server's time; zero for one that does not.
	Started time.Time
	// Lateness is Started minus Due, the service level.
	Lateness time.Duration
}

// Headers are those of the attempt's task, as handlers see them.
func (a *Attempt) Headers() map[string]string { return headersOf(a.Departure) }

func headersOf(d *queue.Departure) map[string]string {
	h := map[string]string{
		"Spout-Class": d.Class, "Spout-Key": d.Key, "Spout-Id": d.ID, "Spout-Ref": d.Ref, "Spout-Attempt": strconv.Itoa(d.Attempt),
		"Spout-Due": d.Due.UTC().Format(queue.TimeFormat),
	}
	if d.Settings.HTTP != "" {
		h["Spout-Http"] = d.Settings.HTTP
	}
	return h
}

// Waited is the time from when the job joined its line to its start, and whether this is its first departure: later ones wait
// for other reasons too.
func (a *Attempt) Waited() (d time.Duration, first bool) {
	return max(0, a.Started.Sub(time.UnixMicro(a.Number))), a.Attempt == 1 && a.Backs == 0
}

// End is how an attempt ended.
type End struct {
	Outcome queue.Outcome
	// Run is how long the handler ran.
	Run time.Duration
	// Result is what the handler wrote, when the Outcome is [queue.Done].
	Result []byte
	// Hold is for how long the called service asked to be left alone, when the Outcome is [queue.Held].
	Hold time.Duration
	// HoldClass: that is for all buckets of the class.
	HoldClass bool
	// Error is what it returned, as it is kept with the job.
	Error string
	// Reason says why the job went back when the Outcome is [queue.Back].
	Reason ReturnReason
}

// ReturnReason is why a departure goes back to the head of its bucket.
type ReturnReason string

// The reasons.
const (
	ReturnedStale   ReturnReason = "stale"   // it was too old to start
	ReturnedHandler ReturnReason = "handler" // its handler gave it back
	ReturnedStop    ReturnReason = "stop"    // the worker stopped, or lost contact
	ReturnedUnfed   ReturnReason = "unfed"   // asynq's server did not take it
)

// observers are told one after the other.
type observers []Observer

func (o observers) called(c Call) {
	for i := range o {
		if f := o[i].Called; f != nil {
			f(c)
		}
	}
}

func (o observers) woken(shard int) {
	for i := range o {
		if f := o[i].Woken; f != nil {
			f(shard)
		}
	}
}

func (o observers) started(ctx context.Context, a *Attempt) context.Context {
	for i := range o {
		if f := o[i].Started; f != nil {
			ctx = f(ctx, a)
		}
	}
	return ctx
}

func (o observers) ended(ctx context.Context, a *Attempt, e End) {
	for i := range o {
		if f := o[i].Ended; f != nil {
			f(ctx, a, e)
		}
	}
}

func (o observers) returned(a *attempt, why ReturnReason) {
	for i := range o {
		if f := o[i].Returned; f != nil {
			f(&Attempt{Departure: &a.Departure}, why)
		}
	}
}

func (o observers) refused(class string) {
	for i := range o {
		if f := o[i].Refused; f != nil {
			f(class)
		}
	}
}

func (o observers) buried(a *attempt, why string) {
	for i := range o {
		if f := o[i].Buried; f != nil {
			f(&Attempt{Departure: &a.Departure}, why)
		}
	}
}

func (o observers) reclaimed(r queue.Reclaimed) {
	for i := range o {
		if f := o[i].Reclaimed; f != nil {
			f(r)
		}
	}
}

func (o observers) repaired(returned, ended int) {
	for i := range o {
		if f := o[i].Repaired; f != nil && returned+ended > 0 {
			f(returned, ended)
		}
	}
}

func (o observers) rolledBack(shard int) {
	for i := range o {
		if f := o[i].RolledBack; f != nil {
			f(shard)
		}
	}
}

func (o observers) lost(shard int) {
	for i := range o {
		if f := o[i].Lost; f != nil {
			f(shard)
		}
	}
}

// watch tells of the attempt that is about to start, and returns the handler's context and what is to be called at its end.
func (o observers) watch(ctx context.Context, a *attempt) (context.Context, func(queue.Verdict)) {
	if len(o) == 0 {
		return ctx, func(queue.Verdict) {}
	}
	began := time.Now()
	seen := &Attempt{
		Departure: &a.Departure, Started: a.clock.server(began), Lateness: began.Sub(a.clock.local(a.Due)),
	}
	ctx = o.started(ctx, seen)
	return ctx, func(v queue.Verdict) {
		e := End{Outcome: v.Outcome, Run: time.Since(began), Hold: v.Hold, HoldClass: v.HoldClass, Error: v.Error, Result: v.Result}
		if v.Outcome == queue.Back {
			e.Reason = ReturnedStop
			if v.Stale {
				e.Reason = ReturnedHandler
			}
		}
		o.ended(ctx, seen, e)
	}
}
