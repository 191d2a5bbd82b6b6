package queue

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// storeGauge knows how full the Redis of each shard is, and how it keeps its data, without a call per submission.
type storeGauge struct {
	c     *Client
	share float64

	mu     sync.Mutex
	shards map[int]*reading
}

// reading is what was last read of one shard's server.
type reading struct {
	at   time.Time
	full bool

	persistenceAt time.Time
	fsync         fsync
}

// fsync is how a server puts what it acknowledged on its disk.
type fsync int

const (
	fsyncNever  fsync = iota // not by anything that can be waited for
	fsyncWait                // WAITAOF tells
	fsyncAlways              // before it replies
)

const (
	storeEvery       = 500 * time.Millisecond
	persistenceEvery = time.Minute
	storePatience    = time.Second
)

func newStoreGauge(c *Client, share float64) *storeGauge {
	return &storeGauge{c: c, share: share, shards: map[int]*reading{}}
}

// node is the server that has a shard.
func (c *Client) node(ctx context.Context, shard int) (*redis.Client, error) {
	switch rdb := c.rdb.(type) {
	case *redis.Client:
		return rdb, nil
	case *redis.ClusterClient:
		node, err := rdb.MasterForKey(ctx, c.tags[shard])
		if err != nil {
			return nil, readError("find the master of shard "+strconv.Itoa(shard), err)
		}
		return node, nil
	default:
		return nil, fmt.Errorf("%w: it takes a *redis.Client or a *redis.ClusterClient, not a %T", ErrInvalid, c.rdb)
	}
}

// nearlyFull tells whether more of the maxmemory is used than is for jobs. It looks every half second at most, and only
// while there are submissions; what it cannot read it takes for not full, since Redis itself refuses in the end.
func (g *storeGauge) nearlyFull(ctx context.Context, shard int) bool {
	r := g.reading(shard)
	g.mu.Lock()
	full, fresh := r.full, time.Since(r.at) < storeEvery
	if !fresh {
		r.at = time.Now() // only one looks
	}
	g.mu.Unlock()
	if fresh {
		return full
	}
	full = g.read(ctx, shard)
	g.mu.Lock()
	defer g.mu.Unlock()
	r.full = full
	return full
}

func (g *storeGauge) read(ctx context.Context, shard int) bool {
	ctx, cancel := context.WithTimeout(ctx, storePatience)
	defer cancel()
	node, err := g.c.node(ctx, shard)
	if err != nil {
		return false
	}
	text, err := node.Info(ctx, "memory").Result()
	if err != nil {
		return false
	}
	info := fields(parseInfo(text))
	most := info.int("maxmemory")
	return most > 0 && float64(info.int("used_memory")) > g.share*float64(most)
}

// needsWaitAOF tells whether WAITAOF is needed to know that something is on the disk of a shard's server; an error when
// there is no way to know.
func (g *storeGauge) needsWaitAOF(ctx context.Context, shard int) (bool, error) {
	r := g.reading(shard)
	g.mu.Lock()
	how, at := r.fsync, r.persistenceAt
	g.mu.Unlock()
	if time.Since(at) > persistenceEvery {
		var err error
		if how, err = g.readFsync(ctx, shard); err != nil {
			return false, err
		}
		g.mu.Lock()
		r.fsync, r.persistenceAt = how, time.Now()
		g.mu.Unlock()
	}
	if how == fsyncNever {
		return false, fmt.Errorf("%w: ack fsynced: %w", ErrUnfit, errNoFsync)
	}
	return how == fsyncWait, nil
}

func (g *storeGauge) reading(shard int) *reading {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shards[shard] == nil {
		g.shards[shard] = &reading{}
	}
	return g.shards[shard]
}

var errNoFsync = errors.New("this redis cannot confirm it: it needs appendonly yes, and version 7.2 or appendfsync always")

func (g *storeGauge) readFsync(ctx context.Context, shard int) (fsync, error) {
	node, err := g.c.node(ctx, shard)
	if err != nil {
		return fsyncNever, err
	}
	text, err := node.Info(ctx).Result()
	if err != nil {
		return fsyncNever, readError("read redis's INFO", err)
	}
	info := parseInfo(text)
	if info["aof_enabled"] != "1" {
		return fsyncNever, nil
	}
	if policy, err := node.ConfigGet(ctx, "appendfsync").Result(); err == nil && policy["appendfsync"] == "always" {
		return fsyncAlways, nil
	}
	if version(info["redis_version"], 7, 2) {
		return fsyncWait, nil
	}
	return fsyncNever, nil
}

// version tells whether a version is at least major.minor.
func version(text string, major, minor int) bool {
	var a, b int
	_, _ = fmt.Sscanf(text, "%d.%d", &a, &b) // what is no number is old
	return a > major || (a == major && b >= minor)
}
