package bridge

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spout-queue/spout/queue"
)

const (
	// handMost and handBytes bound what a class has in hand; more is read only when that is less.
	handMost  = 2000
	handBytes = 8 << 20
	// callJobs and callBytes are one script call per shard: more would be several, between which a job could overtake
	// another of its bucket.
	callJobs  = 100
	callBytes = 1 << 20
	// callsFew calls of a class are under way at once, each with buckets of its own, and up to callsMost when there is
	// enough to fill them: few large calls are cheaper than many small ones.
	callsFew  = 2
	callsMost = 16
	// ackWait is how long JetStream waits for a message before it delivers it again; what is in hand for a third of that is
	// asked to be left there.
	ackWait = 30 * time.Second
	// callTime bounds a call to Redis.
	callTime = 10 * time.Second
	// finishTime is how long calls under way may take to finish when the bridge stops.
	finishTime = 5 * time.Second
)

// Submitter is the queue.
type Submitter interface {
	SubmitMany(ctx context.Context, jobs []queue.Job) []queue.Result
}

// line carries the messages of one class into their buckets, in the order of the stream for each key. One goroutine owns it.
type line struct {
	b        *Bridge
	class    string
	interval *atomic.Int64 // of the class, ns; 0 unknown

	arrivals chan *message
	landed   chan flight

	delivered uint64      // the last delivery that came; of the subscription's goroutine
	torn      atomic.Bool // deliveries were lost on their way: nothing after them may go in

	buckets map[string]*bucket
	ready   []*bucket
	hand    int // messages, and
	bytes   int // their bodies
	calls   int // under way, and
	flying  int // their jobs
	done    finals

	resume  time.Time // Redis is away: no call before then
	backoff time.Duration
	gone    time.Time // since when the class is not in Redis; zero while it is
	missing outage    // messages wait for that
}

func newLine(b *Bridge, class string, interval *atomic.Int64) *line {
	return &line{
		b: b, class: class, interval: interval, buckets: map[string]*bucket{},
		arrivals: make(chan *message, pullMessages), landed: make(chan flight, callsMost),
	}
}

// deliver hands a message over from the goroutine of the subscription, and waits while the line has enough in hand. What was
// delivered and did not come, as when a connection breaks, comes again only after ackWait: none that was delivered after it may go
// in before, since it may be of the same key. The claim is made anew then, and delivers from the first on.
func (l *line) deliver(ctx context.Context, m jetstream.Msg) {
	r, err := l.b.read(m)
	if err != nil {
		l.b.o.Log.Warn("a message that no stream delivered", slog.String("subject", m.Subject()), slog.String("error", err.Error()))
		return
	}
	if l.torn.Load() {
		return
	}
	if r.delivery != l.delivered+1 {
		l.torn.Store(true)
		l.b.o.Log.Info("messages were lost on their way from nats; they are delivered anew", slog.String("class", l.class))
		return
	}
	l.delivered = r.delivery
	select {
	case l.arrivals <- r:
	case <-ctx.Done():
	}
}

// run carries messages until ctx ends, and then waits for the calls under way.
func (l *line) run(ctx context.Context) {
	keep := time.NewTicker(ackWait / 3)
	defer keep.Stop()
	calls, cancel := finishing(ctx)
	defer cancel()
	for {
		l.launch(ctx, calls)
		arrivals := l.arrivals
		if l.hand >= handMost || l.bytes >= handBytes {
			arrivals = nil
		}
		select {
		case m := <-arrivals:
			l.arrive(m)
			l.drainArrivals()
		case f := <-l.landed:
			l.land(ctx, f)
		case <-l.paused():
			l.resume = time.Time{}
		case <-keep.C:
			l.keep(ctx)
		case <-ctx.Done():
			for l.calls > 0 {
				l.land(ctx, <-l.landed)
			}
			return
		}
	}
}

