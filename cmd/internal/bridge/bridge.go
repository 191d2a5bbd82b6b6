// Package bridge carries jobs from NATS into buckets: requests are answered at once, messages of a JetStream stream are
// acknowledged once their job is admitted.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/events"
	"github.com/spout-queue/spout/cmd/internal/jobstream"
	"github.com/spout-queue/spout/cmd/internal/natsconn"
	"github.com/spout-queue/spout/queue"
)

// Options of [New].
type Options struct {
	NATS *natsconn.Conn
	// Queue takes the jobs.
	Queue *queue.Client
	// Stream that keeps the jobs on their way; its Subjects are those of the requests too.
	Stream jobstream.Config
	// Requests and Durable switch the two ways in. At least one is on.
	Requests, Durable bool
	// RequestTime bounds the answer to a request.
	RequestTime time.Duration
	// Events are told what was admitted and rejected; nil for none.
	Events *events.Publisher
	Log    *slog.Logger
}

// Bridge is one of any number of bridges of an installation.
type Bridge struct {
	o      Options
	stream jetstream.Stream // nil when not durable
	redis  outage
	seen   atomic.Pointer[sight]
	counts counts
}

// sight is how the bridge saw its stream.
type sight struct {
	last time.Time // it was seen
	err  error     // since then
}

// counts are shown by nats micro stats.
type counts struct{ admitted, duplicate, rejected atomic.Int64 }

const (
	// patience is how long JetStream may be away at the start, tryTime how long it may take to answer.
	patience = 30 * time.Second
	tryTime  = 3 * time.Second
)

// New returns a bridge whose stream is there. It waits for a JetStream that is away, as after a restart. The error wraps
// [jobstream.ErrUnfit] when the stream cannot serve.
func New(ctx context.Context, o Options) (*Bridge, error) {
	b := &Bridge{o: o}
	if !o.Durable {
		return b, nil
	}
	var away outage
	for deadline := time.Now().Add(patience); ; {
		err := b.ensure(ctx)
		if err == nil || errors.Is(err, jobstream.ErrUnfit) || denied(err) || time.Now().After(deadline) {
			return b, err
		}
		if away.tell(true) {
			o.Log.Warn("waiting for jetstream", slog.Duration("patience", patience), slog.String("error", err.Error()))
		}
		select {
		case <-time.After(leastBackoff):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// denied tells that JetStream has answered, and that another answer is not to be expected.
func denied(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && api.Code < 500
}

func (b *Bridge) ensure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tryTime)
	defer cancel()
	stream, differs, err := jobstream.Ensure(ctx, b.o.NATS.JetStream, b.o.Stream)
	if err != nil {
		return err
	}
	if differs != nil {
		b.o.Log.Warn("the stream is not as configured; it is left as it is",
			slog.String("stream", b.o.Stream.Name), slog.String("differs", strings.Join(differs, "; ")))
	}
	if b.stream == nil { // it stands for the name, so it serves when somebody deleted the stream, too
		b.stream = stream
	}
	return nil
}

// Run serves until ctx ends. What is under way may finish; then the connection to NATS is closed.
func (b *Bridge) Run(ctx context.Context) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var telling sync.WaitGroup
	telling.Go(func() { b.o.Events.Run(background) })

	service, err := b.serve(ctx)
	if err != nil {
		return err
	}
	b.o.Log.Info("the bridge is open", slog.String("id", service.Info().ID), slog.String("nats", b.o.NATS.Address()),
		slog.String("subjects", string(b.o.Stream.Subjects)))
	if b.o.Durable {
		newClaims(b, service.Info().ID).run(ctx)
	} else {
		<-ctx.Done()
	}
	service.finish()
	stop()
	telling.Wait()
	return b.close()
}

// close closes the connection once all is sent.
func (b *Bridge) close() error {
	closed := b.o.NATS.StatusChanged(nats.CLOSED)
	if err := b.o.NATS.Drain(); err != nil && !errors.Is(err, nats.ErrConnectionReconnecting) && !errors.Is(err, nats.ErrConnectionClosed) {
		return fmt.Errorf("close the bridge: %w", err)
	}
	select {
	case <-closed:
	case <-time.After(finishTime):
		b.o.NATS.Close()
	}
	return nil
}

// readyTime bounds the answer of Ready.
const readyTime = time.Second

// Ready tells why the bridge cannot carry jobs now, or nil. It asks Redis.
func (b *Bridge) Ready() error {
	if !b.o.NATS.IsConnected() {
		return fmt.Errorf("not connected to nats: %v", b.o.NATS.Status())
	}
	ctx, cancel := context.WithTimeout(context.Background(), readyTime)
	defer cancel()
	if err := b.o.Queue.Redis().Ping(ctx).Err(); err != nil {
		return fmt.Errorf("redis does not answer: %w", err)
	}
	return b.unseen()
}

