package meter

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// RedisAt returns a store whose scripts take the time from the given key, in µs. Its keys do not expire, because real time
// is not that of the test: a meter that says nothing answers as none does.
func RedisAt(client redis.Scripter, clockKey string) Store {
	return newRedis(client, "local function clock_us() return redis.call('GET', '"+clockKey+"') + 0 end\n"+
		"local function ttl(us) return 1000000000 end\n")
}

// MemoryAt returns a store that takes the time from now, in µs.
func MemoryAt(keys int, now func() int64) Store {
	m := newMemory(int64(keys))
	m.now = now
	return m
}

// Keys tells how many keys a memory store holds.
func Keys(s Store) int64 { return s.(*memory).keys.Load() } //nolint:errcheck // a test that gives another one fails

// RedisKey is the key of a meter in Redis.
func (m *Meter) RedisKey(key string) string {
	return m.keeper.(*redisKeeper).name(key) //nolint:errcheck // a test with another store fails
}

// Together asks several checks in one call to Redis, as those are that waited at the door; of other meters one after the other.
func Together(ctx context.Context, m *Meter, keys []string, costs []int64) ([]Decision, []error) {
	decisions, errs := make([]Decision, len(keys)), make([]error, len(keys))
	k, ok := m.keeper.(*redisKeeper)
	if !ok || !k.quick {
		for i := range keys {
			decisions[i], errs[i] = m.Check(ctx, keys[i], costs[i])
		}
		return decisions, errs
	}
	batch := make([]*passage, len(keys))
	for i := range keys {
		batch[i] = &passage{keeper: k, key: keys[i], cost: costs[i]}
	}
	k.store.door.send(ctx, batch)
	for i, p := range batch {
		if errs[i] = p.err; p.err == nil {
			m.conclude(&p.answer, p.cost, &decisions[i])
		}
	}
	return decisions, errs
}

// Waiting is how many checks wait at the door of a Redis store.
func Waiting(s Store) int {
	d := s.(*redisStore).door //nolint:errcheck // a test that gives another one fails
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.waiting)
}

// LoadScripts sends the scripts of a Redis store before they are needed.
func LoadScripts(ctx context.Context, s Store) error {
	r := s.(*redisStore) //nolint:errcheck // as above
	return errors.Join(r.scripts.check.Load(ctx, r.client).Err(), r.scripts.checks.Load(ctx, r.client).Err())
}
