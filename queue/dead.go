package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// DeadJobs looks after the dead jobs of the installation.
type DeadJobs struct{ c *Client }

// Dead returns the dead jobs.
func (c *Client) Dead() DeadJobs { return DeadJobs{c} }

// DeadQuery asks for a page of dead jobs, newest first.
type DeadQuery struct {
	Class string
	// Key of one bucket; empty means all buckets of the class.
	Key string
	// Before leaves out those that died then or later; zero leaves out none. With BeforeRef it leaves out of those that died
	// at that very time only that job and what comes before it. The next page begins at the last one's EndedAt and Ref.
	Before    time.Time
	BeforeRef string
	// Limit of the page, at least 1.
	Limit int
}

// List reads a page of dead jobs.
func (d DeadJobs) List(ctx context.Context, q DeadQuery) ([]JobState, error) {
	if _, err := d.c.Classes().Get(ctx, q.Class); err != nil {
		return nil, err
	}
	var jobs []JobState
	for shard := range d.c.tags {
		if q.Key != "" && shard != shardOf(q.Class+"/"+q.Key, len(d.c.tags)) {
			continue
		}
		some, err := d.page(ctx, shard, q)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, some...)
	}
	slices.SortFunc(jobs, func(a, b JobState) int {
		return cmp.Or(b.EndedAt.Compare(a.EndedAt), cmp.Compare(b.Ref, a.Ref))
	})
	return jobs[:min(q.Limit, len(jobs))], nil
}

// page reads the newest dead jobs of a class in one shard, part by part until there are enough of the key.
func (d DeadJobs) page(ctx context.Context, shard int, q DeadQuery) ([]JobState, error) {
	var jobs []JobState
	highest := "+inf"
	if !q.Before.IsZero() {
		highest = strconv.FormatInt(q.Before.UnixMicro(), 10)
		if q.BeforeRef == "" {
			highest = "(" + highest
		}
	}
	step := int64(min(q.Limit, touchMost))
	if q.Key != "" {
		step = deadStep
	}
	for from := int64(0); len(jobs) < q.Limit; from += step {
		refs, err := d.c.rdb.ZRevRangeByScore(ctx, d.c.key(shard, "dead", q.Class), &redis.ZRangeBy{
			Min: "-inf", Max: highest, Offset: from, Count: step,
		}).Result()
		if err != nil {
			return nil, readError("list dead jobs of class "+q.Class, err)
		}
		last := int64(len(refs)) < step
		if q.Key != "" {
			if refs, err = d.ofBucket(ctx, shard, q.Class+"/"+q.Key, refs); err != nil {
				return nil, err
			}
		}
		for part := range slices.Chunk(refs, min(q.Limit, touchMost)) {
			if len(jobs) >= q.Limit {
				break
			}
			some, err := d.c.readJobs(ctx, shard, part)
			if err != nil {
				return nil, err
			}
			jobs = append(jobs, slices.DeleteFunc(some, q.listed)...)
		}
		if last {
			break
		}
	}
	return jobs, nil
}

// listed tells of a job whether an earlier page had it.
func (q *DeadQuery) listed(j JobState) bool {
	return q.BeforeRef != "" && j.EndedAt.Equal(q.Before) && j.Ref >= q.BeforeRef
}

// deadStep is how many dead jobs one round trip looks through for those of one bucket.
const deadStep = 1000

// ofBucket keeps the refs of the jobs of one bucket.
func (d DeadJobs) ofBucket(ctx context.Context, shard int, bucket string, refs []string) ([]string, error) {
	buckets, err := d.bucketsOf(ctx, shard, refs)
	var own []string
	for i, of := range buckets {
		if of == bucket {
			own = append(own, refs[i])
		}
	}
	return own, err
}

// Retry sends one dead job round again: it joins the line of its bucket at the tail, with its attempts counted anew, and
// leaves when its turn comes. The error is a [*FullError] when the bucket is full, and wraps [ErrDraining], or
// [ErrNotFound] when there is no such dead job.
func (d DeadJobs) Retry(ctx context.Context, ref string) (Receipt, error) {
	shard, err := shardOfRef(ref, len(d.c.tags))
	if err != nil {
		return Receipt{}, err
	}
	r, err := d.c.run(ctx, d.c.scripts.job, shard, "retry job "+ref, "revive", ref)
	if err != nil {
		return Receipt{}, err
	}
	switch r.text(0) {
	case "ok":
		at := time.UnixMicro(r.int(5)).UTC()
		wait := time.Duration(r.int(4)) * time.Microsecond
		return Receipt{
			Ref: ref, ID: r.text(6)[min(digestLen, len(r.text(6))):], Status: Admitted, Position: int(r.int(1)), Level: int(r.int(2)), Capacity: int(r.int(3)),
			EstimatedStart: at.Add(wait), Wait: wait, Ack: AckMemory,
		}, nil
	case "full":
		class, key, _ := strings.Cut(r.text(5), "/")
		return Receipt{}, &FullError{
			Reason: ReasonFull, Class: class, Key: key, Level: int(r.int(2)), Capacity: int(r.int(3)),
			RetryAfter: max(0, time.Duration(r.int(1))*time.Microsecond), Paused: r.int(1) < 0,
			interval: time.Duration(r.int(4)) * time.Microsecond,
		}
	case "draining":
		return Receipt{}, drainingError(r.text(1))
	default:
		return Receipt{}, fmt.Errorf("%w: job %s is not dead, or is gone", ErrNotFound, ref)
	}
}

