package queue

import (
	"context"
	"slices"
	"strings"
	"time"
)

// outAt is where a page of jobs that are out ended.
type outAt struct {
	Shard  int    `json:"s"`
	Worker string `json:"w,omitempty"`
	place
}

// outPage lists what workers have out, shard by shard and worker by worker.
func (c *Client) outPage(ctx context.Context, q JobQuery) (jobs []JobState, next string, err error) {
	var at outAt
	if err := readCursor(q.After, &at); err != nil || at.Shard < 0 || at.Shard >= len(c.tags) {
		return nil, "", errCursor
	}
	last := len(c.tags) - 1
	if q.Key != "" {
		last = shardOf(q.Class+"/"+q.Key, len(c.tags))
		at.Shard = max(at.Shard, last)
	}
	left := scanMost
	for ; at.Shard <= last; at = (outAt{Shard: at.Shard + 1}) {
		some, more, err := c.outShard(ctx, q, &at, q.Limit-len(jobs), &left)
		if err != nil {
			return nil, "", err
		}
		if jobs = append(jobs, some...); more {
			return jobs, writeCursor(at), nil
		}
	}
	return jobs, "", nil
}

// outShard lists about n jobs of one shard, looking at no more than left entries; more tells whether there may be others.
func (c *Client) outShard(ctx context.Context, q JobQuery, at *outAt, n int, left *int) (jobs []JobState, more bool, err error) {
	workers, err := c.rdb.HKeys(ctx, c.tags[at.Shard]+":workers").Result()
	if err != nil {
		return nil, false, readError("read the workers", err)
	}
	slices.Sort(workers)
	for _, worker := range workers[searched(workers, at.Worker):] {
		if worker != at.Worker {
			at.Worker, at.place = worker, place{}
		}
		for again := true; again; again = at.place != (place{}) {
			if len(jobs) >= n || *left <= 0 {
				return jobs, true, nil
			}
			some, looked, err := c.outPart(ctx, q, at, n-len(jobs))
			if err != nil {
				return nil, false, err
			}
			jobs = append(jobs, some...)
			*left -= looked
		}
		at.Worker += "\x00" // behind it
	}
	return jobs, false, nil
}

// outPart reads about n of the jobs that one worker has out and moves on; those of other buckets are left out.
func (c *Client) outPart(ctx context.Context, q JobQuery, at *outAt, n int) (jobs []JobState, looked int, err error) {
	entries := map[string]string{}
	refs, looked, err := at.scan(n, max(n, 10), func(cursor uint64) ([]string, uint64, error) {
		pairs, next, err := c.rdb.HScan(ctx, c.key(at.Shard, "out", at.Worker), cursor, "", int64(max(n, 10))).Result()
		for i := 0; i+1 < len(pairs); i += 2 {
			entries[pairs[i]] = pairs[i+1]
		}
		return pairs, next, err
	})
	if err != nil {
		return nil, 0, readError("list what worker "+at.Worker+" has out", err)
	}
	refs = slices.DeleteFunc(refs, func(ref string) bool { return !outOf(entries[ref], q.Class, q.Key) })
	for part := range slices.Chunk(refs, touchMost) {
		some, err := c.readEach(ctx, at.Shard, part)
		if err != nil {
			return nil, 0, err
		}
		for i, j := range some {
			if j.Ref == "" || j.State != "" { // ended meanwhile
				continue
			}
			stamp, _, _ := strings.Cut(entries[part[i]], " ")
			j.State, j.Worker, j.DepartedAt = Out, at.Worker, time.UnixMicro(parseInt(stamp)).UTC()
			jobs = append(jobs, j)
		}
	}
	return jobs, looked, nil
}

// outOf tells whether an entry of what a worker has out, stamp, call and bucket, is of a class, and of a key unless that is
// empty.
func outOf(entry, class, key string) bool {
	_, rest, _ := strings.Cut(entry, " ")
	_, name, _ := strings.Cut(rest, " ")
	name = strings.TrimLeft(name, " ") // the number of the call is padded; no class begins with a space
	if key == "" {
		return strings.HasPrefix(name, class+"/")
	}
	return name == class+"/"+key
}
