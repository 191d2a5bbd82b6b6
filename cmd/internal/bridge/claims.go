package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nats.go/micro"

	"github.com/spout-queue/spout/cmd/internal/jobstream"
)

const (
	// claimEvery is how often a bridge looks for classes that nobody carries.
	claimEvery = time.Second
	// An owner is gone after so many signs: a ping that nobody hears is worth two, one without an answer in time one.
	goneAt   = 4
	unheard  = 2
	noAnswer = 1
	pingTime = 500 * time.Millisecond
	// askTime bounds a question to JetStream or Redis.
	askTime = 5 * time.Second
	// pullMessages, and as many bytes as the largest two messages or pullBytes, are asked for at once.
	pullMessages = 1000
	pullBytes    = 4 << 20
	pullTime     = 10 * time.Second
)

// claims is which classes this bridge carries. A claim is the consumer of a class in the stream: a work queue has one for
// each subject, and the server sees to that. Its name begins with the id of the bridge, which is that of its service, so that
// the others can ask whether it lives. One whose bridge is gone is deleted, and a new one begins with the first message
// that is not acknowledged: no state is handed over, and none is lost.
type claims struct {
	b    *Bridge
	id   string
	mine map[string]*claim // by code, as all maps here
	gone map[string]int    // owner -> signs in a row that it is
	// reconnects of the connection, as of the last look.
	reconnects uint64
	// known are the classes in Redis and their intervals, as of the last look.
	known map[string]*interval
	// foreign are consumers of the stream that no bridge made: they take what they get from the buckets.
	foreign []string
	// unfit: somebody changed the stream into one that cannot serve.
	unfit error
	// blind: the stream could not be looked after; unread: the classes could not be read.
	blind, unread outage
	// strays are classes, or what stands for one in a subject, that are not in Redis and have messages.
	strays    map[string]string
	strayNext time.Time
	// wild are subjects of messages that no consumer can be made for, and from which sequence on they are looked for.
	wild     map[string]uint64
	wildNext time.Time
}

// claim is a class that this bridge carries.
type claim struct {
	class    string
	consumer string
	interval *interval
	line     *line
	cancel   context.CancelFunc
	ended    chan struct{}
}

// interval is that of a class, which may change, or be known only later.
type interval struct {
	class string
	ns    atomic.Int64
}

func newClaims(b *Bridge, id string) *claims {
	return &claims{
		b: b, id: id, mine: map[string]*claim{}, gone: map[string]int{}, known: map[string]*interval{},
		strays: map[string]string{}, wild: map[string]uint64{},
	}
}

// run claims what is free until ctx ends, and then gives all back.
func (c *claims) run(ctx context.Context) {
	tick := time.NewTicker(claimEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		c.note(ctx, c.look(ctx))
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
	for _, mine := range c.mine {
		mine.cancel()
	}
	for _, mine := range c.mine {
		<-mine.ended
	}
	// Where NATS is away or hangs, others find out that nobody answers for these claims.
	deadline := time.Now().Add(finishTime)
	for code := range c.mine {
		if !c.b.o.NATS.IsConnected() || time.Now().After(deadline) {
			return
		}
		c.release(ctx, code)
	}
	c.sweep(ctx)
}

// sweep deletes what was claimed without the bridge hearing of it, since it was told to stop just then.
func (c *claims) sweep(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	owners, err := c.owners(ctx)
	for _, name := range owners {
		if ownerOf(name) == c.id {
			err = errors.Join(err, c.b.stream.DeleteConsumer(ctx, name))
		}
	}
	if err != nil {
		c.b.o.Log.Debug("could not give all classes back", slog.String("error", err.Error()))
	}
}

// note tells the log what keeps the bridge from its work. While the connection is lost, that is known.
func (c *claims) note(ctx context.Context, err error) {
	if ctx.Err() != nil || !c.b.o.NATS.IsConnected() || !c.blind.tell(err != nil) {
		return
	}
	if err == nil {
		c.b.o.Log.Info("looks after the stream again")
		return
	}
	c.b.o.Log.Warn("could not look after the stream", slog.String("stream", c.b.o.Stream.Name), slog.String("error", err.Error()))
}

// look claims the classes that nobody carries.
func (c *claims) look(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	owners, err := c.owners(ctx)
	c.b.looked(err)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return errors.Join(err, c.b.ensure(ctx)) // somebody deleted it
	}
	if err != nil {
		return err
	}
	c.renew(ctx, owners)
	c.bury(ctx, owners)
	c.classes(ctx)
	failed := errors.Join(c.findStrays(ctx), c.unfit)
	for code, class := range c.wanted() {
		if owners[code] == "" && c.mine[code] == nil {
			failed = errors.Join(failed, c.claim(ctx, code, class))
		}
	}
	return errors.Join(failed, c.endWild(ctx))
}

