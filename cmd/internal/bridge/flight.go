package bridge

import (
	"context"
	"errors"
	"time"

	"github.com/spout-queue/spout/queue"
)

// passenger is a bucket of a call, with the messages that it has in it.
type passenger struct {
	bucket   *bucket
	messages []*message
}

// flight is a call and, once it has landed, its results.
type flight struct {
	passengers []passenger
	results    []queue.Result
}

// launch makes as many calls as may be under way. The first does not wait for more messages.
func (l *line) launch(ctx, calls context.Context) {
	for l.hasRoom() && len(l.ready) > 0 && l.resume.IsZero() && ctx.Err() == nil {
		jobs, passengers := l.board()
		l.calls++
		l.flying += len(jobs)
		go func() {
			call, cancel := context.WithTimeout(calls, callTime)
			defer cancel()
			l.landed <- flight{passengers, l.b.o.Queue.SubmitMany(call, jobs)}
		}()
	}
}

// hasRoom tells that one more call may be under way.
func (l *line) hasRoom() bool {
	return l.calls < callsFew || l.calls < callsMost && l.hand-l.flying >= callJobs
}

// board collects one call.
func (l *line) board() (jobs []queue.Job, passengers []passenger) {
	most := min(callJobs, l.hand-l.flying)
	jobs, flown := make([]queue.Job, 0, most), make([]*message, 0, most)
	bytes, taken := callBytes, 0
	for _, b := range l.ready {
		n := b.take(callJobs-len(jobs), bytes)
		if n == 0 && len(jobs) > 0 {
			break
		}
		n = max(n, 1) // a payload that is too large is for the queue to refuse
		at := len(flown)
		flown = append(flown, b.hand[:n]...)
		for _, m := range flown[at:] {
			jobs = append(jobs, m.job)
			bytes -= len(m.job.Payload)
		}
		b.flying, b.queued = n, false
		passengers = append(passengers, passenger{b, flown[at:]})
		taken++
	}
	clear(l.ready[:taken])
	l.ready = l.ready[taken:]
	return jobs, passengers
}

// land draws the conclusions of a call.
func (l *line) land(ctx context.Context, f flight) {
	l.calls--
	l.flying -= len(f.results)
	l.spare(ctx, f.results)
	if l.away(ctx, f) {
		for _, p := range f.passengers {
			p.bucket.flying = 0
			l.enqueue(p.bucket)
		}
		return
	}
	l.backoff = 0
	results := f.results
	for _, p := range f.passengers {
		l.conclude(p, results[:len(p.messages)])
		results = results[len(p.messages):]
	}
}

// away tells that Redis answered none of the jobs of a call. Then they stay in hand and the line pauses.
func (l *line) away(ctx context.Context, f flight) bool {
	for _, r := range f.results {
		if !unreached(r.Err) || sick(r.Err) {
			l.b.reached(nil)
			return false
		}
	}
	if ctx.Err() != nil {
		return true
	}
	l.backoff = min(max(2*l.backoff, leastBackoff), mostBackoff/5)
	l.resume = time.Now().Add(l.backoff)
	if err := f.results[0].Err; !errors.Is(err, errGone) && !errors.Is(err, errNoClasses) { // of those the log was told
		l.b.reached(err)
	}
	return true
}

func unreached(err error) bool {
	reason := queue.ReasonOf(err)
	return err != nil && (reason == queue.ReasonUnavailable || reason == queue.ReasonUnknown || reason == queue.ReasonStoreFull)
}

// sick tells that it is the bucket that is broken, and not Redis.
func sick(err error) bool {
	_, ok := errors.AsType[*queue.SickError](err)
	return ok
}

// conclude sorts the messages of one bucket into final ones and those that wait.
func (l *line) conclude(p passenger, results []queue.Result) {
	b, now := p.bucket, time.Now()
	b.flying = 0
	b.opens = time.Time{}
	refused := false
	for i, r := range results {
		m := p.messages[i]
		full, _ := errors.AsType[*queue.FullError](r.Err)
		wait, isFull := noRoom(r.Err, full)
		switch {
		case r.Err == nil:
			l.final(b, m)
			b.refusals = 0
			l.settle(m.Ack())
			l.b.admitted(m, r.Receipt)
		case isFull, unreached(r.Err): // of this bucket alone: it is broken
			if !refused { // the times told to those behind it are further off
				b.refuse(now, wait)
			}
			refused = true
		default:
			l.final(b, m)
			l.reject(m, r.Err)
		}
	}
	if refused {
		l.clear(b, now)
	}
	if len(b.waiting) == 0 {
		delete(l.buckets, b.key)
		return
	}
	l.enqueue(b)
}

// clear puts all off that a full bucket has in hand, each until it may be its turn.
func (l *line) clear(b *bucket, now time.Time) {
	hand := b.hand
	b.hand = nil
	at := 0
	for _, m := range hand {
		for b.waiting[at] != m.seq {
			at++
		}
		l.settle(m.NakWithDelay(b.delay(now, at, l.gap())))
		l.release(m)
	}
}
