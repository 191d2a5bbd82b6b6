package queue

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"
)

// Level is how many jobs wait in one bucket, as a [Walk] finds it.
type Level struct {
	Name string // class/key
	// Line is how many are in line. Later is how many are delayed where none is in line; -1 elsewhere: it was not looked at.
	Line, Later int
	// Opens is when workers look at the bucket next, as seen from now, negative when that is overdue: in a second or an interval while
	// it lets jobs go, at the end of a hold. It is [Never] while the bucket is closed until told otherwise, has all out that it may
	// have, or was set aside as sick.
	Opens time.Duration
}

// Never is when a bucket opens that is closed.
const Never time.Duration = math.MaxInt64

// Walk is a way through the buckets of some classes in one shard, for those who watch levels: what is still before it.
type Walk struct {
	Shard int
	// Classes that are to be gone through; more may be added behind the first at any time.
	Classes []string
	// Cursor is where the walk stands in the first of them, 0 at its beginning.
	Cursor uint64
}

// levelsMost bounds one step of a walk.
const levelsMost = 1000

// Levels goes on with a walk, by about as many buckets as limit says, at most 1000, with one command: it looks at what has jobs, remembers something or is
// closed, and takes the classes off that it came to the end of. A bucket that is there from beginning to end is found, perhaps twice. Up to
// about 100 sick ones of the shard, of whatever class, are told of in every step. An error leaves the walk where it is.
func (s Buckets) Levels(ctx context.Context, w *Walk, limit int) ([]Level, error) {
	if w.Shard < 0 || w.Shard >= len(s.c.tags) || limit < 1 || limit > levelsMost {
		return nil, fmt.Errorf("%w: %d buckets of shard %d: at most %d of 0 to %d are walked", ErrInvalid, limit, w.Shard, levelsMost, len(s.c.tags)-1)
	}
	if len(w.Classes) == 0 {
		return nil, nil
	}
	args := []any{"walk", strconv.FormatUint(w.Cursor, 10), limit}
	for _, class := range w.Classes[:min(len(w.Classes), touchMost)] {
		args = append(args, class)
	}
	r, err := s.c.look(ctx, s.c.scripts.levels, w.Shard, "read levels", args...)
	if err != nil {
		return nil, err
	}
	cursor, err := strconv.ParseUint(r.text(2), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("queue: read levels: redis answered the cursor %q", r.text(2))
	}
	w.Classes, w.Cursor = w.Classes[r.int(1):], cursor
	found, sick := reply(r.list(3)), reply(r.list(4))
	list := make([]Level, 0, len(found)/4+len(sick))
	for i := 0; i+3 < len(found); i += 4 {
		list = append(list, Level{found.text(i), int(found.int(i + 2)), int(found.int(i + 3)), opens(found.text(i+1), r.int(0))})
	}
	for i := range sick {
		list = append(list, Level{Name: sick.text(i), Later: -1, Opens: Never})
	}
	return list, nil
}

// opens reads a score of the due index.
func opens(score string, now int64) time.Duration {
	at, err := strconv.ParseFloat(score, 64)
	if err != nil || math.IsInf(at, 1) {
		return Never
	}
	return time.Duration(at-float64(now)) * time.Microsecond
}

// Lines tells how many jobs are in line in the buckets with these names (class/key), in their order, at most 100: a fraction of what
// [Buckets.Some] costs. One that is not there has none. The error wraps [ErrInvalid] for more of them and for what cannot be a name.
func (s Buckets) Lines(ctx context.Context, names []string) ([]int, error) {
	shards, err := s.byShard(names)
	if err != nil {
		return nil, err
	}
	found := make([]reply, len(shards))
	if err := inShards(shards, func(shard int, names []string) (err error) {
		args := make([]any, 1, 1+len(names))
		args[0] = "lines"
		for _, name := range names {
			args = append(args, name)
		}
		found[shard], err = s.c.look(ctx, s.c.scripts.levels, shard, "read lines", args...)
		return err
	}); err != nil {
		return nil, err
	}
	lines, next := make([]int, len(names)), make([]int, len(shards))
	for i, name := range names {
		shard := shardOf(name, len(shards))
		lines[i] = int(found[shard].int(next[shard]))
		next[shard]++
	}
	return lines, nil
}