// renew gives up what another bridge took, what lost messages on their way, and, when the connection was lost meanwhile, everything:
// what was said last may not have been heard, and what was put off would come back only when JetStream misses its acknowledgement.
func (c *claims) renew(ctx context.Context, owners map[string]string) {
	reconnects := c.b.o.NATS.Stats().Reconnects
	again := reconnects != c.reconnects
	c.reconnects = reconnects
	var over []string
	for code, mine := range c.mine {
		taken := owners[code] != mine.consumer
		if taken {
			c.b.o.Log.Warn("the claim to a class was lost", slog.String("class", mine.class))
		}
		if taken || again || mine.line.torn.Load() {
			mine.cancel() // all of them, before any is waited for
			over = append(over, code)
		}
	}
	for _, code := range over {
		consumer := c.mine[code].consumer
		// One that may still be there must not be taken for a new one: it would deliver later messages first.
		if c.release(ctx, code) && owners[code] == consumer {
			delete(owners, code)
		}
	}
}

// wanted are the classes that somebody must carry.
func (c *claims) wanted() map[string]string {
	all := maps.Clone(c.strays)
	all[jobstream.NoClass] = jobstream.NoClass
	for code, of := range c.known {
		all[code] = of.class
	}
	return all
}

// classes reads which there are. While Redis is away, those of before count.
func (c *claims) classes(ctx context.Context) {
	list, err := c.b.o.Queue.Classes().List(ctx)
	if c.unread.tell(err != nil) {
		if err != nil {
			c.b.o.Log.Warn("the classes cannot be read; those of before count", slog.String("error", err.Error()))
		} else {
			c.b.o.Log.Info("the classes can be read again")
		}
	}
	if err != nil {
		return
	}
	known := map[string]*interval{}
	for _, class := range list {
		code := codeOf(class.Name)
		of := c.known[code]
		if of == nil {
			of = c.intervalOf(code, class.Name)
			if class.Dedup == 0 {
				c.b.o.Log.Warn("the class has no dedup: a message that is delivered again after its job has ended is admitted again",
					slog.String("class", class.Name))
			}
		}
		of.ns.Store(int64(class.Rate.Interval()))
		known[code] = of
		delete(c.strays, code)
	}
	c.known = known
}

// intervalOf is that of a class that was not known. Its messages may be carried already, as those of a stray.
func (c *claims) intervalOf(code, class string) *interval {
	if mine := c.mine[code]; mine != nil {
		return mine.interval
	}
	return &interval{class: class}
}

// owners are the consumers of the stream that bridges made.
func (c *claims) owners(ctx context.Context) (map[string]string, error) {
	owners := map[string]string{}
	c.foreign = nil
	list := c.b.stream.ConsumerNames(ctx)
	for name := range list.Name() {
		if _, code, ok := jobstream.ReadConsumer(name); ok {
			owners[code] = name
		} else {
			c.foreign = append(c.foreign, name)
		}
	}
	return owners, list.Err()
}

func ownerOf(consumer string) string {
	id, _, _ := jobstream.ReadConsumer(consumer)
	return id
}

// bury deletes the consumers of bridges that do not live.
func (c *claims) bury(ctx context.Context, owners map[string]string) {
	asked := map[string]bool{}
	for _, name := range owners {
		owner := ownerOf(name)
		if owner == c.id || asked[owner] {
			continue
		}
		asked[owner] = true
		if sign := c.ping(ctx, owner); sign == 0 {
			delete(c.gone, owner)
		} else {
			c.gone[owner] += sign
		}
	}
	maps.DeleteFunc(c.gone, func(owner string, _ int) bool { return !asked[owner] })
	for code, name := range owners {
		owner := ownerOf(name)
		if c.gone[owner] < goneAt && (owner != c.id || c.mine[code] != nil) {
			continue
		}
		if err := c.b.stream.DeleteConsumer(ctx, name); err == nil || errors.Is(err, jetstream.ErrConsumerNotFound) {
			c.b.o.Log.Info("took a class from a bridge that is gone", slog.String("consumer", name))
			delete(owners, code)
		}
	}
}

