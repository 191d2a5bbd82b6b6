package meter

import (
	"context"
	"fmt"
	"hash/maphash"
	"strings"
	"sync"
	"time"
)

const leaseShards = 64

// leases has the units that this process took ahead. A nil one has none.
type leases struct {
	size   int64
	period time.Duration // after which what is left lapses
	began  time.Time
	seed   maphash.Seed
	shards [leaseShards]leaseShard
}

type leaseShard struct {
	mu   sync.Mutex
	keys map[string]*lease
	full int // clean up when there are as many
}

// lease of one key. Who holds busy may use it.
type lease struct {
	busy  chan struct{}
	gone  bool // no longer in its shard
	units int64
	until time.Duration // when they lapse, since began
	last  answer
}

func newLeases(size int64, period time.Duration) *leases {
	l := &leases{size: size, period: period, began: time.Now(), seed: maphash.MakeSeed()}
	for i := range l.shards {
		l.shards[i] = leaseShard{keys: map[string]*lease{}, full: 64}
	}
	return l
}

// leased is Check with units taken ahead. Callers of one key come one after the other, so that they share a lease instead
// of each taking one.
func (m *Meter) leased(ctx context.Context, key string, n int64, a *answer) error {
	l, err := m.leases.hold(ctx, key)
	if err != nil {
		return err
	}
	defer l.release()
	now := time.Since(m.leases.began)
	if now >= l.until {
		l.units = 0
	}
	if l.units >= n {
		m.counts.add(leasedOut)
		l.units -= n
		*a = l.answer()
		return nil
	}
	if err := m.ask(ctx, key, call{op: opTake, least: n - l.units, most: max(n-l.units, m.leases.size)}, a); err != nil {
		return err
	}
	if a.verdict == conforming && !a.away {
		l.units += a.taken - n
		l.until, l.last = now+m.leases.period, *a
		*a = l.answer()
	}
	return nil
}

// answer is that of the last lease, with the units that are left of it.
func (l *lease) answer() answer {
	a := l.last
	a.remaining += l.units
	return a
}

// hold returns the lease of a key once nobody else has it.
func (l *leases) hold(ctx context.Context, key string) (*lease, error) {
	for {
		held := l.find(key)
		select {
		case held.busy <- struct{}{}:
		case <-ctx.Done():
			return nil, fmt.Errorf("meter: wait for the lease of %q: %w", clip(key), ctx.Err())
		}
		if !held.gone {
			return held, nil
		}
		held.release()
	}
}

func (l *lease) release() { <-l.busy }

func (l *leases) find(key string) *lease {
	s := l.shard(key)
	defer s.mu.Unlock()
	held := s.keys[key]
	if held == nil {
		s.clean(time.Since(l.began))
		held = &lease{busy: make(chan struct{}, 1)}
		s.keys[strings.Clone(key)] = held
	}
	return held
}

// shard returns the locked shard of a key.
func (l *leases) shard(key string) *leaseShard {
	s := &l.shards[maphash.String(l.seed, key)%leaseShards]
	s.mu.Lock()
	return s
}

// clean drops what has lapsed, each time the shard has doubled since the last.
func (s *leaseShard) clean(now time.Duration) {
	if len(s.keys) < s.full {
		return
	}
	for key, held := range s.keys {
		select {
		case held.busy <- struct{}{}:
			if now >= held.until {
				held.gone = true
				delete(s.keys, key)
			}
			held.release()
		default: // in use
		}
	}
	s.full = max(64, 2*len(s.keys))
}

// forget drops the lease of a key; a call that has it keeps what it has just taken.
func (l *leases) forget(key string) {
	if l == nil {
		return
	}
	s := l.shard(key)
	held := s.keys[key]
	delete(s.keys, key)
	s.mu.Unlock()
	if held != nil {
		held.busy <- struct{}{}
		held.gone = true
		held.release()
	}
}
