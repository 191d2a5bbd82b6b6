package queue

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Buckets reads buckets and closes, opens and empties them.
type Buckets struct{ c *Client }

// Buckets returns the buckets of the installation.
func (c *Client) Buckets() Buckets { return Buckets{c} }

// Bucket is the state of one bucket at one moment.
type Bucket struct {
	Class, Key string
	// Level is how many jobs hold a place: those in the Line and those Later, which are delayed.
	Level, Line, Later int
	Capacity           int
	Rate               Rate
	// Due is the earliest time of the next departure, zero when any time will do.
	Due time.Time
	// Paused tells whether the bucket, or its class, is closed until resumed.
	Paused bool
	// Draining tells whether the bucket, or its class, admits nothing until resumed.
	Draining bool
	// Hold is until when the bucket is closed, by an operator or because its head waits out a backoff; zero when it is not.
	Hold time.Time
	// HoldReason is why: what the service said, an operator, or the backoff of the head.
	HoldReason string
	// Adapted is how the bucket follows what its service bears; nil when it lets jobs go at the class's rate.
	Adapted *Adapted
	// Out is how many of its jobs are out, -1 when the class does not count them (max_in_flight, order hold).
	Out int
	// Sick says why workers set the bucket aside; resume it when that is mended.
	Sick string
	// Overflowed counts the submissions that found it full, since it was last empty and forgotten.
	Overflowed int64
	// At is the server's time of all this, and Interval the bucket's T then: that of the class's rate, or of what it adapted to.
	At       time.Time
	Interval time.Duration
}

// StartOf estimates, as of At, when the job at a position of the line starts, 1 for the next to leave: what the outflow law
// gives if the bucket is drained at its rate. Zero for a paused bucket, where nobody can tell, and for positions below 1.
func (b Bucket) StartOf(position int) time.Time {
	if b.Paused || position < 1 {
		return time.Time{}
	}
	next := b.At
	for _, t := range []time.Time{b.Due, b.Hold} {
		if t.After(next) {
			next = t
		}
	}
	return next.Add(time.Duration(position-1) * b.Interval)
}

// Name is class/key.
func (b Bucket) Name() string { return b.Class + "/" + b.Key }

// MarshalJSON writes the bucket in the words of the design.
func (b Bucket) MarshalJSON() ([]byte, error) {
	var out *int
	if b.Out >= 0 {
		out = &b.Out
	}
	return json.Marshal(struct {
		Class      string   `json:"class"`
		Key        string   `json:"key"`
		Level      int      `json:"level"`
		Capacity   int      `json:"capacity"`
		Line       int      `json:"line"`
		Later      int      `json:"later"`
		Rate       Rate     `json:"rate"`
		Due        string   `json:"due,omitempty"`
		Hold       string   `json:"hold,omitempty"`
		HoldReason string   `json:"hold_reason,omitempty"`
		Adapted    *Adapted `json:"adapted,omitempty"`
		Paused     bool     `json:"paused"`
		Draining   bool     `json:"draining,omitempty"`
		Out        *int     `json:"out,omitempty"`
		Sick       string   `json:"sick,omitempty"`
		Overflowed int64    `json:"overflowed,omitempty"`
	}{
		b.Class, b.Key, b.Level, b.Capacity, b.Line, b.Later, b.Rate, shownTime(b.Due), shownTime(b.Hold), b.HoldReason, b.Adapted,
		b.Paused, b.Draining, out, b.Sick, b.Overflowed,
	})
}

// List reads up to limit buckets of a class, the fullest first after those that are sick. Looked at are, in each shard, up to
// limit that are sick, have jobs, remember a slot or are paused: sick ones, then those due earliest.
func (s Buckets) List(ctx context.Context, class string, limit int) ([]Bucket, error) {
	if _, err := s.c.Classes().Get(ctx, class); err != nil {
		return nil, err
	}
	var list []Bucket
	for shard := range s.c.tags {
		found, err := s.known(ctx, shard, class, limit)
		if err != nil {
			return nil, readError("list buckets of class "+class, err)
		}
		for part := range slices.Chunk(found, touchMost) {
			states, err := s.states(ctx, shard, part)
			if err != nil {
				return nil, err
			}
			list = append(list, states...)
		}
	}
	slices.SortStableFunc(list, func(a, b Bucket) int {
		return cmp.Or(-cmp.Compare(min(1, len(a.Sick)), min(1, len(b.Sick))), -cmp.Compare(a.Level, b.Level), cmp.Compare(a.Key, b.Key))
	})
	return list[:min(limit, len(list))], nil
}

