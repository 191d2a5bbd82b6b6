package meter

import "github.com/redis/go-redis/v9"

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
