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

// Timings are what the starts of one class were like. The zero value is empty. Not safe for concurrent use.
type Timings struct {
	// Lateness of all starts; Wait of first attempts, from when the job joined its line to its start.
	Lateness, Wait Spread
}

// add adds those of another, which may be nil.
func (t *Timings) add(o *Timings) {
	if o == nil {
		return
	}
	for i := range o.Lateness.counts {
		t.Lateness.counts[i] += o.Lateness.counts[i]
		t.Wait.counts[i] += o.Wait.counts[i]
	}
}

// Report is what a worker tells of itself, about every 5 s.
type Report struct {
	// Worker is its name, new at each start.
	Worker string
	// Host, Process and Version are for people.
	Host    string
	Process int
	Version string
	// Classes that it drains; empty means all.
	Classes []string
	// Concurrency is its slots, Busy how many of them are taken, and Since when it started.
	Concurrency, Busy int
	Since             time.Time
	// Timings of its starts since the last report, by class.
	Timings map[string]*Timings
}

// Report tells of a worker, for [Client.Workers] and [Client.History], and how long it is until the next report is wanted.
func (c *Client) Report(ctx context.Context, o Report) (next time.Duration, err error) {
	var timings strings.Builder
	for class, t := range o.Timings {
		_, _ = fmt.Fprintf(&timings, "%s %v %v\n", class, &t.Lateness, &t.Wait)
	}
	args := []any{
		"report", o.Worker, timings.String(), "host", o.Host, "process", o.Process, "version", o.Version, "classes", strings.Join(o.Classes, " "),
		"concurrency", o.Concurrency, "busy", o.Busy, "since", o.Since.UnixMicro(),
	}
	left, err := c.scripts.record.Run(ctx, c.rdb, []string{c.tags[0]}, args...).Int64()
	if err != nil {
		return recordEvery, redisError("report of worker "+o.Worker, err)
	}
	return time.Duration(left) * time.Microsecond, nil
}

// Retire removes what a worker told of itself, as it stops.
func (c *Client) Retire(ctx context.Context, worker string) error {
	if err := c.rdb.Del(ctx, c.key(0, "worker", worker), c.key(0, "flow", worker), c.key(0, "starts", worker)).Err(); err != nil {
		return redisError("retire worker "+worker, err)
	}
	return nil
}

// Worker is one worker as it stands.
type Worker struct {
	Name string
	// Reported is when it last told of itself, which it does every 5 s; zero for one that does not, of an earlier build, or that
	// has not been heard of for 15 s: then all that follows up to Since is unknown.
	Reported time.Time
	// Age is the time since then.
	Age               time.Duration
	Host              string
	Process           int
	Version           string
	Classes           []string
	Concurrency, Busy int
	Since             time.Time
	// Shards it has called for departures, and Out, how many jobs it has out in all of them. One that died is listed until its
	// jobs are reclaimed.
	Shards []int
	Out    int
	// Calls counts its calls for departures in all shards: it grows, at least once a second in each, as long as the worker lives.
	Calls int64
}

// Workers lists the workers that have not left, by name, with two round trips.
func (c *Client) Workers(ctx context.Context) ([]Worker, error) {
	pipe := c.rdb.Pipeline()
	clock := pipe.Time(ctx)
	beats := make([]*redis.MapStringStringCmd, len(c.tags))
	for shard, tag := range c.tags {
		beats[shard] = pipe.HGetAll(ctx, tag+":workers")
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, readError("read the workers", err)
	}
	found := map[string]*Worker{}
	for shard := range beats {
		for name, beat := range beats[shard].Val() {
			if strings.HasPrefix(beat, "-") { // it has left, or was reclaimed
				continue
			}
			w := found[name]
			if w == nil {
				w = &Worker{Name: name}
				found[name] = w
			}
			w.Shards = append(w.Shards, shard)
			w.Calls += parseInt(beat)
		}
	}
	return c.describe(ctx, found, clock.Val())
}

// describe adds what workers told of themselves and what they have out.
func (c *Client) describe(ctx context.Context, found map[string]*Worker, now time.Time) ([]Worker, error) {
	pipe := c.rdb.Pipeline()
	told, out := map[string]*redis.MapStringStringCmd{}, map[string][]*redis.IntCmd{}
	for name, w := range found {
		told[name] = pipe.HGetAll(ctx, c.key(0, "worker", name))
		for _, shard := range w.Shards {
			out[name] = append(out[name], pipe.HLen(ctx, c.key(shard, "out", name)))
		}
	}
	if len(found) == 0 {
		return nil, nil
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return nil, readError("read the workers", err)
	}
	list := make([]Worker, 0, len(found))
	for name, w := range found {
		for _, n := range out[name] {
			w.Out += int(n.Val())
		}
		w.read(told[name].Val(), now)
		list = append(list, *w)
	}
	slices.SortFunc(list, func(a, b Worker) int { return cmp.Compare(a.Name, b.Name) })
	return list, nil
}

// read reads what a worker told of itself.
func (w *Worker) read(f fields, now time.Time) {
	if w.Reported = f.time("at"); w.Reported.IsZero() {
		return
	}
	w.Age = max(0, now.Sub(w.Reported))
	w.Host, w.Process, w.Version = f["host"], int(f.int("process")), f["version"]
	w.Classes, w.Concurrency, w.Busy = strings.Fields(f["classes"]), int(f.int("concurrency")), int(f.int("busy"))
	w.Since = f.time("since")
}

func formatInt(n int64) string { return strconv.FormatInt(n, 10) }
