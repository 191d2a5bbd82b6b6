package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-redis/redis_rate/v10"

	"github.com/spout-queue/spout/meter"
)

const (
	meterCallers = 64
	meterRun     = 2 * time.Second // of one side of a comparison
	manyKeys     = 100_000
)

// meterBytes: what a check leaves in this process and in Redis.
func meterBytes(ctx context.Context, b *bench) ([]row, error) {
	rows, err := allocated(ctx, b)
	if err != nil {
		return nil, err
	}
	more, err := bytesPerKey(ctx, b)
	return append(rows, more...), err
}

// check asks for one unit of a key and tells whether it passed.
type check func(ctx context.Context, key string) (bool, error)

// presser puts one limiter under pressure, now and then for a slice of time. Its keys must be unused before.
type presser struct {
	goroutines int
	keys       []string
	limit      meter.Limit
	do         check

	admitted [][]uint32 // by goroutine, so that they do not meet, and key
	most     float64    // that the limit lets pass of each key: capacity, and the rate times the time it was asked
	last     time.Time
	asked    int64
	took     time.Duration
	micros   float64 // that Redis took
}

// duel warms the sides and then presses one after the other, in turn, so that what else the machine does hits all.
func (b *bench) duel(ctx context.Context, sides ...*presser) error {
	const slices = 10
	for _, p := range sides {
		p.last, p.most = time.Now(), float64(p.limit.Capacity)
		for range p.goroutines {
			p.admitted = append(p.admitted, make([]uint32, len(p.keys)))
		}
		if err := p.run(ctx, once); err != nil {
			return err
		}
		p.asked, p.took = 0, 0
	}
	runtime.GC()
	for range slices {
		for _, p := range sides {
			if err := b.rdb.ConfigResetStat(ctx).Err(); err != nil {
				return err
			}
			if err := p.run(ctx, random(time.Now().Add(meterRun/slices))); err != nil {
				return err
			}
			micros, err := b.redisMicros(ctx)
			if err != nil {
				return err
			}
			p.micros += micros
		}
	}
	return nil
}

// asking is what one of the goroutines does.
type asking func(p *presser, goroutine int, ask func(key int) error) error

// once asks for each key one time.
func once(p *presser, g int, ask func(int) error) error {
	for i := g; i < len(p.keys); i += p.goroutines {
		if err := ask(i); err != nil {
			return err
		}
	}
	return nil
}

// random asks for any key until it is time.
func random(end time.Time) asking {
	return func(p *presser, _ int, ask func(int) error) error {
		for n := 1; n%64 != 0 || time.Now().Before(end); n++ { // the clock is not what is measured
			if err := ask(rand.IntN(len(p.keys))); err != nil { //nolint:gosec // no secret
				return err
			}
		}
		return nil
	}
}

func (p *presser) run(ctx context.Context, work asking) error {
	var wg sync.WaitGroup
	var asked atomic.Int64
	failed := make(chan error, p.goroutines)
	begin := time.Now()
	for g := range p.goroutines {
		wg.Go(func() {
			n, passed := int64(0), p.admitted[g]
			if err := work(p, g, func(key int) error {
				ok, err := p.do(ctx, p.keys[key])
				n++
				if ok {
					passed[key]++
				}
				return err
			}); err != nil {
				failed <- err
			}
			asked.Add(n)
		})
	}
	wg.Wait()
	close(failed)
	now := time.Now()
	rate := float64(p.limit.Count) / p.limit.Period.Seconds()
	p.most += min(rate*begin.Sub(p.last).Seconds(), float64(p.limit.Capacity)) + rate*now.Sub(begin).Seconds()
	p.asked += asked.Load()
	p.took += now.Sub(begin)
	p.last = now
	return <-failed
}

func (p *presser) perSecond() float64 { return float64(p.asked) / p.took.Seconds() }
func (p *presser) perCall() float64   { return p.micros / float64(p.asked) }

// tooMany is what was admitted beyond the limit, over all keys.
func (p *presser) tooMany() int64 {
	var sum int64
	for key := range p.keys {
		var n int64
		for _, passed := range p.admitted {
			n += int64(passed[key])
		}
		sum += max(n-int64(p.most), 0)
	}
	return sum
}

// metersOnRedis: GCRA of both on one redis-server.
func metersOnRedis(ctx context.Context, b *bench) ([]row, error) {
	var rows []row
	for _, c := range []struct {
		what  string
		keys  int
		limit meter.Limit
	}{
		{"one hot key", 1, meter.Limit{Capacity: 1000, Count: 10_000, Period: time.Second}},
		{"100,000 keys", manyKeys, meter.Limit{Capacity: 100, Count: 100, Period: time.Hour}},
	} {
		m, err := meter.New(meter.Redis(b.rdb), c.limit, meter.Options{})
		if err != nil {
			return nil, err
		}
		limiter := redis_rate.NewLimiter(b.rdb)
		same := redis_rate.Limit{Rate: int(c.limit.Count), Burst: int(c.limit.Capacity), Period: c.limit.Period}
		var faster, cheaper []float64
		var over, overTheirs int64
		for range b.rounds {
			if err := b.rdb.FlushAll(ctx).Err(); err != nil {
				return nil, err
			}
			keys := keyNames(c.keys)
			us := &presser{goroutines: meterCallers, keys: keys, limit: c.limit, do: checkOf(m)}
			them := &presser{goroutines: meterCallers, keys: keys, limit: c.limit, do: func(ctx context.Context, key string) (bool, error) {
				r, err := limiter.Allow(ctx, key, same)
				return err == nil && r.Allowed > 0, err
			}}
			if err := b.duel(ctx, us, them); err != nil {
				return nil, err
			}
			faster, cheaper = append(faster, us.perSecond()/them.perSecond()), append(cheaper, us.perCall()/them.perCall())
			over, overTheirs = over+us.tooMany(), overTheirs+them.tooMany()
		}
		rows = append(rows,
			row{
				"Redis GCRA check, " + c.what + ", 64 callers: decisions/s against redis_rate", ">= 1.1",
				spanOf(faster, "%.2f") + fmt.Sprintf("; over-admitted %d, theirs %d", over, overTheirs),
			},
			row{"Redis time per call, " + c.what + ", against redis_rate", "< 1", spanOf(cheaper, "%.2f")})
	}
	return rows, nil
}

