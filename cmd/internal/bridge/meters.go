package bridge

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/spout-queue/spout/cmd/internal/metercheck"
	"github.com/spout-queue/spout/meter"
)

// check answers a question to a meter.
func (s *service) check(ctx context.Context, r micro.Request) {
	m := &nats.Msg{Subject: s.replyTo(r)}
	switch d, err := s.meters.Decide(ctx, r.Data()); {
	case errors.Is(err, meter.ErrUnavailable):
		m.Header = errorHeader(503, "unavailable: "+oneLine(err))
	case err != nil:
		m.Header = errorHeader(400, "invalid: "+oneLine(err))
	default:
		m.Header, m.Data = decided(d)
	}
	s.send(m)
}

func decided(d meter.Decision) (header nats.Header, data []byte) {
	if !d.Conform && !d.Never {
		header = nats.Header{HeaderRetryAfter: {seconds(d.RetryAfter)}}
	}
	data, err := json.Marshal(metercheck.Say(d))
	if err != nil {
		panic(err) // numbers always marshal
	}
	return header, data
}