// ping asks a bridge for a sign of life; 0 is one.
func (c *claims) ping(ctx context.Context, id string) int {
	subject, err := micro.ControlSubject(micro.PingVerb, serviceName, id)
	if err != nil { // no name of a service: nobody
		return unheard
	}
	ctx, cancel := context.WithTimeout(ctx, pingTime)
	defer cancel()
	switch _, err = c.b.o.NATS.RequestWithContext(ctx, subject, nil); {
	case err == nil:
		return 0
	case errors.Is(err, nats.ErrNoResponders):
		return unheard
	}
	return noAnswer
}

// claim makes the consumer of a class and carries its messages, unless another bridge was faster.
func (c *claims) claim(ctx context.Context, code, class string) error {
	name, filters := jobstream.Consumer(c.id, code), c.b.o.Stream.Filters(class)
	if code == jobstream.NoClass {
		filters = c.b.o.Stream.FiltersOfNone()
	}
	consumer, err := c.b.stream.CreateConsumer(ctx, jetstream.ConsumerConfig{
		Durable: name, Description: "carries jobs into the buckets of " + class, FilterSubjects: filters,
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: ackWait, MaxAckPending: jobstream.Window, MaxDeliver: -1,
	})
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == notUnique {
		return c.taken(class)
	}
	if err != nil {
		return fmt.Errorf("claim class %s: %w", class, err)
	}
	of := c.known[code]
	if of == nil {
		of = &interval{class: class}
	}
	l := newLine(c.b, class, &of.ns)
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	limit := max(pullBytes, 2*int(c.b.o.NATS.MaxPayload()))
	consuming, err := consumer.Consume(func(m jetstream.Msg) { l.deliver(running, m) },
		jetstream.PullMaxMessagesWithBytesLimit(pullMessages, limit), jetstream.PullExpiry(pullTime),
		jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
			c.b.o.Log.Debug("consume", slog.String("class", class), slog.String("error", err.Error()))
		}))
	if err != nil {
		cancel()
		return errors.Join(err, c.b.stream.DeleteConsumer(ctx, name))
	}
	mine := &claim{class: class, consumer: name, interval: of, line: l, cancel: cancel, ended: make(chan struct{})}
	c.mine[code] = mine
	go func() {
		defer close(mine.ended)
		l.run(running)
		consuming.Stop()
	}()
	c.b.o.Log.Info("carries a class", slog.String("class", class))
	return nil
}

// taken is the error when a class cannot be claimed, unless another bridge was faster.
func (c *claims) taken(class string) error {
	if c.foreign == nil {
		return nil
	}
	return fmt.Errorf("class %s is not carried: a consumer that is no bridge's has its messages; delete it: nats consumer rm %s %s",
		class, c.b.o.Stream.Name, strings.Join(c.foreign, "|"))
}

// notUnique is JetStream's code for a consumer whose subjects another one of the work queue has.
const notUnique = 10100

// release ends a claim: what is in hand and not admitted is delivered to the next bridge. It tells whether the consumer is gone.
func (c *claims) release(ctx context.Context, code string) (gone bool) {
	mine := c.mine[code]
	delete(c.mine, code)
	mine.cancel()
	<-mine.ended
	if err := c.b.o.NATS.FlushTimeout(time.Second); err != nil { // the acknowledgements, before the consumer goes
		c.b.o.Log.Debug("flush", slog.String("error", err.Error()))
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	err := c.b.stream.DeleteConsumer(ctx, mine.consumer)
	if err == nil || errors.Is(err, jetstream.ErrConsumerNotFound) {
		return true
	}
	c.b.o.Log.Debug("could not give a class back", slog.String("class", mine.class), slog.String("error", err.Error()))
	return false
}