// Count is how many dead jobs of a class are kept.
func (d DeadJobs) Count(ctx context.Context, class string) (int, error) {
	pipe := d.c.rdb.Pipeline()
	counts := make([]*redis.IntCmd, len(d.c.tags))
	for shard := range d.c.tags {
		counts[shard] = pipe.ZCard(ctx, d.c.key(shard, "dead", class))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return 0, readError("count dead jobs of class "+class, err)
	}
	total := 0
	for _, n := range counts {
		total += int(n.Val())
	}
	return total, nil
}

// CountOf is how many dead jobs of one bucket are kept. It goes through those of its class in its shard, and reads no payload.
func (d DeadJobs) CountOf(ctx context.Context, class, key string) (int, error) {
	bucket := class + "/" + key
	shard := shardOf(bucket, len(d.c.tags))
	total := 0
	for from := int64(0); ; from += deadStep {
		refs, err := d.c.rdb.ZRange(ctx, d.c.key(shard, "dead", class), from, from+deadStep-1).Result()
		if err != nil {
			return 0, readError("count dead jobs of bucket "+bucket, err)
		}
		own, err := d.ofBucket(ctx, shard, bucket, refs)
		if err != nil {
			return 0, err
		}
		if total += len(own); len(refs) < deadStep {
			return total, nil
		}
	}
}

// Purge drops the dead jobs of a class, or of one bucket when key is not empty, and tells how many.
func (d DeadJobs) Purge(ctx context.Context, class, key string) (int, error) {
	if _, err := d.c.Classes().Get(ctx, class); err != nil {
		return 0, err
	}
	if key != "" {
		return d.purgeBucket(ctx, class, key)
	}
	total := 0
	for shard := range d.c.tags {
		for left := int64(1); left > 0; {
			r, err := d.c.run(ctx, d.c.scripts.class, shard, "purge dead jobs of class "+class, "purge_dead", class)
			if err != nil {
				return total, err
			}
			total += int(r.int(1))
			left = r.int(2)
		}
	}
	return total, nil
}

func (d DeadJobs) purgeBucket(ctx context.Context, class, key string) (int, error) {
	total := 0
	for {
		jobs, err := d.List(ctx, DeadQuery{Class: class, Key: key, Limit: touchMost})
		if err != nil || len(jobs) == 0 {
			return total, err
		}
		args := []any{"purge_dead", class}
		for _, j := range jobs {
			args = append(args, j.Ref)
		}
		shard := shardOf(class+"/"+key, len(d.c.tags))
		r, err := d.c.run(ctx, d.c.scripts.class, shard, "purge dead jobs of bucket "+class+"/"+key, args...)
		if err != nil {
			return total, err
		}
		total += int(r.int(1))
	}
}

// Trim removes the dead jobs of a class that are too many or too old, see [DeadLimits], over all shards. Workers call it
// now and then.
func (d DeadJobs) Trim(ctx context.Context, class Class) error {
	kept := make([]int64, len(d.c.tags))
	var sum int64
	for shard := range d.c.tags {
		for {
			r, err := d.c.run(ctx, d.c.scripts.class, shard, "trim dead jobs of class "+class.Name, "trim", class.Name, -1)
			if err != nil {
				return err
			}
			if kept[shard] = r.int(2); r.int(1) == 0 {
				break
			}
		}
		sum += kept[shard]
	}
	return d.even(ctx, class, kept, sum)
}

// even takes from the shards that have the most dead jobs until all of them together have no more than the class keeps.
func (d DeadJobs) even(ctx context.Context, class Class, kept []int64, sum int64) error {
	for sum > int64(class.Dead.Max) {
		shard := slices.Index(kept, slices.Max(kept))
		most := max(0, kept[shard]-min(touchMost, sum-int64(class.Dead.Max)))
		r, err := d.c.run(ctx, d.c.scripts.class, shard, "trim dead jobs of class "+class.Name, "trim", class.Name, most)
		if err != nil {
			return err
		}
		if r.int(1) == 0 {
			return nil
		}
		sum -= r.int(1)
		kept[shard] = r.int(2)
	}
	return nil
}

// bucketsOf tells the bucket of each job, empty for one that is gone.
func (d DeadJobs) bucketsOf(ctx context.Context, shard int, refs []string) ([]string, error) {
	if len(refs) == 0 {
		return nil, nil
	}
	pipe := d.c.rdb.Pipeline()
	calls := make([]*redis.StringCmd, len(refs))
	for i, ref := range refs {
		calls[i] = pipe.HGet(ctx, d.c.key(shard, "job", ref), "is")
	}
	if _, err := pipe.Exec(ctx); err != nil && !isNil(err) {
		return nil, readError("read dead jobs", err)
	}
	buckets := make([]string, len(refs))
	for i, call := range calls {
		_, buckets[i], _ = strings.Cut(call.Val(), "\n")
	}
	return buckets, nil
}
