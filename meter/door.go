package meter

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	mostTogether = 100              // checks of one script call
	flightTime   = 30 * time.Second // bounds a call for several, whose callers have deadlines of their own
)

// door lets checks of plain buckets share round trips. While a call is under way the others wait, and then go together in the
// next: nobody waits while Redis is idle, and under load a round trip, most of what a check costs, is shared by many. Its
// goroutine lives only while there is work, so that it needs no closing.
type door struct {
	client redis.Scripter
	script *redis.Script
	apart  atomic.Bool // the client reaches a cluster, where keys of different slots cannot go together
	idle   sync.Pool   // of *passage; its channels belong to this store

	mu      sync.Mutex
	waiting []*passage
	flying  bool
}

// passage is one check on its way through the door.
type passage struct {
	keeper *redisKeeper
	key    string // as the caller named it
	cost   int64
	answer answer
	err    error
	done   chan struct{}
}

func newDoor(client redis.Scripter, script *redis.Script) *door {
	d := &door{client: client, script: script}
	d.idle.New = func() any { return &passage{done: make(chan struct{}, 1)} }
	return d
}

// check passes one check through the door. Who finds it free calls alone, with the own context.
func (d *door) check(ctx context.Context, k *redisKeeper, key string, n int64) (answer, error) {
	if d == nil || d.apart.Load() {
		return k.check(ctx, key, n)
	}
	d.mu.Lock()
	if !d.flying {
		d.flying = true
		d.mu.Unlock()
		defer d.land() //nolint:contextcheck // what flies then carries others
		return k.check(ctx, key, n)
	}
	p, _ := d.idle.Get().(*passage)
	p.keeper, p.key, p.cost = k, key, n
	d.waiting = append(d.waiting, p)
	d.mu.Unlock()
	select {
	case <-p.done:
		a, err := p.answer, p.err
		d.idle.Put(p)
		return a, err
	case <-ctx.Done(): // its outcome is unknown, unless it can still be withdrawn
		d.withdraw(p)
		return answer{}, redisError("ask the meter of "+clip(key), ctx.Err())
	}
}

// land ends the flight of one who called alone.
func (d *door) land() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.flying = len(d.waiting) > 0; d.flying {
		go d.fly()
	}
}

// withdraw takes back what has not been sent.
func (d *door) withdraw(p *passage) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, w := range d.waiting {
		if w == p {
			d.waiting = append(d.waiting[:i:i], d.waiting[i+1:]...)
			return
		}
	}
}

// fly sends one call after the other until nobody waits.
func (d *door) fly() {
	for batch := d.next(); batch != nil; batch = d.next() {
		ctx, cancel := context.WithTimeout(context.Background(), flightTime)
		d.send(ctx, batch)
		cancel()
		for _, p := range batch {
			p.done <- struct{}{}
		}
	}
}

// next takes those who wait, or ends the flight.
func (d *door) next() []*passage {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := min(len(d.waiting), mostTogether)
	if n == 0 {
		d.flying, d.waiting = false, nil
		return nil
	}
	batch := d.waiting[:n:n]
	d.waiting = d.waiting[n:]
	return batch
}

// send asks for a batch and gives each its answer.
func (d *door) send(ctx context.Context, batch []*passage) {
	const undecided = -2
	keys, args := make([]string, 0, len(batch)), make([]any, 0, 4*len(batch))
	for _, p := range batch {
		keys = append(keys, p.keeper.name(p.key))
		args = append(append(args, p.cost), p.keeper.numbers...)
	}
	reply, err := d.script.Run(ctx, d.client, keys, args...).Int64Slice()
	switch {
	case err != nil && strings.HasPrefix(err.Error(), "CROSSSLOT"): // nothing was done
		d.apart.Store(true)
	case err == nil && len(reply) != 4*len(batch):
		err = replyError(len(reply))
	}
	for i, p := range batch {
		switch {
		case d.apart.Load() || err == nil && reply[4*i] == undecided:
			p.answer, p.err = p.keeper.check(ctx, p.key, p.cost)
		case err != nil:
			p.err = redisError("ask the meter of "+clip(p.key), err)
		default:
			p.answer, p.err = checked(reply[4*i:], p.cost), nil
		}
	}
}

// checked reads the four numbers that answer a check.
func checked(r []int64, n int64) answer {
	a := answer{verdict: verdict(r[0]), remaining: r[1], retry: r[2], reset: r[3]}
	if a.verdict == conforming {
		a.taken = n
	}
	return a
}
