package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	shareRounds = 3
	lingerTime  = 11 * time.Second // until an admin that nobody looks at rests
)

// redisShare: what a tab costs Redis itself, beside the moving buckets. Nobody overhears meanwhile: that costs more than the tab does.
func redisShare(ctx context.Context, b *bench, binary string, heard *overheard) ([]row, error) {
	if err := heard.Close(); err != nil {
		return nil, err
	}
	a, err := b.serve(ctx, binary)
	if err != nil {
		return nil, err
	}
	defer a.stop()
	var without, more []float64
	for range shareRounds {
		none, err := b.redisCPU(ctx)
		if err != nil {
			return nil, err
		}
		one, err := b.redisCPUWithTab(ctx, a.url)
		if err != nil {
			return nil, err
		}
		without, more = append(without, none), append(more, one-none)
		<-time.After(lingerTime)
	}
	return []row{{
		"a tab of 50 moving buckets: processor time of Redis", "< 1 % of a core",
		spanOf(more, "%.2f") + fmt.Sprintf(" %%; without a tab %.2f %%", median(without)),
	}}, nil
}

func (b *bench) redisCPUWithTab(ctx context.Context, url string) (share float64, err error) {
	t, err := openTab(ctx, url, overviewPath)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, t.stop()) }()
	<-time.After(settleTime)
	return b.redisCPU(ctx)
}

// redisCPU is the processor time that Redis uses for a while, in percent of a core.
func (b *bench) redisCPU(ctx context.Context) (float64, error) {
	begun := time.Now()
	before, err := b.redisUsed(ctx)
	if err != nil {
		return 0, err
	}
	<-time.After(b.pace)
	after, err := b.redisUsed(ctx)
	return 100 * (after - before) / time.Since(begun).Seconds(), err
}

// redisUsed is the processor time that Redis has used, in seconds.
func (b *bench) redisUsed(ctx context.Context) (sum float64, err error) {
	info, err := b.rdb.Info(ctx, "cpu").Result()
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_user" || name == "used_cpu_sys" {
			n, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return 0, fmt.Errorf("redis says %s", line)
			}
			sum += n
		}
	}
	return sum, nil
}