// drainArrivals takes what else is there, so that a call carries many.
func (l *line) drainArrivals() {
	for l.hand < handMost && l.bytes < handBytes {
		select {
		case m := <-l.arrivals:
			l.arrive(m)
		default:
			return
		}
	}
}

// finishing is a context that outlives ctx by finishTime.
func finishing(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(finishTime, cancel) })
	return longer, func() { stop(); cancel() }
}

// paused is when calls go on after Redis was away; nil when it is not.
func (l *line) paused() <-chan time.Time {
	if l.resume.IsZero() {
		return nil
	}
	return time.After(time.Until(l.resume))
}

// arrive takes a message in: into the hand when it may soon be submitted, else back to JetStream for a while.
func (l *line) arrive(m *message) {
	if l.done.has(m.seq) { // its acknowledgement was lost
		l.settle(m.Ack())
		return
	}
	if m.bad != nil {
		l.done.add(m.seq)
		l.reject(m, m.bad)
		return
	}
	b := l.buckets[m.job.Key]
	if b == nil {
		b = &bucket{key: m.job.Key}
		l.buckets[m.job.Key] = b
	}
	index, taken := b.arrive(m)
	if !taken {
		return
	}
	l.hand++
	l.bytes += m.size
	now := time.Now()
	shut := b.flying == 0 && b.opens.After(now)
	early := (l.hand > handMost/2 || l.bytes > handBytes/2) && !b.gapless(index) // leave room for the one it waits for
	if shut || early {
		if delay, ok := b.goesBack(now, index, l.gap()); ok || early {
			l.putOff(b, m, delay)
		}
		return
	}
	l.enqueue(b)
}

func (l *line) gap() time.Duration { return time.Duration(l.interval.Load()) }

// putOff has a message delivered again later.
func (l *line) putOff(b *bucket, m *message, delay time.Duration) {
	l.settle(m.NakWithDelay(delay))
	if at, here := b.find(m.seq); here {
		b.hand = append(b.hand[:at:at], b.hand[at+1:]...)
	}
	l.release(m)
}

func (l *line) release(m *message) {
	l.hand--
	l.bytes -= m.size
}

// enqueue puts a bucket among those that may be submitted to, if it has something for that.
func (l *line) enqueue(b *bucket) {
	if !b.queued && b.flying == 0 && b.leads() {
		b.queued = true
		l.ready = append(l.ready, b)
	}
}

// settle notes an acknowledgement that could not be sent: the message comes again, and is known by then.
func (l *line) settle(err error) {
	if err != nil {
		l.b.o.Log.Debug("an acknowledgement could not be sent", slog.String("class", l.class), slog.String("error", err.Error()))
	}
}

// keep asks for what has been in hand for long to be left there, as while Redis is away, and looks for messages that do not
// come back.
func (l *line) keep(ctx context.Context) {
	now := time.Now()
	for _, b := range l.buckets {
		for _, m := range b.hand {
			l.settle(m.InProgress())
		}
		if b.flying == 0 && b.overdue(now) {
			l.forget(ctx, b)
		}
	}
}

// forget takes messages off the books that are no longer in the stream, as after a purge: nobody must wait for them.
func (l *line) forget(ctx context.Context, b *bucket) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	first, err := l.b.firstOf(ctx, l.class, b.key, b.waiting[0])
	if err != nil {
		return // next time
	}
	for _, m := range b.forget(first) {
		l.release(m)
	}
	if len(b.waiting) == 0 {
		delete(l.buckets, b.key)
		return
	}
	l.enqueue(b)
}

// final takes an answered message off the books.
func (l *line) final(b *bucket, m *message) {
	b.final(m)
	l.release(m)
	l.done.add(m.seq)
}

// reject ends a message that is no job, or never will be one, and tells who listens why.
func (l *line) reject(m *message, why error) {
	l.b.rejected(m, why)
	l.settle(m.TermWithReason(oneLine(why)))
}
