package queue

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// batchMost is the most submissions of one script call.
	batchMost = 100
	// batchBytes of payload end a batch early, so that no call holds Redis for long.
	batchBytes = 1 << 20
	// flightTime bounds a call whose callers set no deadline of their own.
	flightTime = 30 * time.Second
)

// door collects the submissions of one shard for as long as a call is under way: none waits while the shard is idle, and
// under load many share one round trip. Its goroutines live only while there is work, so that it needs no closing.
type door struct {
	c    *Client
	kind flightKind

	mu      sync.Mutex
	waiting []*submission
	flying  bool
}

func newDoor(c *Client, kind flightKind) *door { return &door{c: c, kind: kind} }

// submission is one job on its way through a script call.
type submission struct {
	job    *Job
	ref    string
	digest string
	others int64 // jobs of the class that wait in other shards; -1 not known
	ack    Ack   // what the receipt is to vouch for; empty: memory, unless the class asks for more

	storeFull bool

	receipt Receipt
	err     error
	done    chan struct{}
}

// submit passes one job through the door.
func (d *door) submit(ctx context.Context, s *submission) (Receipt, error) {
	s.done = make(chan struct{})
	if ctx.Err() != nil {
		return Receipt{}, notSent(ctx)
	}
	d.mu.Lock()
	d.waiting = append(d.waiting, s)
	if !d.flying {
		d.flying = true
		go d.fly() //nolint:gosec,contextcheck // outlives the caller: others travel along
	}
	d.mu.Unlock()

	select {
	case <-s.done:
		return s.receipt, s.err
	case <-ctx.Done():
	}
	select {
	case <-s.done:
		return s.receipt, s.err
	default:
	}
	if d.withdraw(s) {
		return Receipt{}, notSent(ctx)
	}
	return Receipt{}, unknownOutcome(s.job, ctx.Err())
}

func notSent(ctx context.Context) error {
	return redisError("submit", fmt.Errorf("%w: %w", errNotSent, ctx.Err()))
}

// withdraw takes a submission back that has not been sent.
func (d *door) withdraw(s *submission) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, w := range d.waiting {
		if w == s {
			d.waiting = append(d.waiting[:i:i], d.waiting[i+1:]...)
			return true
		}
	}
	return false
}

// fly sends batch after batch until nobody waits.
func (d *door) fly() {
	for {
		batch := d.next()
		if batch == nil {
			return
		}
		ctx, cancel := context.WithTimeout(context.Background(), flightTime)
		d.c.admit(ctx, d.kind, batch)
		cancel()
		for _, s := range batch {
			close(s.done)
		}
	}
}

// next takes a batch off the waiting ones, or ends the flight.
func (d *door) next() []*submission {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) == 0 {
		d.flying = false
		return nil
	}
	n := batchLength(d.waiting)
	batch := d.waiting[:n:n]
	d.waiting = d.waiting[n:]
	return batch
}

// batchLength is how many of the submissions fit into one script call, at least one.
func batchLength(subs []*submission) int {
	bytes := 0
	for n, s := range subs {
		bytes += len(s.job.Payload)
		if n == batchMost || (n > 0 && bytes > batchBytes) {
			return n
		}
	}
	return len(subs)
}
