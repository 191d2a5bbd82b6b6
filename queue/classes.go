package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Classes reads and changes the settings of classes, on all shards.
type Classes struct{ c *Client }

// Classes returns the classes of the installation.
func (c *Client) Classes() Classes { return Classes{c} }

// touchMost is how many buckets one script call indexes again.
const touchMost = 100

// Put stores a class, new or changed, and returns it with its version. A changed rate counts from the next departure on,
// for jobs that wait already too; a capacity lowered below a bucket's level rejects until it fits. Should it fail half
// way, repeat it. A concurrent Put of the same class is an error that wraps [ErrConflict].
func (s Classes) Put(ctx context.Context, class Class) (Class, error) {
	if err := class.Validate(); err != nil {
		return class, err
	}
	stored, err := s.versions(ctx, class.Name)
	if err != nil {
		return class, err
	}
	return s.put(ctx, class, stored.newest)
}

// PutIf is Put for somebody who has looked at the class: it stores nothing, with an error that wraps [ErrConflict] and names both
// versions, unless the class has exactly this version; 0 is for one that must not exist. Where an earlier Put failed half
// way it conflicts too, until that is repeated.
func (s Classes) PutIf(ctx context.Context, class Class, version int64) (Class, error) {
	if err := class.Validate(); err != nil {
		return class, err
	}
	stored, err := s.versions(ctx, class.Name)
	switch {
	case err != nil:
		return class, err
	case stored.shown != version && stored.shown == 0:
		return class, fmt.Errorf("%w: class %s has been removed, or never was, so it has no version %d: leave the version out to make it anew",
			ErrConflict, class.Name, version)
	case stored.shown != version:
		return class, fmt.Errorf("%w: class %s has version %d, not %d: somebody has changed it; look at it and try again",
			ErrConflict, class.Name, stored.shown, version)
	case version == 0 && stored.live > 0: // else both of two who make it at once would be told that they have
		return class, fmt.Errorf("%w: class %s is being made as version %d, or removed, or that failed half way: "+
			"look at it and try again, or store it without a version", ErrConflict, class.Name, stored.live)
	case stored.shown != stored.newest && stored.shown != 0:
		return class, fmt.Errorf("%w: class %s has version %d and is being changed to %d, or that failed half way: "+
			"look at it and try again, or store it without a version", ErrConflict, class.Name, stored.shown, stored.newest)
	}
	return s.put(ctx, class, stored.newest)
}

// put stores a class as the version after the newest.
func (s Classes) put(ctx context.Context, class Class, newest int64) (Class, error) {
	class.Version = newest + 1
	args := []any{"put", class.Name, class.Version}
	for _, v := range class.settings() {
		args = append(args, v)
	}
	for shard := range slices.Backward(s.c.tags) { // the one that is read comes last: half a Put is not taken for all
		r, err := s.c.run(ctx, s.c.scripts.class, shard, "store class "+class.Name, args...)
		if err != nil {
			return class, err
		}
		if r.text(0) == "stale" {
			return class, fmt.Errorf("%w: class %s was changed by somebody else just now (version %d, as this would be %d); look at it and try again",
				ErrConflict, class.Name, r.int(1), class.Version)
		}
		if r.int(1) == 1 {
			if err := s.track(ctx, shard, class.Name); err != nil {
				return class, err
			}
		}
		if err := s.reindex(ctx, shard, class.Name); err != nil {
			return class, err
		}
	}
	return class, nil
}

// track lets the buckets of a class that got its first bound count what they have out already.
func (s Classes) track(ctx context.Context, shard int, name string) error {
	workers, err := s.c.rdb.HKeys(ctx, s.c.tags[shard]+":workers").Result()
	if err != nil {
		return readError("read the workers", err)
	}
	for _, worker := range workers {
		if _, err := s.c.run(ctx, s.c.scripts.class, shard, "count what class "+name+" has out", "track", name, worker); err != nil {
			return err
		}
	}
	_, err = s.c.run(ctx, s.c.scripts.class, shard, "count what class "+name+" has out", "track", name)
	return err
}