// unseenMost is how long the stream may be out of sight, as while it gets another leader.
const unseenMost = 10 * time.Second

// unseen tells that the bridge has not seen its stream for too long, and why.
func (b *Bridge) unseen() error {
	seen := b.seen.Load()
	if seen == nil || seen.err == nil || time.Since(seen.last) <= unseenMost {
		return nil
	}
	return fmt.Errorf("stream %s was not seen for %v: %w", b.o.Stream.Name, time.Since(seen.last).Round(time.Second), seen.err)
}

// looked notes whether the stream was seen.
func (b *Bridge) looked(err error) {
	now := sight{last: time.Now(), err: err}
	if before := b.seen.Load(); err != nil && before != nil {
		now.last = before.last
	}
	b.seen.Store(&now)
}

// reached notes whether Redis took jobs.
func (b *Bridge) reached(err error) {
	switch {
	case !b.redis.tell(err != nil):
	case err != nil:
		b.o.Log.Warn("redis does not take jobs; they wait in the stream", slog.String("error", err.Error()))
	default:
		b.o.Log.Info("redis takes jobs again")
	}
}

// admitted tells of an admission.
func (b *Bridge) admitted(m *message, r queue.Receipt) {
	b.tell(m.job, r, nil)
}

func (b *Bridge) tell(job queue.Job, r queue.Receipt, err error) {
	switch {
	case err != nil:
		b.counts.rejected.Add(1)
		b.o.Events.Publish(events.Event{
			What: events.Rejected, Class: job.Class, Key: job.Key, ID: job.ID,
			Reason: string(answer.Reason(err)), Error: err.Error(),
		})
	case r.Status == queue.Admitted:
		b.counts.admitted.Add(1)
		b.o.Events.Publish(events.Event{What: events.Admitted, Class: job.Class, Key: job.Key, ID: r.ID, Ref: r.Ref})
	default:
		b.counts.duplicate.Add(1)
	}
}

// Headers of the copy of a rejected message.
const (
	HeaderReason   = "Spout-Reason"
	HeaderDetail   = "Spout-Detail"
	HeaderSubject  = "Spout-Subject"
	HeaderSequence = "Spout-Sequence"
	// HeaderOmitted has the bytes of a body that did not fit.
	HeaderOmitted = "Spout-Omitted"
)

// rejected sends a copy of a message that is no job, with the reason, and tells the log.
func (b *Bridge) rejected(m *message, why error) {
	b.tell(m.job, queue.Receipt{}, why)
	reason := string(answer.Reason(why))
	b.o.Log.Warn("a message was rejected", slog.String("subject", m.Subject()), slog.Uint64("sequence", m.seq),
		slog.String("reason", reason), slog.String("error", why.Error()))
	c := nats.NewMsg(b.o.Stream.Subjects.Rejected(m.job.Class))
	for name, values := range m.Headers() {
		if !strings.HasPrefix(name, "Nats-") { // those would mean something to a stream that keeps the copies
			c.Header[name] = values
		}
	}
	c.Header.Set(HeaderReason, reason)
	c.Header.Set(HeaderDetail, oneLine(why))
	c.Header.Set(HeaderSubject, m.Subject())
	c.Header.Set(HeaderSequence, fmt.Sprint(m.seq))
	c.Data = m.Data()
	err := b.o.NATS.PublishMsg(c)
	if errors.Is(err, nats.ErrMaxPayload) {
		c.Header.Set(HeaderOmitted, fmt.Sprint(len(c.Data)))
		c.Data = nil
		err = b.o.NATS.PublishMsg(c)
	}
	if errors.Is(err, nats.ErrMaxPayload) { // its headers alone are too long
		own := nats.Header{}
		for _, name := range []string{HeaderReason, HeaderDetail, HeaderSubject, HeaderSequence, HeaderOmitted} {
			own[name] = c.Header[name]
		}
		c.Header = own
		err = b.o.NATS.PublishMsg(c)
	}
	if err != nil {
		b.o.Log.Warn("the copy of a rejected message could not be sent", slog.String("subject", c.Subject), slog.String("error", err.Error()))
	}
}

// oneLine is the text of an error as a header can carry it.
func oneLine(err error) string {
	return strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r < ' ' || r == 0x7f }), " ")
}

// firstOf is the sequence of the first message of a key in the stream from one on; the largest number when there is none.
func (b *Bridge) firstOf(ctx context.Context, class, key string, from uint64) (uint64, error) {
	m, err := b.stream.GetMsg(ctx, from, jetstream.WithGetMsgSubject(b.o.Stream.Subjects.Jobs(class, key)))
	switch {
	case errors.Is(err, jetstream.ErrMsgNotFound):
		return math.MaxUint64, nil
	case err != nil:
		return 0, err
	}
	return m.Sequence, nil
}
