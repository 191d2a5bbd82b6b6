package scheduler

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spout-queue/spout/queue"
)

const (
	// poll is the longest time between two calls: the heartbeat, and what a lost wake hint costs at most.
	poll = time.Second
	// slack is how much later than the next due time those workers call that were not the last to move something. They
	// take over from one that is gone or busy, and cost little while it is not.
	slack = 3 * time.Millisecond
	// askMost keeps one call short: what departs together also starts together.
	askMost = 32
)

// drain asks one shard for departures: one call at a time, and the next one when something will be due.
type drain struct {
	s      *Scheduler
	outlet *queue.Outlet
	shard  int

	fault    backoff // calls that failed in a row
	lease    lease   // of what is out here
	doubt    bool    // what Redis has out here may not be what runs here
	stopping bool    // no further departures

	round atomic.Int64 // when the loop went round last, Unix ns

	freed <-chan struct{} // when not nil, slots are waited for

	mu      sync.Mutex
	mover   bool      // this worker was the last to move something
	clock   clock     // the server's time in ours
	at      time.Time // when to call next
	due     time.Time // the server's time of what is expected then, zero for a mere poll
	calling bool      // a call is under way
	heard   time.Time // the earliest due of the hints that came meanwhile, zero for none
	sooner  chan struct{}
}

func newDrain(s *Scheduler, outlet *queue.Outlet) *drain {
	d := &drain{s: s, outlet: outlet, shard: len(s.drains), sooner: make(chan struct{}, 1)}
	d.lease.lost = d.leaseLost
	d.round.Store(time.Now().UnixNano())
	return d
}

// clock translates the server's times: its Now was ours at about the middle of the call.
type clock struct{ theirs, ours time.Time }

func (c clock) local(t time.Time) time.Time { return c.ours.Add(t.Sub(c.theirs)) }

func (c clock) server(t time.Time) time.Time { return c.theirs.Add(t.Sub(c.ours)) }

// run calls until ctx ends. A call under way is waited for: its reply may hold jobs.
func (d *drain) run(ctx context.Context) {
	for d.sleep(ctx) {
		d.call(context.WithoutCancel(ctx))
	}
}

// beat calls without wanting anything, until ctx ends.
func (d *drain) beat(ctx context.Context) {
	d.stopping = true
	for pause(ctx, poll) {
		d.call(context.WithoutCancel(ctx))
	}
}

