package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Standing is how one class stands, over all shards. Reading it costs the same however many keys the class has.
type Standing struct {
	Class    string
	Capacity int
	Rate     Rate
	Paused   bool
	Books    Books
	// Buckets that have jobs or remember something, and how many of them are Closed: paused, or with as many jobs out as
	// they may have.
	Buckets, Closed int64
	// Stalled is for how long the head that is due longest has been, zero when none is.
	Stalled time.Duration
	// Hold is the longest time until a held bucket, or the held class, opens; TimeToEmpty the longest time that a line takes to empty. These and
	// Fullest, the highest level, are of at most two buckets in each shard: those that open first and last.
	Hold, TimeToEmpty time.Duration
	Fullest           int64

	// Oldest is how long the job has waited that waits longest in a line, since it joined it. It is exact while no shard has more
	// than 50 buckets of the class; of more, it is that of the 10 due first and the 10 that open last in each shard, those that
	// are closed among them.
	Oldest time.Duration

	// Held and Draining tell whether the class is, whatever its buckets are.
	Held, Draining bool
	// Moves counts by shard what the books there count. While it stands still, no job of the class came, went, moved or was refused.
	Moves []int64
}

// Depth is how far a look at a class goes: each depth tells what those before it tell, for more commands inside Redis.
type Depth int

// The depths of [Client.StandingsTo].
const (
	// ToBooks tells the settings, the Books and the Moves: one command in each shard.
	ToBooks Depth = iota
	// ToEnds tells all but Oldest: some 10 more.
	ToEnds
	// ToHeads tells all: up to 50 more.
	ToHeads
)

// collectMost is how many classes one call of collect.lua looks at.
const collectMost = 25

// Standings reads how all classes stand: what waits, is out and is dead is in their Books. It takes one command per shard
// for every 25 classes, and one more.
func (c *Client) Standings(ctx context.Context) ([]Standing, error) {
	return c.StandingsTo(ctx, func(string) Depth { return ToHeads })
}

// StandingsTo is [Client.Standings] for who looks again and again, and at each class as far as told. What a look does not reach is zero.
func (c *Client) StandingsTo(ctx context.Context, depth func(class string) Depth) ([]Standing, error) {
	names, err := c.rdb.SMembers(ctx, c.tags[0]+":classes").Result()
	if err != nil {
		return nil, readError("list classes", err)
	}
	slices.Sort(names)
	depths := make([]Depth, len(names))
	for i, name := range names {
		depths[i] = depth(name)
	}
	pages, errs := make([][]reply, len(c.tags)), make([]error, len(c.tags))
	var reading sync.WaitGroup
	for shard := range c.tags {
		reading.Go(func() { pages[shard], errs[shard] = c.readStandings(ctx, shard, names, depths) })
	}
	reading.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	list := make([]Standing, len(names))
	for _, page := range pages {
		for i := range list {
			list[i].Class = names[i]
			list[i].add(page[i])
		}
	}
	return slices.DeleteFunc(list, func(s Standing) bool { return s.Capacity == 0 }), nil
}

// readStandings reads what one shard has of some classes.
func (c *Client) readStandings(ctx context.Context, shard int, names []string, depths []Depth) ([]reply, error) {
	page := make([]reply, 0, len(names))
	for part := range slices.Chunk(names, collectMost) {
		args := make([]any, 1, 1+2*len(part))
		args[0] = 0
		if shard == 0 {
			args[0] = 1
		}
		for i, name := range part {
			args = append(args, name, int(depths[len(page)+i]))
		}
		r, err := c.look(ctx, c.scripts.collect, shard, "collect metrics", args...)
		if err != nil {
			return nil, err
		}
		if len(r) != len(part) {
			return nil, fmt.Errorf("queue: collect metrics: redis answered %d classes of %d", len(r), len(part))
		}
		for i := range part {
			page = append(page, r.list(i))
		}
	}
	return page, nil
}

// add adds what collect.lua says of one class in one shard. The first one has the settings.
func (s *Standing) add(r reply) {
	s.Capacity = max(s.Capacity, int(r.int(0)))
	if r.int(1) > 0 && r.int(2) > 0 {
		s.Rate = Rate{Limit: r.int(1), Period: time.Duration(r.int(2)) * time.Microsecond}
	}
	s.Paused = s.Paused || r.int(3) == 1
	s.Buckets += r.int(4)
	s.Closed += r.int(5)
	class := time.Duration(r.int(10)) * time.Microsecond
	s.Held = s.Held || class > 0
	s.Draining = s.Draining || r.int(13) == 1
	if !s.Paused && !s.Held {
		s.Stalled = max(s.Stalled, time.Duration(r.int(6))*time.Microsecond)
	}
	s.Fullest = max(s.Fullest, r.int(7))
	if line := r.int(8); line > 0 && s.Rate.Limit > 0 {
		s.TimeToEmpty = max(s.TimeToEmpty, time.Duration(float64(line)*float64(s.Rate.Period)/float64(s.Rate.Limit)))
	}
	s.Hold = max(s.Hold, class, time.Duration(r.int(9))*time.Microsecond)
	h, stats, moves := fields{}, reply(r.list(11)), int64(0)
	for i := 0; i+1 < len(stats); i += 2 {
		h[stats.text(i)] = stats.text(i + 1)
		moves += stats.int(i + 1)
	}
	s.Books.add(h)
	s.Moves = append(s.Moves, moves)
	s.Oldest = max(s.Oldest, time.Duration(r.int(12))*time.Microsecond)
}

// sickBuckets counts the buckets that workers set aside.
func (c *Client) sickBuckets(ctx context.Context) (int64, error) {
	pipe := c.rdb.Pipeline()
	calls := make([]*redis.IntCmd, len(c.tags))
	for i, tag := range c.tags {
		calls[i] = pipe.HLen(ctx, tag+":sick")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, readError("count sick buckets", err)
	}
	var n int64
	for _, call := range calls {
		n += call.Val()
	}
	return n, nil
}

// memory is what the servers use and may use, by address; a single server has no name.
func (c *Client) memory(ctx context.Context) map[string]map[string]string {
	cluster, ok := c.rdb.(*redis.ClusterClient)
	if !ok {
		return map[string]map[string]string{"": ServerInfo(ctx, c.rdb)}
	}
	type found struct {
		addr string
		info map[string]string
	}
	nodes := make(chan found, 1000) // the most masters that a cluster can have
	_ = cluster.ForEachMaster(ctx, func(ctx context.Context, node *redis.Client) error {
		nodes <- found{node.Options().Addr, ServerInfo(ctx, node)}
		return nil
	}) // a master that is away has no memory to tell of
	close(nodes)
	all := map[string]map[string]string{}
	for n := range nodes {
		all[n.addr] = n.info
	}
	return all
}
