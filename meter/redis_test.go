package meter_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/meter"
)

// limits has one of each algorithm, of n units an hour.
func limits(n int64) []meter.Limit {
	return []meter.Limit{
		{Algorithm: meter.GCRA, Capacity: n, Count: n, Period: time.Hour},
		{Algorithm: meter.TokenBucket, Capacity: n, Count: n, Period: time.Hour},
		{Algorithm: meter.LeakyBucket, Capacity: n, Count: n, Period: time.Hour},
		{Algorithm: meter.FixedWindow, Count: n, Period: time.Hour},
		{Algorithm: meter.FixedWindow, Count: n, Period: time.Hour, Align: meter.AlignFirstEvent},
		{Algorithm: meter.SlidingLog, Count: n, Period: time.Hour},
		{Algorithm: meter.SlidingCounter, Count: n, Period: time.Hour},
	}
}

// A key lives exactly as long as its meter says something: ResetAfter, rounded up to Redis's milliseconds.
func TestKeysExpire(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		for i, l := range limits(1000) {
			m := newMeter(t, meter.Redis(rdb), l, meter.Options{})
			key := fmt.Sprint("k", i)
			for _, n := range []int64{1, 7, 500} {
				d := check(t, m, key, n)
				ttl := rdb.PTTL(t.Context(), m.RedisKey(key)).Val()
				if ttl > d.ResetAfter+time.Millisecond || ttl < d.ResetAfter-200*time.Millisecond {
					t.Errorf("%v: lives %v, resets after %v", l, ttl, d.ResetAfter)
				}
			}
			if _, err := m.Refund(t.Context(), key, 508); err != nil {
				t.Fatal(err)
			}
			if n := rdb.Exists(t.Context(), m.RedisKey(key)).Val(); n != 0 {
				t.Errorf("%v: a meter without debt still has a key", l)
			}
		}
	})
}

// A meter of the shortest life has a key that expires too.
func TestShortestLife(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		for _, l := range limits(1) {
			l.Period = time.Microsecond
			m := newMeter(t, meter.Redis(rdb), l, meter.Options{})
			check(t, m, "k", 1)
			if ttl := rdb.PTTL(t.Context(), m.RedisKey("k")).Val(); ttl > time.Millisecond || ttl == -1 {
				t.Errorf("%v: lives %v, want at most 1 ms", l, ttl)
			}
		}
	})
}

func TestBytesPerKey(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	for _, l := range limits(1000) {
		m := newMeter(t, meter.Redis(rdb), l, meter.Options{})
		const key = "user:12345"
		for range 1000 {
			check(t, m, key, 1)
		}
		bytes := rdb.MemoryUsage(t.Context(), m.RedisKey(key)).Val()
		most := int64(112)
		switch l.Algorithm {
		case meter.SlidingLog:
			most = 12_000
		case meter.FixedWindow, meter.SlidingCounter: // three and four numbers
			most = 120
		case meter.GCRA, meter.TokenBucket, meter.LeakyBucket:
		}
		t.Logf("%v: %d bytes", l, bytes)
		if bytes > most {
			t.Errorf("%v: %d bytes, want at most %d: %q", l, bytes, most, rdb.Get(t.Context(), m.RedisKey(key)).Val())
		}
	}
}

