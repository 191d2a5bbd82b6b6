package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// State is where a job is.
type State string

// The states of a job. A job that is done or was dropped is gone; within its dedup window Gone is what remains.
const (
	Line  State = "line"  // waits in the line
	Later State = "later" // delayed: joins the line later
	Out   State = "out"   // departed, with an owner
	Kept  State = "dead"  // failed, kept for an operator
	Gone  State = "gone"  // only its identity is remembered
)

// JobState is what is known of one job.
type JobState struct {
	Ref, Class, Key, ID, Type string
	State                     State
	Payload                   json.RawMessage
	// Position in the line, 1 for the next to leave; 0 for a job that is not in it.
	Position int
	// AdmittedAt, the EstimatedStart that its receipt told, and for a delayed job when it joins.
	AdmittedAt, EstimatedStart, NotBefore time.Time
	// ExpiresAt is when it will have waited longer than it may; zero for never.
	ExpiresAt time.Time
	// Worker that has it out.
	Worker string
	// Attempts that ended, the last one's Error and when it was.
	Attempts int
	Error    string
	EndedAt  time.Time
}

// MarshalJSON leaves out what a job does not have.
func (j JobState) MarshalJSON() ([]byte, error) {
	at := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(TimeFormat)
	}
	return json.Marshal(struct {
		Ref            string          `json:"ref"`
		Class          string          `json:"class"`
		Key            string          `json:"key"`
		ID             string          `json:"id"`
		Type           string          `json:"type,omitempty"`
		State          State           `json:"state"`
		Position       int             `json:"position,omitempty"`
		AdmittedAt     string          `json:"admitted_at"`
		EstimatedStart string          `json:"estimated_start,omitempty"`
		NotBefore      string          `json:"not_before,omitempty"`
		ExpiresAt      string          `json:"expires_at,omitempty"`
		Worker         string          `json:"worker,omitempty"`
		Attempts       int             `json:"attempts,omitempty"`
		Error          string          `json:"error,omitempty"`
		EndedAt        string          `json:"ended_at,omitempty"`
		Payload        json.RawMessage `json:"payload,omitempty"`
	}{
		j.Ref, j.Class, j.Key, j.ID, j.Type, j.State, j.Position, at(j.AdmittedAt), at(j.EstimatedStart),
		at(j.NotBefore), at(j.ExpiresAt), j.Worker, j.Attempts, j.Error, at(j.EndedAt), j.Payload,
	})
}

// Job reads one job by its ref. The error wraps [ErrNotFound] when it is gone, or never was.
func (c *Client) Job(ctx context.Context, ref string) (JobState, error) {
	shard, err := shardOfRef(ref, len(c.tags))
	if err != nil {
		return JobState{}, err
	}
	h, err := c.rdb.HGetAll(ctx, c.key(shard, "job", ref)).Result()
	if err != nil {
		return JobState{}, readError("read job "+ref, err)
	}
	if h["is"] == "" {
		return JobState{}, fmt.Errorf("%w: job %s: it is done or was dropped, or never was", ErrNotFound, ref)
	}
	j := readJob(ref, h)
	if j.State != "" {
		return j, nil
	}
	return j, c.locate(ctx, shard, &j, h["member"])
}

func readJob(ref string, h map[string]string) JobState {
	var f fields = h
	j := JobState{
		Ref: ref, ExpiresAt: f.time("expires"),
		Attempts: int(f.int("attempts")), Error: h["error"], EndedAt: f.time("ended"), State: State(h["state"]),
	}
	id, bucket, _ := strings.Cut(h["is"][min(digestLen, len(h["is"])):], "\n")
	j.ID = id
	j.Class, j.Key, _ = strings.Cut(bucket, "/")
	if meta := strings.Fields(h["meta"]); len(meta) == 6 { // see admit.lua
		j.AdmittedAt = time.UnixMicro(parseInt(meta[1])).UTC()
		j.EstimatedStart = j.AdmittedAt.Add(time.Duration(parseInt(meta[2])) * time.Microsecond)
		if h["member"] != "" {
			j.NotBefore = time.UnixMicro(parseInt(meta[0])).UTC()
		}
	}
	if h["run"] == "" {
		j.State = Gone
		return j
	}
	_, typ, payload := readRun(h["run"])
	j.Type, j.Payload = typ, json.RawMessage(payload)
	return j
}

