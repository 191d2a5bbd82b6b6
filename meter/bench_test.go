package meter_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/meter"
)

// keyNames are made before the clock runs.
func keyNames(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprint("user:", i)
	}
	return keys
}

// BenchmarkMemory checks one key and 100,000 keys, from all processors.
func BenchmarkMemory(b *testing.B) {
	for _, n := range []int{1, 100_000} {
		for _, a := range []meter.Algorithm{meter.GCRA, meter.FixedWindow, meter.SlidingLog, meter.SlidingCounter} {
			b.Run(fmt.Sprintf("%s/keys=%d", a, n), func(b *testing.B) { benchMemory(b, a, keyNames(n)) })
		}
	}
}

func benchMemory(b *testing.B, a meter.Algorithm, keys []string) {
	b.Helper()
	l := meter.Limit{Algorithm: a, Count: 1000, Period: time.Second}
	if a == meter.GCRA {
		l.Capacity = 1000
	}
	m := newMeter(b, meter.Memory(), l, meter.Options{})
	for _, k := range keys {
		check(b, m, k, 1)
	}
	var from atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for i := int(from.Add(7919)); pb.Next(); i++ {
			if _, err := m.Check(b.Context(), keys[i%len(keys)], 1); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkRedis checks one key and 100,000 keys, with 64 callers.
func BenchmarkRedis(b *testing.B) {
	for _, n := range []int{1, 100_000} {
		for _, a := range []meter.Algorithm{meter.GCRA, meter.FixedWindow, meter.SlidingLog, meter.SlidingCounter} {
			b.Run(fmt.Sprintf("%s/keys=%d", a, n), func(b *testing.B) {
				benchRedis(b, redistest.Start(b).Client(b), a, keyNames(n), meter.Options{})
			})
		}
	}
}

// BenchmarkDenied checks a key that is refused, with and without the denial cache.
func BenchmarkDenied(b *testing.B) {
	for _, size := range []int{0, 1000} {
		b.Run(fmt.Sprintf("cache=%d", size), func(b *testing.B) {
			rdb := redistest.Start(b).Client(b)
			m := newMeter(b, meter.Redis(rdb), meter.Limit{Capacity: 1, Count: 1, Period: time.Hour}, meter.Options{DenialCache: size})
			b.SetParallelism(32)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					check(b, m, "user:1", 1)
				}
			})
		})
	}
}

func benchRedis(b *testing.B, rdb *redis.Client, a meter.Algorithm, keys []string, o meter.Options) {
	b.Helper()
	l := meter.Limit{Algorithm: a, Count: 1000, Period: time.Second}
	if a == meter.GCRA {
		l.Capacity = 1000
	}
	m := newMeter(b, meter.Redis(rdb), l, o)
	check(b, m, keys[0], 1)
	var from atomic.Int64
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for i := int(from.Add(7919)); pb.Next(); i++ {
			check(b, m, keys[i%len(keys)], 1)
		}
	})
}
