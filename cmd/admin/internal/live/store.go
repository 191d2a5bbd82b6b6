package live

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

// memoryEvery is the time between two looks at Redis's memory.
const memoryEvery = 5 * time.Second

// readStore takes one round trip's time and, now and then, reads the memory.
func readStore(ctx context.Context, rdb redis.UniversalClient, last Store) (Store, error) {
	begun := time.Now()
	if err := rdb.Ping(ctx).Err(); err != nil {
		return last, err
	}
	last.Latency = time.Since(begun)
	if begun.Sub(last.memoryAt) < memoryEvery {
		return last, nil
	}
	last.memoryAt = begun
	last.Used, last.Max = readMemory(ctx, rdb)
	return last, nil
}

// readMemory is of the fullest node. What cannot be read is not known: that is no reason to show nothing else.
func readMemory(ctx context.Context, rdb redis.UniversalClient) (used, most int64) {
	var mu sync.Mutex
	read := func(ctx context.Context, node *redis.Client) error {
		text, err := node.Info(ctx, "memory").Result()
		if err != nil {
			return err
		}
		u, m := memoryOf(text)
		mu.Lock()
		defer mu.Unlock()
		if share(u, m) > share(used, most) || used == 0 {
			used, most = u, m
		}
		return nil
	}
	switch rdb := rdb.(type) {
	case *redis.Client:
		_ = read(ctx, rdb)
	case *redis.ClusterClient:
		_ = rdb.ForEachMaster(ctx, read)
	}
	return used, most
}

func memoryOf(info string) (used, most int64) {
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		n, err := strconv.ParseInt(value, 10, 64)
		switch {
		case err != nil:
		case name == "used_memory":
			used = n
		case name == "maxmemory":
			most = n
		}
	}
	return used, most
}

// share is how full a node is; one without a limit never is.
func share(used, most int64) float64 {
	if most <= 0 {
		return 0
	}
	return float64(used) / float64(most)
}

// beats are those of workers: the text of each, and when it was first seen.
type beats map[string]beat

type beat struct {
	text  string
	since time.Time
}

// silentAfter is how old a worker's beat is when others take it for dead.
const silentAfter = 10 * time.Second

// read counts the workers. Of one that is seen for the first time counts how long ago it told of itself: otherwise a dead one would
// be alive to everybody who begins to look.
func (b *beats) read(ctx context.Context, c *queue.Client) (Workers, error) {
	texts, err := c.Beats(ctx, 0)
	if err != nil {
		return Workers{}, err
	}
	ages, err := b.ages(ctx, c, texts)
	if err != nil {
		return Workers{}, err
	}
	now := time.Now()
	seen := make(beats, len(texts))
	var w Workers
	for name, text := range texts {
		was, ok := (*b)[name]
		if !ok || was.text != text {
			was = beat{text, now.Add(-ages[name])} // zero for those known before: it moves
		}
		seen[name] = was
		if age := now.Sub(was.since); age >= silentAfter {
			w.Silent++
		} else {
			w.Alive++
			w.OldestBeat = max(w.OldestBeat, age)
		}
	}
	*b = seen
	return w, nil
}

// ages are those of the workers that were not seen before.
func (b *beats) ages(ctx context.Context, c *queue.Client, texts map[string]string) (map[string]time.Duration, error) {
	ages := map[string]time.Duration{}
	for name := range texts {
		if _, known := (*b)[name]; !known {
			ages[name] = silentAfter // unless it told of itself
		}
	}
	if len(ages) == 0 {
		return ages, nil
	}
	workers, err := c.Workers(ctx)
	for _, w := range workers {
		if _, asked := ages[w.Name]; asked && !w.Reported.IsZero() {
			ages[w.Name] = w.Age
		}
	}
	return ages, err
}
