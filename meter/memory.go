package meter

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"
)

const (
	mostKeys   = 1 << 20 // of a store made by Memory
	shardCount = 128
	sweepEvery = 50_000     // µs between the sweeps of two shards, so that each is swept every 6.4 s
	keepIdle   = 10_000_000 // µs that a meter is kept after it says nothing any more, since it may be used again
)

// Memory returns a store in this process for up to 1,048,576 keys; see [MemoryOf].
func Memory() Store { return newMemory(mostKeys) }

// MemoryOf returns a store in this process for up to keys keys, at least 1, over all limits. Keys whose meters say nothing
// any more for 10 s are collected while others are used, a few at a time; no goroutine runs. When there is no room, a
// call with a new key is [ErrFull].
func MemoryOf(keys int) Store { return newMemory(int64(max(1, keys))) }

func newMemory(keys int64) *memory {
	began := time.Now()
	base := began.UnixMicro()
	return &memory{
		most: keys, seed: maphash.MakeSeed(), tables: map[string]*table{},
		// Since reads the monotonic clock: setting the clock of the machine changes nothing.
		now: func() int64 { return base + time.Since(began).Microseconds() },
	}
}

type memory struct {
	now  func() int64 // µs since 1970, and never back
	most int64
	keys atomic.Int64
	seed maphash.Seed

	mu     sync.Mutex
	tables map[string]*table // by prefix and the name of the law
}

// open returns the table of a law. Laws that differ only in their capacity or penalty share it.
func (m *memory) open(w *law, prefix string) keeper {
	m.mu.Lock()
	defer m.mu.Unlock()
	name := prefix + w.name()
	t := m.tables[name]
	if t == nil {
		t = &table{memory: m, number: len(m.tables)}
		m.tables[name] = t
	}
	return &memoryKeeper{table: t, law: w}
}

// table has the meters of one rate, spread over shards, each with its own lock.
type table struct {
	*memory
	number int
	sweep  atomic.Int64 // time of the next sweep, µs
	next   atomic.Uint64
	shards [shardCount]shard
}

// memoryKeeper keeps the meters of one law in this process.
type memoryKeeper struct {
	table *table
	law   *law
}

func (k *memoryKeeper) do(_ context.Context, key string, c call) (answer, error) {
	var a answer
	err := k.answer(key, c, &a)
	return a, err
}

// answer is do without a copy.
func (k *memoryKeeper) answer(key string, c call, a *answer) error {
	t := k.table
	now := t.now()
	if now >= t.sweep.Load() {
		t.sweepNext(now)
	}
	hash := t.hash(key)
	s := t.shard(hash)
	if cell := s.lock(hash, key); cell != nil {
		k.law.do(&cell.state, now, c, a)
		cell.mu.Unlock()
		return nil
	}
	return k.begin(s, hash, key, now, c, a)
}

// begin is answer for a key that had no meter just now. One that would say nothing is not kept.
func (k *memoryKeeper) begin(s *shard, hash uint64, key string, now int64, c call, a *answer) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cell := s.find(hash, key); cell != nil { // it has one since
		cell.mu.Lock()
		defer cell.mu.Unlock()
		k.law.do(&cell.state, now, c, a)
		return nil
	}
	var fresh state
	k.law.do(&fresh, now, c, a)
	if fresh.until <= now {
		return nil
	}
	if !k.table.reserve(1) && (k.table.collect(s, now) == 0 || !k.table.reserve(1)) {
		return k.table.full(key)
	}
	k.table.keep(s, hash, key, fresh)
	return nil
}

// reset leaves a cell that says nothing, to be collected.
func (k *memoryKeeper) reset(_ context.Context, key string) error {
	hash := k.table.hash(key)
	if cell := k.table.shard(hash).lock(hash, key); cell != nil {
		cell.clear()
		cell.mu.Unlock()
	}
	return nil
}

func (t *table) hash(key string) uint64   { return maphash.String(t.seed, key) }
func (t *table) shard(hash uint64) *shard { return &t.shards[hash%shardCount] }

// reserve makes room for n more keys, if there is any.
func (m *memory) reserve(n int64) bool {
	if m.keys.Add(n) <= m.most {
		return true
	}
	m.keys.Add(-n)
	return false
}

func (m *memory) full(key string) error {
	return fmt.Errorf("%w: no room for key %q beside %d in use; make the store larger with MemoryOf", ErrFull, clip(key), m.most)
}

// sweepNext collects what is idle in one shard; the caller that comes first when it is due does it.
func (t *table) sweepNext(now int64) {
	due := t.sweep.Load()
	if now < due || !t.sweep.CompareAndSwap(due, now+sweepEvery) {
		return
	}
	s := &t.shards[t.next.Add(1)%shardCount]
	s.mu.Lock()
	defer s.mu.Unlock()
	t.collect(s, now-keepIdle)
}