func TestCluster(t *testing.T) {
	t.Parallel()
	store := meter.Redis(redistest.Cluster(t, 2).Client(t))
	hourly := newMeter(t, store, meter.Limit{Capacity: 5, Count: 5, Period: time.Hour}, meter.Options{})
	minutely := newMeter(t, store, meter.Limit{Capacity: 3, Count: 3, Period: time.Minute}, meter.Options{})
	both := func(a, b string) (meter.Decisions, error) {
		return meter.CheckAll(t.Context(), meter.Claim{Meter: hourly, Key: a, Cost: 1}, meter.Claim{Meter: minutely, Key: b, Cost: 1})
	}
	for _, keys := range [][2]string{{"user", "user"}, {"user:{7}", "address:{7}"}, {"{7}", "7"}} {
		d, err := both(keys[0], keys[1])
		if err != nil || !d.Conform {
			t.Errorf("%v: %+v, %v", keys, d, err)
		}
	}
	for _, keys := range [][2]string{{"user", "address"}, {"user:{7}", "address:{8}"}} {
		if _, err := both(keys[0], keys[1]); !errors.Is(err, meter.ErrInvalid) {
			t.Errorf("%v: %v, want ErrInvalid", keys, err)
		}
	}
	penal := hourly.Limit()
	penal.Penalty = meter.Penalty{Refusals: 9, Within: time.Hour, For: time.Hour}
	for _, key := range oddKeys() { // a meter and its penalty share a slot, whatever the key
		m := newMeter(t, store, penal, meter.Options{})
		if d := check(t, m, key, 1); !d.Conform {
			t.Errorf("key %q: %+v", key, d)
		}
		must(t, m.Reset(t.Context(), key))
	}
	for i := range 50 { // single calls go anywhere
		if d := check(t, hourly, fmt.Sprint("k", i), 1); !d.Conform {
			t.Errorf("key %d: %+v", i, d)
		}
	}
}

// A script that Redis has lost is sent again.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		m := newMeter(t, meter.Redis(rdb), perSecond(5, 1), meter.Options{})
		check(t, m, "k", 1)
		must(t, rdb.ScriptFlush(t.Context()).Err())
		if d := check(t, m, "k", 1); d.Remaining != 3 {
			t.Errorf("after SCRIPT FLUSH: %+v", d)
		}
	})
}

// oddKeys are such as would be one for a careless name.
func oddKeys() []string {
	return []string{
		"a", "a:p", "a}", "}", "}a", "{", "{}", "{}a", "{a}", "{t}x", "{t}x:p", "x{t}", "!", ":{a}", "/{t}x", "'{'}a}",
		" ", "*", "a\x00\xff\r\n", "клю́ч", strings.Repeat("k", 512), strings.Repeat("k", 511), strings.Repeat("k", 19), strings.Repeat("k", 20),
	}
}

// No two keys share a meter, nor a meter and another's penalty.
func TestOddKeys(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s meter.Store) {
		t.Helper()
		for i, l := range limits(3) {
			l.Period = 24 * time.Hour
			l.Penalty = meter.Penalty{Refusals: 9, Within: time.Hour, For: time.Hour}
			m := newMeter(t, s, l, meter.Options{Prefix: fmt.Sprint(i, ":")})
			for cost, want := range []int64{3, 2, 0} {
				for _, key := range oddKeys() {
					if d := check(t, m, key, int64(cost)); d.Remaining != want {
						t.Errorf("%v %q: %+v, want %d remaining", l, key, d, want)
					}
				}
			}
			for _, key := range oddKeys() {
				if d := check(t, m, key, 1); d.Conform || d.Never {
					t.Errorf("%v %q: %+v, want a refusal", l, key, d)
				}
			}
		}
	})
}

// Rates that differ in anything have meters of their own.
func TestNamesOfRates(t *testing.T) {
	t.Parallel()
	seen := map[string]meter.Limit{}
	store := meter.Redis(redistest.MiniClient(t))
	for count := int64(1); count <= 20; count++ {
		for period := int64(1); period <= 20; period++ {
			for _, l := range limits(count)[2:] { // of the first three, which are one law, one
				l.Period = time.Duration(period) * time.Microsecond
				if l.Algorithm == meter.LeakyBucket {
					l.Capacity = 1
				}
				name := newMeter(t, store, l, meter.Options{}).RedisKey("k")
				other, taken := seen[name]
				same := l.Algorithm == meter.LeakyBucket && other.Count*l.Period.Microseconds() == l.Count*other.Period.Microseconds()
				if taken && !same {
					t.Errorf("%v and %v share %s", l, other, name)
				}
				seen[name] = l
			}
		}
	}
}
