// Package metercheck answers questions to meters: the question has the limit, as a caller of package meter has it. It is the same
// through NATS and HTTP.
package metercheck

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spout-queue/spout/cmd/internal/strictjson"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/meter"
	"github.com/spout-queue/spout/queue"
)

// most is how many limits are kept ready; what is known of their keys is in Redis.
const most = 1000

// Meters are those that were asked for, by their limits. They are safe for concurrent use.
type Meters struct {
	store  meter.Store
	prefix string

	mu   sync.Mutex
	made map[meter.Limit]*meter.Meter
}

// New returns the meters of an installation.
func New(client *queue.Client) *Meters {
	return &Meters{store: meter.Redis(client.Redis()), prefix: client.Prefix() + ":meter:", made: map[meter.Limit]*meter.Meter{}}
}

// Decide answers a question in JSON, see [wire.Question]. The error wraps [meter.ErrUnavailable] when Redis could not be asked, and
// is about the question otherwise.
func (m *Meters) Decide(ctx context.Context, data []byte) (meter.Decision, error) {
	q, l, err := read(data)
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

// Say is a decision as it is sent.
func Say(d meter.Decision) wire.Decision {
	said := wire.Decision{
		Conform: d.Conform, Limit: d.Limit, Remaining: d.Remaining, Never: d.Never, ResetAfterMS: queue.Millis(d.ResetAfter),
	}
	if !d.Conform && !d.Never {
		said.RetryAfterMS = new(queue.Millis(d.RetryAfter))
	}
	return said
}

func (m *Meters) of(l meter.Limit) (*meter.Meter, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.made[l]; known != nil {
		return known, nil
	}
	made, err := meter.New(m.store, l, meter.Options{Prefix: m.prefix})
	if err != nil {
		return nil, err
	}
	if len(m.made) >= most {
		clear(m.made)
	}
	m.made[l] = made
	return made, nil
}

// read reads a question and its limit. A bucket without a capacity has that of one period.
func read(data []byte) (wire.Question, meter.Limit, error) {
	var q wire.Question
	if err := strictjson.Decode(data, &q); err != nil {
		return q, meter.Limit{}, fmt.Errorf("it is not a question to a meter: %w", err)
	}
	count, period, err := readLimit(q.Limit)
	if err != nil {
		return q, meter.Limit{}, err
	}
	l := meter.Limit{Algorithm: meter.Algorithm(q.Algorithm), Capacity: q.Capacity, Count: count, Period: period}
	switch l.Algorithm {
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