func checkOf(m *meter.Meter) check {
	return func(ctx context.Context, key string) (bool, error) {
		d, err := m.Check(ctx, key, 1)
		return d.Conform, err
	}
}

func keyNames(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("user:%d", i)
	}
	return keys
}

// denials: a key that is asked for far more than it may, with and without the denial cache.
func denials(ctx context.Context, b *bench) ([]row, error) {
	limit := meter.Limit{Capacity: 10, Count: 10, Period: time.Second}
	var ratios []float64
	var over int64
	for range b.rounds {
		if err := b.rdb.FlushAll(ctx).Err(); err != nil {
			return nil, err
		}
		sides := make([]*presser, 2)
		for i, o := range []meter.Options{{Prefix: "plain:"}, {Prefix: "cached:", DenialCache: 1000}} {
			m, err := meter.New(meter.Redis(b.rdb), limit, o)
			if err != nil {
				return nil, err
			}
			sides[i] = &presser{goroutines: meterCallers, keys: keyNames(1), limit: limit, do: checkOf(m)}
		}
		if err := b.duel(ctx, sides...); err != nil {
			return nil, err
		}
		ratios = append(ratios, sides[1].perSecond()/sides[0].perSecond())
		over += sides[0].tooMany() + sides[1].tooMany()
	}
	return []row{{
		"refused calls of one key, 64 callers: decisions/s with the denial cache against without", ">= 20, over-admitted 0",
		spanOf(ratios, "%.0f") + fmt.Sprintf("; over-admitted %d", over),
	}}, nil
}

// allocated: bytes that one check in memory allocates, of each algorithm, the most.
func allocated(ctx context.Context, _ *bench) ([]row, error) {
	const n = 100_000
	var most uint64
	for _, a := range algorithms() {
		m, err := meter.New(meter.Memory(), limitOf(a, 1000, time.Second), meter.Options{})
		if err != nil {
			return nil, err
		}
		do := checkOf(m)
		for range 2000 { // a log grows until it is full
			if _, err := do(ctx, "user:42"); err != nil {
				return nil, err
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range n {
			if _, err := do(ctx, "user:42"); err != nil {
				return nil, err
			}
		}
		runtime.ReadMemStats(&after)
		most = max(most, (after.TotalAlloc-before.TotalAlloc)/n)
	}
	return []row{{"allocated by a check in memory, the most of six algorithms", "0 B", fmt.Sprintf("%d B", most)}}, nil
}

// bytesPerKey: MEMORY USAGE of what a meter leaves in Redis.
func bytesPerKey(ctx context.Context, b *bench) ([]row, error) {
	var small []string
	var most int64
	for _, a := range algorithms() {
		if a == meter.SlidingLog {
			continue
		}
		var used int64
		for _, l := range []meter.Limit{limitOf(a, 1000, time.Minute), limitOf(a, 10_000, time.Hour), limitOf(a, 200_000, 24*time.Hour)} {
			if l.Validate() != nil { // a sliding counter cannot have 200,000 a day
				continue
			}
			n, err := b.usage(ctx, l, 500)
			if err != nil {
				return nil, err
			}
			used = max(used, n)
		}
		if a != meter.FixedWindow && a != meter.SlidingCounter {
			most = max(most, used)
		}
		small = append(small, fmt.Sprintf("%s %d", a, used))
	}
	log, err := b.usage(ctx, limitOf(meter.SlidingLog, 1000, time.Hour), 1000)
	if err != nil {
		return nil, err
	}
	return []row{
		{"Redis bytes of user:42, gcra and buckets, the most of three limits", "<= 112", fmt.Sprint(most)},
		{"(each)", "", strings.Join(small, ", ")},
		{"Redis bytes of a sliding log of 1,000 events", "<= 12,288", fmt.Sprint(log)},
	}, nil
}

// usage is the most bytes that a key takes after so many checks.
func (b *bench) usage(ctx context.Context, l meter.Limit, checks int) (int64, error) {
	if err := b.rdb.FlushAll(ctx).Err(); err != nil {
		return 0, err
	}
	m, err := meter.New(meter.Redis(b.rdb), l, meter.Options{})
	if err != nil {
		return 0, err
	}
	for range checks {
		if _, err := m.Check(ctx, "user:42", 1); err != nil {
			return 0, err
		}
	}
	keys, err := b.rdb.Keys(ctx, "*").Result()
	if err != nil {
		return 0, err
	}
	var sum int64
	for _, key := range keys {
		used, err := b.rdb.MemoryUsage(ctx, key, 0).Result()
		if err != nil {
			return 0, err
		}
		sum += used
	}
	return sum, nil
}

func algorithms() []meter.Algorithm {
	return []meter.Algorithm{meter.GCRA, meter.TokenBucket, meter.LeakyBucket, meter.FixedWindow, meter.SlidingLog, meter.SlidingCounter}
}

// limitOf is n units per period; buckets take them all at once.
func limitOf(a meter.Algorithm, n int64, period time.Duration) meter.Limit {
	return meter.Limit{Algorithm: a, Capacity: n, Count: n, Period: period}
}