// locate finds which place a job is in: exactly one, by the way the scripts move it.
func (c *Client) locate(ctx context.Context, shard int, j *JobState, member string) error {
	bucket := j.Class + "/" + j.Key
	if member == "" {
		member = j.Ref
	}
	pipe := c.rdb.Pipeline()
	rank := pipe.ZRank(ctx, c.key(shard, "line", bucket), member)
	later := pipe.ZScore(ctx, c.key(shard, "later", bucket), member)
	workers := pipe.HKeys(ctx, c.tags[shard]+":workers")
	if _, err := pipe.Exec(ctx); err != nil && !isNil(err) {
		return readError("find job "+j.Ref, err)
	}
	switch {
	case rank.Err() == nil:
		j.State, j.Position = Line, int(rank.Val())+1
		return nil
	case later.Err() == nil:
		j.State = Later
		return nil
	}
	j.State = Out
	for _, worker := range workers.Val() {
		has, err := c.rdb.HExists(ctx, c.key(shard, "out", worker), j.Ref).Result()
		if err != nil {
			return readError("find job "+j.Ref, err)
		}
		if has {
			j.Worker = worker
		}
	}
	return nil
}

// Jobs reads up to limit jobs of a class, or of one bucket when key is not empty: those in line and later, in order of
// departure, or, when dead is asked for, the dead ones, newest first.
func (c *Client) Jobs(ctx context.Context, class, key string, dead bool, limit int) ([]JobState, error) {
	if _, err := c.Classes().Get(ctx, class); err != nil {
		return nil, err
	}
	if dead {
		return c.deadJobs(ctx, class, key, limit)
	}
	buckets := []Bucket{{Class: class, Key: key}}
	if key == "" {
		var err error
		if buckets, err = c.Buckets().List(ctx, class, limit); err != nil {
			return nil, err
		}
	}
	var jobs []JobState
	for _, b := range buckets {
		if len(jobs) >= limit {
			break
		}
		some, err := c.waitingJobs(ctx, b.Name(), limit-len(jobs))
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, some...)
	}
	return jobs, nil
}

func (c *Client) waitingJobs(ctx context.Context, bucket string, limit int) ([]JobState, error) {
	shard := shardOf(bucket, len(c.tags))
	var jobs []JobState
	for _, place := range []State{Line, Later} {
		members, err := c.rdb.ZRange(ctx, c.key(shard, string(place), bucket), 0, int64(limit-len(jobs))-1).Result()
		if err != nil {
			return nil, readError("list jobs of bucket "+bucket, err)
		}
		some, err := c.readJobs(ctx, shard, members)
		if err != nil {
			return nil, err
		}
		for i := range some {
			some[i].State = place
			if place == Line {
				some[i].Position = i + 1
			}
		}
		if jobs = append(jobs, some...); len(jobs) >= limit {
			break
		}
	}
	return jobs, nil
}

func (c *Client) deadJobs(ctx context.Context, class, key string, limit int) ([]JobState, error) {
	var jobs []JobState
	for shard := range c.tags {
		if key != "" && shard != shardOf(class+"/"+key, len(c.tags)) {
			continue
		}
		some, err := c.deadOfShard(ctx, shard, class, key, limit)
		if err != nil {
			return nil, err
		}
		jobs = append(jobs, some...)
	}
	slices.SortStableFunc(jobs, func(a, b JobState) int { return b.EndedAt.Compare(a.EndedAt) })
	return jobs[:min(limit, len(jobs))], nil
}

// deadOfShard reads the newest dead jobs of a class in one shard, page by page until there are enough of the key.
func (c *Client) deadOfShard(ctx context.Context, shard int, class, key string, limit int) ([]JobState, error) {
	var jobs []JobState
	for from := int64(0); len(jobs) < limit; from += touchMost {
		refs, err := c.rdb.ZRevRange(ctx, c.key(shard, "dead", class), from, from+touchMost-1).Result()
		if err != nil {
			return nil, readError("list dead jobs of class "+class, err)
		}
		some, err := c.readJobs(ctx, shard, refs)
		if err != nil {
			return nil, err
		}
		for _, j := range some {
			if key == "" || j.Key == key {
				jobs = append(jobs, j)
			}
		}
		if len(refs) < touchMost {
			break
		}
	}
	return jobs, nil
}

// readJobs reads jobs by their members in a bucket. One that left in between is left out.
func (c *Client) readJobs(ctx context.Context, shard int, members []string) ([]JobState, error) {
	if len(members) == 0 {
		return nil, nil
	}
	pipe := c.rdb.Pipeline()
	refs := make([]string, len(members))
	calls := make([]*redis.MapStringStringCmd, len(members))
	for i, member := range members {
		refs[i] = member[strings.LastIndexByte(member, ':')+1:]
		calls[i] = pipe.HGetAll(ctx, c.key(shard, "job", refs[i]))
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, readError("read jobs", err)
	}
	var jobs []JobState
	for i, call := range calls {
		if h := call.Val(); h["is"] != "" {
			jobs = append(jobs, readJob(refs[i], h))
		}
	}
	return jobs, nil
}
