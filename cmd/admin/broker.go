package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/jobstream"
	"github.com/spout-queue/spout/cmd/internal/natsconn"
)

// broker is the NATS that the dashboard tells of. It may be away, also at the start. Only one at a time may look.
type broker struct {
	options natsconn.Options
	stream  string
	conn    *natsconn.Conn // nil until it was reached once
}

// brokerPatience is how long one try to reach NATS may take.
const brokerPatience = time.Second

// newBroker is nil when nobody said where NATS is.
func newBroker(ctx context.Context, s *command.Session) (*broker, error) {
	b := &broker{options: natsconn.FromFlags(s, "spout-admin")}
	if b.options.URL == "" && b.options.Context == "" {
		return nil, nil //nolint:nilnil // nobody asked for it
	}
	stream, err := natsconn.StreamFromFlags(s)
	if err != nil {
		return nil, err
	}
	b.stream, b.options.Patience = stream.Name, brokerPatience
	if err := b.connect(ctx); err != nil && !errors.Is(err, natsconn.ErrAway) {
		return nil, natsconn.Blame(err)
	}
	b.options.Log = slog.New(slog.DiscardHandler) // the dashboard tells from now on, as often as somebody looks
	return b, nil
}

func (b *broker) connect(ctx context.Context) (err error) {
	b.conn, err = natsconn.Connect(ctx, b.options)
	return err
}

// look tells how many messages wait in the stream of jobs.
func (b *broker) look(ctx context.Context) (uint64, error) {
	if b.conn == nil {
		if err := b.connect(ctx); err != nil {
			return 0, err
		}
	}
	if !b.conn.IsConnected() { // it goes on trying by itself
		return 0, nats.ErrDisconnected
	}
	return jobstream.Waiting(ctx, b.conn.JetStream, b.stream)
}

func (b *broker) close() {
	if b != nil && b.conn != nil {
		b.conn.Close()
	}
}

// watch is what the console asks, nil where there is no NATS.
func (b *broker) watch() func(context.Context) (uint64, error) {
	if b == nil {
		return nil
	}
	return b.look
}
