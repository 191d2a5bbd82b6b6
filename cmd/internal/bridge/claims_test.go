package bridge

import (
	"context"
	"errors"
	"log/slog"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spout-queue/spout/cmd/internal/natsconn"
	"github.com/spout-queue/spout/internal/natstest"
)

// stuckStream deletes no consumer, as while JetStream has no leader.
type stuckStream struct {
	jetstream.Stream
	err error
}

func (s stuckStream) DeleteConsumer(context.Context, string) error { return s.err }

// A consumer that could not be deleted is not taken for a new one: it would deliver what comes later before what it delivered already.
func TestRenewKeepsNoOldConsumer(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	conn, err := natsconn.Connect(t.Context(), natsconn.Options{URL: natstest.Start(t).URL, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	for _, test := range []struct {
		err  error
		left bool
	}{
		{errors.New("no leader"), true},
		{jetstream.ErrConsumerNotFound, false},
		{nil, false},
	} {
		c := newClaims(&Bridge{o: Options{NATS: conn, Log: log}, stream: stuckStream{err: test.err}}, "me")
		torn, ended := &claim{class: "calls", consumer: "me-calls", line: new(line), cancel: func() {}, ended: make(chan struct{})}, 0
		torn.cancel = func() { ended++ }
		torn.line.torn.Store(true)
		close(torn.ended)
		c.mine["calls"] = torn
		owners := map[string]string{"calls": "me-calls"}
		c.renew(t.Context(), owners)
		if (owners["calls"] != "") != test.left || len(c.mine) != 0 || ended == 0 {
			t.Errorf("%v: the owners are %v, and it carries %v", test.err, owners, c.mine)
		}
	}
}
