package queue

import (
	"context"
	"strings"
	"time"
)

// Closed is what closes a bucket by itself, whatever its class is.
type Closed struct {
	// Paused and Draining, until it is resumed.
	Paused, Draining bool
	// Hold is until when it is held, and HoldReason why; zero when it is not.
	Hold       time.Time
	HoldReason string
	// Backoff is until when its head waits in line after a failed attempt; zero when it does not.
	Backoff time.Time
	// Sick says why workers set it aside.
	Sick string
}

// Closed reads what closes a bucket by itself. A bucket that nobody used lately, or of an unknown class, is closed by nothing.
func (s Buckets) Closed(ctx context.Context, class, key string) (Closed, error) {
	if err := s.check(class, key); err != nil {
		return Closed{}, err
	}
	name := class + "/" + key
	shard := shardOf(name, len(s.c.tags))
	pipe := s.c.rdb.Pipeline()
	own := pipe.HMGet(ctx, s.c.key(shard, "bucket", name), "paused", "draining", "hold", "hold_reason", "backoff")
	sick := pipe.HGet(ctx, s.c.tags[shard]+":sick", name)
	if _, err := pipe.Exec(ctx); err != nil && !isNil(err) {
		return Closed{}, readError("read bucket "+clip(name), err)
	}
	now, err := s.c.Now(ctx)
	if err != nil {
		return Closed{}, err
	}
	r := reply(own.Val())
	c := Closed{Paused: r.text(0) != "", Draining: r.text(1) != "", Hold: after(now, r.text(2)), Backoff: after(now, r.text(4)), Sick: sick.Val()}
	if !c.Hold.IsZero() {
		c.HoldReason = r.text(3)
	}
	return c, nil
}

// after is the time in us that a text begins with, zero when it is over.
func after(now time.Time, text string) time.Time {
	micros, _, _ := strings.Cut(text, " ")
	if at := time.UnixMicro(parseInt(micros)).UTC(); at.After(now) {
		return at
	}
	return time.Time{}
}
