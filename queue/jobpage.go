package queue

import (
	"context"
	"fmt"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Waiting is, in a [JobQuery], [Line] and then [Later].
const Waiting State = "waiting"

// JobQuery asks for a page of jobs.
type JobQuery struct {
	Class string
	// Key of one bucket; empty means all buckets of the class.
	Key string
	// State is [Line], [Later], [Waiting] (the default), [Out] or [Kept].
	State State
	// After is where the page before ended, as [Client.JobPage] told; empty for the first page.
	After string
	// Limit is the most jobs of the page, 1 to 1000; 0 means 100. Of those that are out it may have a few more.
	Limit int
}

// JobPage reads a page of jobs and tells where the next one begins; empty after the last. Those that wait come bucket by
// bucket, in the order in which they leave; dead ones newest first; those that are out worker by worker. A page goes on
// behind the last job of the one before, wherever that is by then, so that none is left out and none comes twice because
// others leave. Work per call is bounded, so a page may be short, even empty, with another to follow.
//
// The error wraps [ErrUnknownClass], or [ErrInvalid] for a state, a limit or a cursor that is none.
func (c *Client) JobPage(ctx context.Context, q JobQuery) (jobs []JobState, next string, err error) {
	if q.Limit, err = limit(q.Limit); err != nil {
		return nil, "", err
	}
	if q.Key != "" {
		if err := CheckKey(q.Key); err != nil {
			return nil, "", err
		}
	}
	if _, err := c.Classes().Get(ctx, q.Class); err != nil {
		return nil, "", err
	}
	switch q.State {
	case "", Waiting, Line, Later:
		return c.waitingPage(ctx, q)
	case Out:
		return c.outPage(ctx, q)
	case Kept:
		return c.deadPage(ctx, q)
	default:
		return nil, "", fmt.Errorf("%w: state %q is none of line, later, waiting, out and dead", ErrInvalid, clip(string(q.State)))
	}
}

// deadAt is where a page of dead jobs ended.
type deadAt struct {
	Before int64  `json:"t"` // us
	Ref    string `json:"r"`
}

func (c *Client) deadPage(ctx context.Context, q JobQuery) ([]JobState, string, error) {
	var at deadAt
	if err := readCursor(q.After, &at); err != nil {
		return nil, "", err
	}
	dq := DeadQuery{Class: q.Class, Key: q.Key, Limit: q.Limit, BeforeRef: at.Ref}
	if at.Before > 0 {
		dq.Before = time.UnixMicro(at.Before).UTC()
	}
	jobs, err := c.Dead().List(ctx, dq)
	if err != nil || len(jobs) < q.Limit {
		return jobs, "", err
	}
	last := jobs[len(jobs)-1]
	return jobs, writeCursor(deadAt{last.EndedAt.UnixMicro(), last.Ref}), nil
}

// lineAt is where a page of waiting jobs ended: in a bucket's line or later, behind a member.
type lineAt struct {
	Walk   *bucketWalk `json:"w,omitempty"` // over the buckets behind this one; nil for one bucket
	Rest   []string    `json:"r,omitempty"` // names that the walk found at once
	Key    string      `json:"b,omitempty"`
	Later  bool        `json:"l,omitempty"`
	Score  int64       `json:"n,omitempty"` // 0: from the first member on
	Member string      `json:"m,omitempty"`
}

// walkMost is how many steps one page takes from bucket to bucket.
const walkMost = 300

// waitingPage lists bucket after bucket, one at a time, so that the cursor is where the last one ended.
func (c *Client) waitingPage(ctx context.Context, q JobQuery) (jobs []JobState, next string, err error) {
	at := lineAt{Key: q.Key}
	if q.Key == "" {
		at.Walk = &bucketWalk{}
	}
	if err := readCursor(q.After, &at); err != nil || (q.Key == "") != (at.Walk != nil) {
		return nil, "", errCursor
	}
	if at.Walk != nil {
		at.Walk.shards = len(c.tags)
		if err := at.Walk.begin(ctx, c, q.Class); err != nil {
			return nil, "", err
		}
	}
	for steps := 0; len(jobs) < q.Limit; steps++ {
		if at.Key == "" {
			if steps >= walkMost {
				return jobs, writeCursor(at), nil
			}
			if more, err := at.nextBucket(ctx, c); err != nil || !more {
				return jobs, "", err
			}
			continue
		}
		some, err := c.waitingPart(ctx, q, &at, q.Limit-len(jobs))
		if err != nil {
			return nil, "", err
		}
		jobs = append(jobs, some...)
		if at.Key == "" && at.Walk == nil {
			return jobs, "", nil
		}
	}
	return jobs, writeCursor(at), nil
}

// nextBucket takes the next bucket of the walk, if it finds one in one step; more tells whether there may be others.
func (at *lineAt) nextBucket(ctx context.Context, c *Client) (more bool, err error) {
	if len(at.Rest) == 0 {
		if at.Walk.Done {
			return false, nil
		}
		if at.Rest, _, err = at.Walk.step(ctx, c, "", 1); err != nil || len(at.Rest) == 0 {
			return err == nil, err
		}
	}
	_, at.Key, _ = strings.Cut(at.Rest[0], "/")
	at.Rest = at.Rest[1:]
	return true, nil
}

// waitingPart reads up to n jobs of the bucket, and moves at on: to no key when the bucket has no more.
func (c *Client) waitingPart(ctx context.Context, q JobQuery, at *lineAt, n int) ([]JobState, error) {
	if q.State == Later {
		at.Later = true
	}
	bucket, state := q.Class+"/"+at.Key, Line
	if at.Later {
		state = Later
	}
	shard := shardOf(bucket, len(c.tags))
	key := c.key(shard, string(state), bucket)
	from, err := c.rankBehind(ctx, key, at.Score, at.Member)
	if err != nil {
		return nil, readError("list jobs of bucket "+bucket, err)
	}
	entries, err := c.rdb.ZRangeWithScores(ctx, key, from, from+int64(n)-1).Result()
	if err != nil {
		return nil, readError("list jobs of bucket "+bucket, err)
	}
	jobs, err := c.readMembers(ctx, shard, entries)
	if err != nil {
		return nil, err
	}
	found := jobs[:0]
	for i, j := range jobs {
		if j.Ref == "" {
			continue
		}
		if j.State = state; state == Line {
			j.Position = int(from) + i + 1
		}
		found = append(found, j)
	}
	at.behind(entries, n, state == Line && q.State != Line)
	return found, nil
}

// behind moves on behind entries of which n were asked for. later tells whether the jobs that join later come next.
func (at *lineAt) behind(entries []redis.Z, n int, later bool) {
	if len(entries) == n {
		last := entries[n-1]
		at.Score = int64(last.Score)
		at.Member, _ = last.Member.(string)
		return
	}
	at.Score, at.Member = 0, ""
	if at.Later = later; !later {
		at.Key = ""
	}
}

// readMembers reads the jobs of a range of a bucket; one that left in between has no ref.
func (c *Client) readMembers(ctx context.Context, shard int, entries []redis.Z) ([]JobState, error) {
	jobs := make([]JobState, 0, len(entries))
	for from := 0; from < len(entries); from += touchMost {
		members := make([]string, 0, touchMost)
		for _, z := range entries[from:min(from+touchMost, len(entries))] {
			member, _ := z.Member.(string)
			members = append(members, member)
		}
		some, err := c.readEach(ctx, shard, members)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, some...)
	}
	return jobs, nil
}

// rankBehind is the rank of the first member behind one that stood at a score, whether or not that one is still there.
func (c *Client) rankBehind(ctx context.Context, key string, score int64, member string) (int64, error) {
	if member == "" {
		return 0, nil
	}
	at := strconv.FormatInt(score, 10)
	pipe := c.rdb.Pipeline()
	rank := pipe.ZRank(ctx, key, member)
	before := pipe.ZCount(ctx, key, "-inf", "("+at)
	same := pipe.ZCount(ctx, key, at, at)
	if _, err := pipe.Exec(ctx); err != nil && !isNil(err) {
		return 0, err
	}
	if rank.Err() == nil {
		return rank.Val() + 1, nil
	}
	var failed error
	n := sort.Search(int(same.Val()), func(i int) bool { // among those at the same score, which lie in order of their names
		names, err := c.rdb.ZRange(ctx, key, before.Val()+int64(i), before.Val()+int64(i)).Result()
		if err != nil {
			failed = err
		}
		return err != nil || len(names) == 0 || names[0] > member
	})
	return before.Val() + int64(n), failed
}
