package bridge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go/micro"

	"github.com/spout-queue/spout/meter"
	"github.com/spout-queue/spout/queue"
)

// metersMost is how many limits are kept ready; what is known of their keys is in Redis.
const metersMost = 1000

// meters are those that were asked for, by their limits: the question names the limit, as a caller of package meter does.
type meters struct {
	store  meter.Store
	prefix string

	mu   sync.Mutex
	made map[meter.Limit]*meter.Meter
}

func newMeters(client *queue.Client) *meters {
	return &meters{store: meter.Redis(client.Redis()), prefix: client.Prefix() + ":meter:", made: map[meter.Limit]*meter.Meter{}}
}

func (m *meters) of(l meter.Limit) (*meter.Meter, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.made[l]; known != nil {
		return known, nil
	}
	made, err := meter.New(m.store, l, meter.Options{Prefix: m.prefix})
	if err != nil {
		return nil, err
	}
	if len(m.made) >= metersMost {
		clear(m.made)
	}
	m.made[l] = made
	return made, nil
}

// question is what meter.check takes.
type question struct {
	Key       string          `json:"key"`
	Cost      *int64          `json:"cost"`  // default 1
	Limit     string          `json:"limit"` // count/period
	Capacity  int64           `json:"capacity"`
	Algorithm meter.Algorithm `json:"algorithm"`
	Peek      bool            `json:"peek"`
}

// decision is what it answers.
type decision struct {
	Conform      bool   `json:"conform"`
	Limit        int64  `json:"limit"`
	Remaining    int64  `json:"remaining"`
	RetryAfterMS *int64 `json:"retry_after_ms,omitempty"`
	ResetAfterMS int64  `json:"reset_after_ms"`
	Never        bool   `json:"never,omitempty"`
}

func (s *service) check(ctx context.Context, r micro.Request) {
	d, err := s.meters.decide(ctx, r.Data())
	switch {
	case err == nil:
	case errors.Is(err, meter.ErrUnavailable):
		s.sent(r.Error(strconv.Itoa(503), "unavailable: "+oneLine(err), nil))
		return
	default:
		s.sent(r.Error(strconv.Itoa(400), "invalid: "+oneLine(err), nil))
		return
	}
	said := decision{
		Conform: d.Conform, Limit: d.Limit, Remaining: d.Remaining, Never: d.Never, ResetAfterMS: queue.Millis(d.ResetAfter),
	}
	header := micro.Headers{}
	if !d.Conform && !d.Never {
		said.RetryAfterMS = new(queue.Millis(d.RetryAfter))
		header[HeaderRetryAfter] = []string{seconds(d.RetryAfter)}
	}
	s.sent(r.RespondJSON(said, micro.WithHeaders(header)))
}

func (m *meters) decide(ctx context.Context, data []byte) (meter.Decision, error) {
	q, l, err := readQuestion(data)
	if err != nil {
		return meter.Decision{}, err
	}
	asked, err := m.of(l)
	if err != nil {
		return meter.Decision{}, err
	}
	cost := int64(1)
	if q.Cost != nil {
		cost = *q.Cost
	}
	if q.Peek {
		return asked.Peek(ctx, q.Key, cost)
	}
	return asked.Check(ctx, q.Key, cost)
}

// readQuestion reads the question and its limit. A bucket without a capacity has that of one period.
func readQuestion(data []byte) (question, meter.Limit, error) {
	var q question
	if err := strictly(data, &q); err != nil {
		return q, meter.Limit{}, fmt.Errorf("it is not a question to a meter: %w", err)
	}
	count, period, err := readLimit(q.Limit)
	if err != nil {
		return q, meter.Limit{}, err
	}
	l := meter.Limit{Algorithm: q.Algorithm, Capacity: q.Capacity, Count: count, Period: period}
	switch q.Algorithm {
	case "", meter.GCRA, meter.TokenBucket, meter.LeakyBucket:
		if l.Capacity == 0 {
			l.Capacity = count
		}
	default:
	}
	return q, l, nil
}

func readLimit(text string) (count int64, period time.Duration, err error) {
	if text == "" {
		return 0, 0, errors.New(`field "limit" is missing; write it like 100/60s`)
	}
	rate, err := queue.ParseRate(text)
	return rate.Limit, rate.Period, err
}

func strictly(data []byte, to any) error {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(to); err != nil {
		return err
	}
	if decoder.More() {
		return errors.New("there is something behind the object")
	}
	return nil
}