// known lists up to limit buckets of a class in one shard: those that were set aside as sick, which stand in no index, and
// those that are due first.
func (s Buckets) known(ctx context.Context, shard int, class string, limit int) ([]string, error) {
	pipe := s.c.rdb.Pipeline()
	sick := pipe.HKeys(ctx, s.c.tags[shard]+":sick")
	due := pipe.ZRange(ctx, s.c.key(shard, "due", class), 0, int64(limit)-1)
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, err
	}
	var list []string
	for _, name := range sick.Val() {
		if strings.HasPrefix(name, class+"/") {
			list = append(list, name)
		}
	}
	for _, name := range due.Val() {
		if !slices.Contains(sick.Val(), name) {
			list = append(list, name)
		}
	}
	return list[:min(limit, len(list))], nil
}

// Get reads one bucket. One that nobody used lately is empty, which is no error; an unknown class is.
func (s Buckets) Get(ctx context.Context, class, key string) (Bucket, error) {
	if err := CheckKey(key); err != nil {
		return Bucket{}, err
	}
	if !isClassName(class) {
		return Bucket{}, fmt.Errorf("%w: %q", ErrUnknownClass, clip(class))
	}
	name := class + "/" + key
	states, err := s.states(ctx, shardOf(name, len(s.c.tags)), []string{name})
	if err != nil {
		return Bucket{}, err
	}
	if len(states) == 0 {
		return Bucket{}, fmt.Errorf("%w: %q", ErrUnknownClass, clip(class))
	}
	return states[0], nil
}

// Pause closes a bucket until Resume. Submissions go on until it is full; then nobody can tell a retry-after.
func (s Buckets) Pause(ctx context.Context, class, key string) error {
	return s.one(ctx, "pause", class, key)
}

// Resume ends a pause and a drain, and opens a bucket that workers had set aside. Nothing is made up for.
func (s Buckets) Resume(ctx context.Context, class, key string) error {
	return s.one(ctx, "resume", class, key)
}

// Drain admits nothing more into a bucket and lets it empty, until Resume. What fails meanwhile comes back all the same.
func (s Buckets) Drain(ctx context.Context, class, key string) error {
	return s.one(ctx, "drain", class, key)
}

// Hold closes a bucket until a time, in place of any hold before; submissions go on. Nothing is made up for afterwards.
func (s Buckets) Hold(ctx context.Context, class, key string, until time.Time) error {
	if y := until.Year(); y < 1970 || y > 2200 {
		return fmt.Errorf("%w: hold until %s is not between the years 1970 and 2200", ErrInvalid, until.Format(time.RFC3339))
	}
	return s.at(ctx, "hold", until.UnixMicro(), class, key)
}

// Unhold opens a bucket that is held, also one whose head waits out a backoff.
func (s Buckets) Unhold(ctx context.Context, class, key string) error {
	return s.one(ctx, "unhold", class, key)
}

func (s Buckets) one(ctx context.Context, op, class, key string) error {
	return s.at(ctx, op, 0, class, key)
}

func (s Buckets) at(ctx context.Context, op string, until int64, class, key string) error {
	if err := s.check(class, key); err != nil {
		return err
	}
	name := class + "/" + key
	_, err := s.c.bucketScript(ctx, shardOf(name, len(s.c.tags)), op, until, name)
	return err
}

func (s Buckets) check(class, key string) error {
	if !isClassName(class) {
		return fmt.Errorf("%w: class %q is not [a-z0-9][a-z0-9_-]{0,63}", ErrInvalid, clip(class))
	}
	return CheckKey(key)
}

// Purge drops all jobs that wait in a bucket and tells how many. What is out goes on.
func (s Buckets) Purge(ctx context.Context, class, key string) (int, error) {
	if err := s.check(class, key); err != nil {
		return 0, err
	}
	name := class + "/" + key
	return s.c.purge(ctx, shardOf(name, len(s.c.tags)), name)
}

func (c *Client) purge(ctx context.Context, shard int, bucket string) (int, error) {
	total := 0
	for {
		r, err := c.bucketScript(ctx, shard, "purge", 0, bucket)
		if err != nil {
			return total, err
		}
		total += int(r.int(1))
		if r.int(2) == 0 {
			return total, nil
		}
	}
}

func (c *Client) bucketScript(ctx context.Context, shard int, op string, until int64, names ...string) (reply, error) {
	args := []any{op, until}
	for _, name := range names {
		args = append(args, name)
	}
	r, err := c.run(ctx, c.scripts.bucket, shard, op+" bucket", args...)
	if err == nil && r.text(0) == "unknown_class" {
		class, _, _ := strings.Cut(names[0], "/")
		return nil, fmt.Errorf("%w: %q", ErrUnknownClass, class)
	}
	return r, err
}

// readError is redisError for a call that changes nothing: whatever happened, nothing was done.
func readError(what string, err error) error {
	return fmt.Errorf("%w: %s: %w", ErrUnavailable, what, err)
}

func isNil(err error) bool { return errors.Is(err, redis.Nil) }
