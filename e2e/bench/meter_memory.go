package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"time"

	limiter "github.com/sethvargo/go-limiter"
	"github.com/sethvargo/go-limiter/memorystore"
	"golang.org/x/time/rate"

	"github.com/spout-queue/spout/meter"
)

// metersInMemory: GCRA in memory against two libraries, as parallel as the machine is.
func metersInMemory(ctx context.Context, b *bench) ([]row, error) {
	var rows []row
	for _, c := range []struct {
		what  string
		keys  int
		limit meter.Limit
	}{
		{"one key", 1, meter.Limit{Capacity: 1000, Count: 1000, Period: time.Second}},
		{"100,000 keys", manyKeys, meter.Limit{Capacity: 20, Count: 20, Period: time.Second}},
	} {
		keys := keyNames(c.keys)
		var xtime, golimiter, perSecond []float64
		var over [3]int64
		for range b.rounds {
			sides := make([]*presser, 3)
			for i, side := range []func(meter.Limit) (check, func(context.Context) error, error){spoutMemory, xtimeMap, goLimiter} {
				do, end, err := side(c.limit)
				if err != nil {
					return nil, err
				}
				defer end(ctx) //nolint:errcheck // ends a goroutine
				sides[i] = &presser{goroutines: runtime.GOMAXPROCS(0), keys: keys, limit: c.limit, do: do}
			}
			if err := b.duel(ctx, sides...); err != nil {
				return nil, err
			}
			for i, p := range sides {
				over[i] += p.tooMany()
			}
			perSecond = append(perSecond, sides[0].perSecond())
			xtime = append(xtime, sides[0].perSecond()/sides[1].perSecond())
			golimiter = append(golimiter, sides[0].perSecond()/sides[2].perSecond())
		}
		rows = append(rows,
			row{
				"memory GCRA check, " + c.what + ", parallel: against x/time/rate behind a sync.Map", ">= 1",
				spanOf(xtime, "%.2f") + fmt.Sprintf("; over-admitted %d, theirs %d", over[0], over[1]),
			},
			row{
				"the same against sethvargo/go-limiter", ">= 1",
				spanOf(golimiter, "%.2f") + fmt.Sprintf("; over-admitted %d, theirs %d", over[0], over[2]),
			},
			row{"(checks/s)", "", spanOf(perSecond, "%.0f")})
	}
	return rows, nil
}

func spoutMemory(l meter.Limit) (check, func(context.Context) error, error) {
	m, err := meter.New(meter.Memory(), l, meter.Options{})
	return checkOf(m), func(context.Context) error { return nil }, err
}

// xtimeMap is how x/time/rate is used for many keys.
func xtimeMap(l meter.Limit) (check, func(context.Context) error, error) {
	var limiters sync.Map
	return func(_ context.Context, key string) (bool, error) {
		v, ok := limiters.Load(key)
		if !ok {
			v, _ = limiters.LoadOrStore(key, rate.NewLimiter(rate.Limit(float64(l.Count)/l.Period.Seconds()), int(l.Capacity)))
		}
		lim, _ := v.(*rate.Limiter)
		return lim.Allow(), nil
	}, func(context.Context) error { return nil }, nil
}

// goLimiter gives all tokens anew at each interval: a fixed window that begins with the first call.
func goLimiter(l meter.Limit) (check, func(context.Context) error, error) {
	var store limiter.Store
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(l.Count), Interval: l.Period}) //nolint:gosec // above zero
	if err != nil {
		return nil, nil, err
	}
	return func(ctx context.Context, key string) (bool, error) {
		_, _, _, ok, err := store.Take(ctx, key)
		return ok, err
	}, store.Close, nil
}
