package meter_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/meter"
)

// start is a time for test clocks, µs, as large as real ones.
const start = int64(1_700_000_000_000_000)

// fataler is testing.TB or *rapid.T.
type fataler interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func must(t fataler, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// clocked is a store whose time the test sets.
type clocked struct {
	meter.Store
	set func(us int64)
}

func memoryAt(keys int) clocked {
	var now atomic.Int64
	return clocked{meter.MemoryAt(keys, now.Load), now.Store}
}

func redisAt(t fataler, rdb *redis.Client) clocked {
	const key = "clock"
	return clocked{meter.RedisAt(rdb, key), func(us int64) {
		t.Helper()
		must(t, rdb.Set(context.Background(), key, us, 0).Err())
	}}
}

// eachClocked runs test on Redis, miniredis and memory, at times that it sets.
func eachClocked(t *testing.T, test func(t *testing.T, s clocked)) {
	t.Helper()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) { test(t, redisAt(t, rdb)) })
	t.Run("memory", func(t *testing.T) { test(t, memoryAt(1000)) })
}

// each runs test on Redis, miniredis and memory, at their own time.
func each(t *testing.T, test func(t *testing.T, s meter.Store)) {
	t.Helper()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) { test(t, meter.Redis(rdb)) })
	t.Run("memory", func(t *testing.T) { test(t, meter.Memory()) })
}

func newMeter(t fataler, s meter.Store, l meter.Limit, o meter.Options) *meter.Meter {
	t.Helper()
	if c, ok := s.(clocked); ok {
		s = c.Store
	}
	m, err := meter.New(s, l, o)
	must(t, err)
	return m
}

func perSecond(capacity, count int64) meter.Limit {
	return meter.Limit{Capacity: capacity, Count: count, Period: time.Second}
}

func check(t fataler, m *meter.Meter, key string, n int64) meter.Decision {
	t.Helper()
	d, err := m.Check(context.Background(), key, n)
	must(t, err)
	return d
}
