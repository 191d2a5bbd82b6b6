package queue

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// recordTime bounds the recording of one point.
const recordTime = 4 * time.Second

// Record records the history of all classes until ctx ends: a point every 5 s, by whichever program is first. Every worker and
// the admin run it; what it costs those that are not first is one command in 5 s. log gets what keeps it from recording.
func (c *Client) Record(ctx context.Context, log *slog.Logger) {
	failing := false
	wait := time.Duration(0)
	for pause(ctx, wait+rand.N(recordEvery/20)) { //nolint:gosec // no secret
		next, err := c.recordPoint(ctx)
		if wait = next; err != nil && ctx.Err() == nil && !failing {
			log.LogAttrs(ctx, slog.LevelWarn, "the history of classes is not recorded; this goes on until redis answers", slog.Any("error", err))
		}
		failing = err != nil
	}
}

// pause waits; false means that ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// recordPoint records the point of this slot, unless another program has, and tells how long it is until the next one.
func (c *Client) recordPoint(ctx context.Context) (next time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, recordTime)
	defer cancel()
	r, err := c.run(ctx, c.scripts.record, 0, "record the history", "claim")
	if err != nil {
		return recordEvery, err
	}
	began, slot := time.Now(), r.int(0)
	next = time.Duration(r.int(1)) * time.Microsecond
	if slot > 0 {
		err = c.append(ctx, slot, time.UnixMicro(r.int(2)).UTC(), r.int(3) == 1)
	}
	return max(0, next-time.Since(began)), err
}

// append writes the points of all classes.
func (c *Client) append(ctx context.Context, slot int64, at time.Time, day bool) error {
	standings, err := c.Standings(ctx)
	if err != nil || len(standings) == 0 {
		return err
	}
	timings, err := c.timings(ctx, slot-1)
	if err != nil {
		return err
	}
	var sums map[string]*Timings
	if day {
		if sums, err = c.timingsOfDay(ctx, standings); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(standings, collectMost) {
		args := []any{"append", 0}
		if day {
			args[1] = 1
		}
		for i := range part {
			s := &part[i]
			point := newRecord(at, s, timings[s.Class])
			ofDay := ""
			if day {
				sum := point
				sum.timings.add(sums[s.Class])
				ofDay = sum.String()
			}
			args = append(args, s.Class, point.String(), ofDay)
		}
		if err := c.scripts.record.Run(ctx, c.rdb, []string{c.tags[0]}, args...).Err(); err != nil {
			return redisError("record the history", err)
		}
	}
	return nil
}

// timings reads what workers told of the starts in a slot, summed by class.
func (c *Client) timings(ctx context.Context, slot int64) (map[string]Timings, error) {
	told, err := c.rdb.HVals(ctx, c.key(0, "timings", formatInt(slot))).Result()
	if err != nil {
		return nil, readError("read how late starts were", err)
	}
	sums := map[string]Timings{}
	for _, text := range told {
		for line := range strings.Lines(text) {
			f := strings.Fields(line)
			if len(f) == 3 {
				sum := sums[f[0]]
				sum.Lateness.read(f[1])
				sum.Wait.read(f[2])
				sums[f[0]] = sum
			}
		}
	}
	return sums, nil
}

// timingsOfDay sums the timings of the recent points that one point of a day is for, but for the last one.
func (c *Client) timingsOfDay(ctx context.Context, standings []Standing) (map[string]*Timings, error) {
	step, _ := Day.step()
	pipe := c.rdb.Pipeline()
	rings := make([]*redis.StringSliceCmd, len(standings))
	for i := range standings {
		rings[i] = pipe.LRange(ctx, c.key(0, "recent", standings[i].Class), 1-int64(step/recordEvery), -1)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, readError("read the history", err)
	}
	sums := map[string]*Timings{}
	for i, ring := range rings {
		sum := &Timings{}
		for _, text := range ring.Val() {
			if r, ok := readRecord(text); ok {
				sum.add(&r.timings)
			}
		}
		sums[standings[i].Class] = sum
	}
	return sums, nil
}
