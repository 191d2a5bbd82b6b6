package events_test

import (
	"context"
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/spout-queue/spout/cmd/internal/events"
	"github.com/spout-queue/spout/cmd/internal/jobstream"
)

// connection takes messages, or fails.
type connection struct {
	fails bool
	sent  []*nats.Msg
}

func (c *connection) PublishMsg(m *nats.Msg) error {
	if c.fails {
		return errors.New("no")
	}
	c.sent = append(c.sent, m)
	return nil
}

// Publishing never waits: with nobody sending, what does not fit is dropped and counted, and the rest is sent in order.
func TestBounded(t *testing.T) {
	t.Parallel()
	c := &connection{}
	p := events.New(c, jobstream.DefaultPrefix, "test")
	const published = 20_000
	for i := range published {
		p.Publish(events.Event{What: events.Started, Class: "c", Key: "k", Attempt: i + 1})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.Run(ctx)
	if n := int64(len(c.sent)) + p.Dropped(); n != published || p.Dropped() == 0 || len(c.sent) == 0 {
		t.Errorf("%d sent and %d dropped of %d", len(c.sent), p.Dropped(), published)
	}
	ids := map[string]bool{}
	for _, m := range c.sent {
		ids[m.Header.Get("ce-id")] = true
	}
	if len(ids) != len(c.sent) {
		t.Errorf("%d ids for %d events", len(ids), len(c.sent))
	}
}

// What the connection does not take is counted too; a publisher that is not there takes everything.
func TestDropped(t *testing.T) {
	t.Parallel()
	p := events.New(&connection{fails: true}, jobstream.DefaultPrefix, "test")
	p.Publish(events.Event{What: events.Done, Class: "c", Key: "k", ID: "1"})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.Run(ctx)
	if p.Dropped() != 2 { // the event and the result
		t.Errorf("%d dropped", p.Dropped())
	}
	var none *events.Publisher
	none.Publish(events.Event{What: events.Done})
	none.Run(ctx)
	if none.Dropped() != 0 {
		t.Error("nothing was dropped")
	}
}