// sleep waits for the time of the next call, or for a slot. False means the end.
func (d *drain) sleep(ctx context.Context) bool {
	for {
		d.mu.Lock()
		timer := time.NewTimer(time.Until(d.at))
		d.mu.Unlock()
		select {
		case <-timer.C:
			return ctx.Err() == nil
		case <-d.freed:
			timer.Stop()
			if !d.awaitSlots() {
				return ctx.Err() == nil
			}
		case <-d.sooner:
			timer.Stop()
		case <-ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// schedule sets the time of the next call, and what is due then by the server's time.
func (d *drain) schedule(at, due time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calling, d.heard = false, time.Time{}
	d.at, d.due = at, due
}

// wake brings the next call forward when a bucket became due earlier than anything known.
func (d *drain) wake(w queue.Wake) {
	if len(d.s.o.Classes) > 0 && !slices.Contains(d.s.o.Classes, w.Class) {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.calling { // it may have been too early to see what this is about: plan decides
		if d.heard.IsZero() || w.Due.Before(d.heard) {
			d.heard = w.Due
		}
		return
	}
	if d.bringForward(w.Due) {
		select {
		case d.sooner <- struct{}{}:
		default:
		}
	}
}

// bringForward makes the next call one for what is due then by the server's time, if that is earlier. mu is held.
func (d *drain) bringForward(due time.Time) bool {
	at := time.Now()
	if !d.clock.ours.IsZero() {
		at = d.clock.local(due)
	}
	if !d.mover {
		at = at.Add(jittered(slack))
	}
	if !at.Before(d.at) {
		return false
	}
	d.at, d.due = at, due
	return true
}

// call makes one call and hands on what departed.
func (d *drain) call(ctx context.Context) {
	d.round.Store(time.Now().UnixNano())
	most := askMost
	if d.stopping {
		most = 0
	}
	if d.s.stage.staleRun.Load() >= staleTooOften {
		most = min(most, 1)
	}
	want := d.s.slots.take(most)
	suspect := want > 0 && d.s.suspect.take()
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	d.mu.Lock()
	d.calling = true
	d.mu.Unlock()
	sent := time.Now()
	found, err := d.outlet.Depart(ctx, queue.Ask{Want: want, Classes: d.s.o.Classes, Suspect: suspect})
	got := time.Now()
	d.s.seen.called(Call{Shard: d.shard, Want: want, Jobs: len(found.Jobs), Took: got.Sub(sent), Lost: found.Returned, Err: err})
	if suspect && !slices.ContainsFunc(found.Jobs, func(j queue.Departure) bool { return j.Suspect }) {
		d.s.suspect.put()
	}
	if err != nil {
		d.s.slots.put(want)
		d.failed(ctx, err)
		return
	}
	d.recovered(ctx)
	d.lease.renew(sent)
	d.s.slots.put(want - len(found.Jobs))
	d.plan(found, want, sent.Add(got.Sub(sent)/2))
	times := clock{theirs: found.Now, ours: sent.Add(got.Sub(sent) / 2)}
	for _, job := range found.Jobs {
		d.start(ctx, &attempt{Departure: job, shard: d.shard, freshUntil: sent.Add(d.s.o.Freshness), clock: times})
	}
	for _, ref := range found.Cancelled {
		d.s.stage.cancel(ref)
	}
	d.rolledBack(ctx, found.Rollback)
	d.reconcile(ctx)
}

// start feeds one departure to asynq.
func (d *drain) start(ctx context.Context, a *attempt) {
	d.s.stage.admit(a)
	err := d.s.feed.put(ctx, task{ID: a.taskID(), Type: a.Type, Payload: a.Payload, Headers: headersOf(&a.Departure)})
	if err != nil {
		d.s.o.Logger.LogAttrs(ctx, slog.LevelWarn, "departure not started, given back",
			slog.String("ref", a.Ref), slog.Any("error", err))
		d.s.stage.giveBack(a.taskID(), ReturnedUnfed)
	}
}

// plan decides when to call next. middle is our time of the call.
func (d *drain) plan(found queue.Departures, want int, middle time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.clock = clock{theirs: found.Now, ours: middle}
	switch {
	case found.Visits > 0:
		d.mover = true // and so this worker is the one to be on time next
	case want > 0 && !d.due.IsZero() && !found.Now.Before(d.due):
		d.mover = false // what was due then, another had moved
	}
	heard := d.heard
	d.calling, d.heard = false, time.Time{}
	d.at, d.due = middle.Add(poll), time.Time{}
	if d.freed = nil; found.Wait == 0 && d.awaitSlotsLocked() {
		return // more is due than there are slots for
	}
	if found.Wait >= 0 {
		d.bringForward(found.Now.Add(found.Wait))
	}
	if !heard.IsZero() && d.bringForward(heard) {
		d.due = time.Time{} // this very call may have moved it, and not another worker
	}
}

// awaitSlots puts the next call off until there are slots for it. False means that there are.
func (d *drain) awaitSlots() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.awaitSlotsLocked()
}

func (d *drain) awaitSlotsLocked() bool {
	freed, longest := d.s.slots.wait()
	d.freed = freed
	if freed == nil {
		return false
	}
	d.at, d.due = time.Now().Add(longest), time.Time{}
	return true
}

func (d *drain) failed(ctx context.Context, err error) {
	wait, refused := d.fault.next(), errors.Is(err, queue.ErrRefused)
	d.doubt = d.doubt || refused
	if d.fault.failures == 1 && refused {
		wait = 0 // the next call number will do
	}
	if d.fault.failures == 1 {
		d.s.o.Logger.LogAttrs(ctx, slog.LevelWarn, "departures failed, will be asked for again",
			slog.Int("shard", d.shard), slog.Any("error", err))
	}
	d.schedule(time.Now().Add(wait), time.Time{})
}

func (d *drain) recovered(ctx context.Context) {
	if d.fault.failures > 1 {
		d.s.o.Logger.LogAttrs(ctx, slog.LevelInfo, "departures work again",
			slog.Int("shard", d.shard), slog.Int("failures", d.fault.failures))
	}
	d.fault.failures = 0
}

// jittered is between d and twice d, so that idle workers do not call in step.
func jittered(d time.Duration) time.Duration {
	return d + rand.N(d) //nolint:gosec // no secret
}
