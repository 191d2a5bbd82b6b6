package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// Some reads the buckets with these names (class/key), at most 100 of any classes, in one round trip and with one command per
// shard. They come in the order of their names here; one that nobody used lately is empty, one of an unknown class is left
// out. The error wraps [ErrInvalid] for more of them and for what cannot be a name.
func (s Buckets) Some(ctx context.Context, names []string) ([]Bucket, error) {
	shards, err := s.byShard(names)
	if err != nil {
		return nil, err
	}
	found := make([][]Bucket, len(shards))
	if err := inShards(shards, func(shard int, names []string) (err error) {
		found[shard], err = s.states(ctx, shard, names)
		return err
	}); err != nil {
		return nil, err
	}
	byName := make(map[string]Bucket, len(names))
	for _, b := range slices.Concat(found...) {
		byName[b.Name()] = b
	}
	list := make([]Bucket, 0, len(byName))
	for _, name := range names {
		if b, ok := byName[name]; ok {
			list = append(list, b)
		}
	}
	return list, nil
}

// byShard sorts the names of buckets, at most touchMost, by their shards, where they keep their order.
func (s Buckets) byShard(names []string) ([][]string, error) {
	if len(names) > touchMost {
		return nil, fmt.Errorf("%w: %d buckets at once, at most %d are allowed", ErrInvalid, len(names), touchMost)
	}
	shards := make([][]string, len(s.c.tags))
	for _, name := range names {
		class, key, _ := strings.Cut(name, "/")
		if err := s.check(class, key); err != nil {
			return nil, err
		}
		shard := shardOf(name, len(shards))
		shards[shard] = append(shards[shard], name)
	}
	return shards, nil
}

// inShards reads all shards that anything is asked of at once.
func inShards(shards [][]string, read func(shard int, names []string) error) error {
	errs := make([]error, len(shards))
	var reading sync.WaitGroup
	for shard, names := range shards {
		if len(names) > 0 {
			reading.Go(func() { errs[shard] = read(shard, names) })
		}
	}
	reading.Wait()
	return errors.Join(errs...)
}

// states reads how at most touchMost buckets of one shard stand, with one command. Those of unknown classes are left out.
func (s Buckets) states(ctx context.Context, shard int, names []string) ([]Bucket, error) {
	if len(names) == 0 {
		return nil, nil
	}
	args := make([]any, len(names))
	for i, name := range names {
		args[i] = name
	}
	r, err := s.c.look(ctx, s.c.scripts.states, shard, "read buckets", args...)
	if err != nil {
		return nil, err
	}
	now := time.UnixMicro(r.int(0)).UTC()
	classes, err := readClasses(r.list(1))
	if err != nil {
		return nil, err
	}
	list := make([]Bucket, 0, len(names))
	for i, name := range names {
		cname, key, _ := strings.Cut(name, "/")
		if class, ok := classes[cname]; ok {
			list = append(list, readBucket(class, key, now, r.list(i+2)))
		}
	}
	return list, nil
}

// readClasses reads the classes that states.lua tells of, leaving out those that do not exist.
func readClasses(r reply) (map[string]Class, error) {
	classes := make(map[string]Class, len(r)/2)
	for i := 0; i+1 < len(r); i += 2 {
		h, values := fields{}, reply(r.list(i+1))
		for j := 0; j+1 < len(values); j += 2 {
			h[values.text(j)] = values.text(j + 1)
		}
		if h["capacity"] == "" || h["removed"] != "" {
			continue
		}
		class, err := readClass(r.text(i), h)
		if err != nil {
			return nil, err
		}
		classes[class.Name] = class
	}
	return classes, nil
}

// readBucket reads what states.lua tells of one bucket.
func readBucket(class Class, key string, now time.Time, r reply) Bucket {
	line, later := int(r.int(0)), int(r.int(1))
	b := Bucket{
		Class: class.Name, Key: key, At: now,
		Level: line + later, Line: line, Later: later, Capacity: class.Capacity, Rate: class.Rate,
		Paused: class.Paused, Draining: class.Draining, Out: -1, Sick: r.text(3),
	}
	if class.bounded() {
		b.Out = int(max(0, r.int(2)))
	}
	b.readOwn(class, r.list(4))
	return b
}

// readOwn reads the fields of the bucket's own hash, OWN in states.lua.
func (b *Bucket) readOwn(class Class, own reply) {
	b.Adapted = readAdapted(own.text(7), class, b.At)
	interval := b.interval(class)
	b.Interval = time.Duration(interval * float64(time.Microsecond))
	if slot := own.text(1); slot != "" {
		b.Due = dueAfter(slot, interval)
	}
	b.Paused = b.Paused || own.text(2) != ""
	b.Draining = b.Draining || own.text(3) != ""
	backoff, _, _ := strings.Cut(own.text(5), " ")
	b.holdUntil(own.int(4), cmp.Or(own.text(6), "an operator"))
	b.holdUntil(parseInt(backoff), "its head waits out a backoff")
	b.holdUntil(class.Hold.UnixMicro(), class.HoldReason)
	b.Overflowed = own.int(8)
}

// holdUntil notes a hold, if it is the longest.
func (b *Bucket) holdUntil(until int64, reason string) {
	if until > b.At.UnixMicro() && until > b.Hold.UnixMicro() {
		b.Hold, b.HoldReason = time.UnixMicro(until).UTC(), reason
	}
}

// interval of the bucket in microseconds, as it is now.
func (b *Bucket) interval(class Class) float64 {
	t := float64(b.Rate.Period.Microseconds()) / float64(b.Rate.Limit)
	switch _, high := class.Adapt.shares(class.Rate); {
	case b.Adapted != nil:
		return t / b.Adapted.Now
	case class.Adapt.on():
		return t / high
	}
	return t
}

// dueAfter is slot + T, rounded up to a microsecond.
func dueAfter(slot string, interval float64) time.Time {
	whole, decimals, _ := strings.Cut(slot, ".")
	fraction := float64(parseInt(decimals)) / math.Pow10(len(decimals))
	return time.UnixMicro(parseInt(whole) + int64(math.Ceil(interval+fraction))).UTC()
}