// versions of a class: the one that is shown, 0 when there is no such class, the newest that any shard has, which a removed
// class may still have, and the newest that is not removed.
type versions struct{ shown, newest, live int64 }

func (s Classes) versions(ctx context.Context, name string) (versions, error) {
	var v versions
	for shard := range slices.Backward(s.c.tags) {
		stored, err := s.c.rdb.HMGet(ctx, s.c.key(shard, "class", name), "version", "removed").Result()
		if err != nil {
			return v, readError("read class "+name, err)
		}
		version := reply(stored).int(0)
		v.newest = max(v.newest, version)
		if v.shown = version; reply(stored).text(1) != "" {
			v.shown = 0
		}
		v.live = max(v.live, v.shown)
	}
	return v, nil
}

// reindex moves the dues of a class's buckets to where its settings now put them, a bounded number per call.
func (s Classes) reindex(ctx context.Context, shard int, name string) error {
	return s.eachBucket(ctx, shard, name, func(names []string) error {
		_, err := s.c.bucketScript(ctx, shard, "touch", 0, names...)
		return err
	})
}

// eachBucket passes all buckets of a class in one shard, some possibly twice, in batches. It looks first and then passes,
// since what is done to some may move others from under a scan: a server need not find what changes place meanwhile.
func (s Classes) eachBucket(ctx context.Context, shard int, class string, each func(names []string) error) error {
	var cursor uint64
	var names []string
	for {
		pairs, next, err := s.c.rdb.ZScan(ctx, s.c.key(shard, "due", class), cursor, "", touchMost).Result()
		if err != nil {
			return readError("list buckets of class "+class, err)
		}
		for i := 0; i < len(pairs); i += 2 {
			names = append(names, pairs[i])
		}
		if cursor = next; cursor == 0 {
			break
		}
	}
	for batch := range slices.Chunk(names, touchMost) {
		if err := each(batch); err != nil {
			return err
		}
	}
	return nil
}

// Get reads one class. The error wraps [ErrUnknownClass] when there is none.
func (s Classes) Get(ctx context.Context, name string) (Class, error) {
	h, err := s.c.rdb.HGetAll(ctx, s.c.key(0, "class", name)).Result()
	if err != nil {
		return Class{}, readError("read class "+name, err)
	}
	if h["capacity"] == "" || h["removed"] != "" {
		return Class{}, fmt.Errorf("%w: %q", ErrUnknownClass, clip(name))
	}
	return readClass(name, h)
}

// List reads all classes, by name.
func (s Classes) List(ctx context.Context) ([]Class, error) {
	names, err := s.c.rdb.SMembers(ctx, s.c.tags[0]+":classes").Result()
	if err != nil {
		return nil, readError("list classes", err)
	}
	slices.Sort(names)
	var classes []Class
	for _, name := range names {
		class, err := s.Get(ctx, name)
		switch {
		case err == nil:
			classes = append(classes, class)
		case ReasonOf(err) != ReasonUnknownClass: // one that is just being removed is not there
			return nil, err
		}
	}
	return classes, nil
}

// Pause closes all buckets of a class until Resume, in one step per shard. Submissions go on.
func (s Classes) Pause(ctx context.Context, name string) error { return s.all(ctx, "pause", name) }

// Drain admits nothing more to a class and lets its buckets empty, until Resume.
func (s Classes) Drain(ctx context.Context, name string) error { return s.all(ctx, "drain", name) }

// Hold closes all buckets of a class until a time, in place of any hold of the class before; submissions go on. reason is
// shown to people. Nothing is made up for afterwards.
func (s Classes) Hold(ctx context.Context, name string, until time.Time, reason string) error {
	return s.hold(ctx, name, until, reason, 0)
}

// HoldMore is Hold for a called service that asked for it: a hold that ends later stays.
func (s Classes) HoldMore(ctx context.Context, name string, until time.Time, reason string) error {
	return s.hold(ctx, name, until, reason, 1)
}

