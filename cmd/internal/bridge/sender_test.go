package bridge_test

import (
	"context"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/spout-queue/spout/cmd/internal/events"
)

// sender takes what a publisher sends.
type sender func(*nats.Msg)

func (s sender) PublishMsg(m *nats.Msg) error {
	s(m)
	return nil
}

// flush has a publisher send what was published.
func flush(t *testing.T, p *events.Publisher) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	p.Run(ctx)
}