func (s Classes) hold(ctx context.Context, name string, until time.Time, reason string, longer int) error {
	if y := until.Year(); y < 1970 || y > 2200 {
		return fmt.Errorf("%w: hold until %s is not between the years 1970 and 2200", ErrInvalid, until.Format(time.RFC3339))
	}
	return s.all(ctx, "hold", name, until.UnixMicro(), shortened(reason), longer)
}

// Unhold opens a class that is held; its buckets may have holds of their own.
func (s Classes) Unhold(ctx context.Context, name string) error { return s.all(ctx, "unhold", name) }

// Resume ends a pause and a drain of the class. Nothing is made up for.
func (s Classes) Resume(ctx context.Context, name string) error { return s.all(ctx, "resume", name) }

func (s Classes) all(ctx context.Context, op, name string, args ...any) error {
	for shard := range s.c.tags {
		r, err := s.c.run(ctx, s.c.scripts.class, shard, op+" class "+name, append([]any{op, name}, args...)...)
		if err != nil {
			return err
		}
		if r.text(0) == "unknown_class" {
			return fmt.Errorf("%w: %q", ErrUnknownClass, clip(name))
		}
	}
	return nil
}

// BusyError says that a class still has jobs, so it was not removed.
type BusyError struct {
	Class              string
	Waiting, Out, Dead int64
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("queue: class %s is not removed: %d jobs wait, %d run, %d dead ones are kept",
		e.Class, e.Waiting, e.Out, e.Dead)
}

// Remove deletes a class that has no jobs; a [*BusyError] tells what it has. Buckets that must still remember when they
// last let a job go keep the settings until then, so that a class made anew does not depart too early.
func (s Classes) Remove(ctx context.Context, name string) error {
	books, err := s.c.Books(ctx, name)
	if err != nil {
		return err
	}
	busy := BusyError{Class: name, Waiting: books.Waiting(), Out: books.Out()}
	for shard := range s.c.tags {
		n, err := s.c.rdb.ZCard(ctx, s.c.key(shard, "dead", name)).Result()
		if err != nil {
			return readError("count dead jobs of class "+name, err)
		}
		busy.Dead += n
	}
	if busy.Waiting+busy.Out+busy.Dead > 0 {
		return &busy
	}
	removed := false
	for shard := range s.c.tags {
		r, err := s.c.run(ctx, s.c.scripts.class, shard, "remove class "+name, "rm", name)
		if err != nil {
			return err
		}
		if r.text(0) == "busy" {
			return &BusyError{name, r.int(1), r.int(2), r.int(3)}
		}
		removed = removed || r.text(0) == "ok"
	}
	if !removed {
		return fmt.Errorf("%w: %q", ErrUnknownClass, clip(name))
	}
	if err := s.c.rdb.Del(ctx, s.c.key(0, "recent", name), s.c.key(0, "day", name)).Err(); err != nil {
		return redisError("forget the history of class "+name, err)
	}
	for shard := range s.c.tags { // paused buckets would stay for ever
		if err := s.reindex(ctx, shard, name); err != nil && !errors.Is(err, ErrUnknownClass) {
			return err
		}
	}
	return nil
}

// Purge drops all waiting and all dead jobs of a class and tells how many of each. What is out goes on.
func (s Classes) Purge(ctx context.Context, name string) (waiting, dead int, err error) {
	if _, err := s.Get(ctx, name); err != nil {
		return 0, 0, err
	}
	waiting, err = s.PurgeWaiting(ctx, name)
	if err != nil {
		return waiting, 0, err
	}
	dead, err = s.c.Dead().Purge(ctx, name, "")
	return waiting, dead, err
}

// PurgeWaiting drops all waiting jobs of a class and tells how many.
func (s Classes) PurgeWaiting(ctx context.Context, name string) (int, error) {
	total := 0
	for shard := range s.c.tags {
		err := s.eachBucket(ctx, shard, name, func(names []string) error {
			for _, bucket := range names {
				n, err := s.c.purge(ctx, shard, bucket)
				if total += n; err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return total, err
		}
	}
	return total, nil
}
