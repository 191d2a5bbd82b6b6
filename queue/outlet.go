package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// Outlet is one worker's side of one shard: it takes departures and settles them. Depart must not be called concurrently
// on one Outlet; Settle may be.
type Outlet struct {
	c      *Client
	shard  int
	worker string
	call   int64 // number of the last call sent
	seen   int64 // number of the last call whose reply arrived
}

// Outlet returns the outlet of a worker. The name must be random and new at each start of the worker, since departures
// belong to it.
func (c *Client) Outlet(worker string, shard int) *Outlet {
	return &Outlet{c: c, shard: shard, worker: worker}
}

// Departure is one job that has left its bucket: one attempt of it may start now.
type Departure struct {
	// Ref names the job, Stamp this departure of it. Together they fence everything that follows.
	Ref, Stamp string
	// Worker is who owns the departure.
	Worker string
	// Due is when the job was to leave.
	Due            time.Time
	Class, Key, ID string
	Type           string
	Payload        []byte
	// Number is the job's place in the order of its bucket: lower leaves first.
	Number int64
	// Backs is how often a departure of this job was given back because it had become stale.
	Backs int
	// Settings of the class at this departure.
	Settings *Settings
}

// Settings of a class that an attempt needs.
type Settings struct {
	Timeout time.Duration
	// HTTP is the class's http settings as JSON, empty for the defaults.
	HTTP string
}

// Departures is the answer to one call of [Outlet.Depart].
type Departures struct {
	Jobs []Departure
	// Now is the server's time of the call.
	Now time.Time
	// Wait is the time from Now until the next departure may be possible; negative when none is in sight.
	Wait time.Duration
	// Returned counts jobs that went back to their buckets because the reply that held them was lost.
	Returned int
	// Visits counts the buckets whose time had come. None, at a time when one was due, means another worker was first.
	Visits int
}

// ErrRefused says that the call number is not new, so nothing departed. It happens when the same call reached Redis twice, or when
// Redis no longer knows the worker; the next call goes on by itself.
var ErrRefused = errors.New("queue: departure call refused")

// replyBytes bounds the payload of one reply.
const replyBytes = 1 << 20

// Depart asks for up to want jobs (0 to 100) of the given classes, all when empty, whose time has come. It is the worker's
// heartbeat as well. After an error nothing of the call may be started: what it took goes back with the next call.
func (o *Outlet) Depart(ctx context.Context, want int, classes []string) (Departures, error) {
	o.call++
	args := make([]any, 0, 5+len(classes))
	args = append(args, o.worker, o.call, o.seen, min(want, batchMost), replyBytes)
	for _, class := range classes {
		args = append(args, class)
	}
	r, err := o.c.run(ctx, o.c.scripts.depart, o.shard, "depart", args...)
	if err != nil {
		return Departures{}, err
	}
	if r.text(0) == "refused" {
		if r.int(1) == 0 { // unknown here, as after a loss of data: begin again under a number that is accepted
			o.call, o.seen = 0, 0
		}
		return Departures{}, ErrRefused
	}
	o.seen = o.call
	return o.read(r), nil
}

// departureFields is how many values depart.lua returns per departure.
const departureFields = 7

func (o *Outlet) read(r reply) Departures {
	settings := map[string]*Settings{}
	for _, v := range r.list(5) {
		if s, ok := v.([]any); ok {
			settings[reply(s).text(0)] = &Settings{
				Timeout: time.Duration(reply(s).int(2)) * time.Microsecond,
				HTTP:    reply(s).text(3),
			}
		}
	}
	buckets, values := reply(r.list(6)), reply(r.list(7))
	d := Departures{
		Now:      time.UnixMicro(r.int(1)),
		Wait:     time.Duration(r.int(2)) * time.Microsecond,
		Returned: int(r.int(3)),
		Visits:   int(r.int(4)),
		Jobs:     make([]Departure, 0, len(values)/departureFields),
	}
	for ; len(values) >= departureFields; values = values[departureFields:] {
		class, key, _ := strings.Cut(buckets.text(int(values.int(3))-1), "/")
		id, typ, payload := readRun(values.text(4))
		d.Jobs = append(d.Jobs, Departure{
			Ref: values.text(0), Stamp: values.text(1), Worker: o.worker, Due: time.UnixMicro(values.int(2)),
			Class: class, Key: key, ID: id, Type: typ, Payload: []byte(payload),
			Backs: int(values.int(5)), Number: values.int(6), Settings: settings[class],
		})
	}
	return d
}

// Outcome is what became of a departure.
type Outcome string

// The outcomes of this version.
const (
	Done Outcome = "done" // the handler returned without error
	Dead Outcome = "dead" // it failed; the job is kept with its error
	Back Outcome = "back" // it did not start: the job returns to the head of its bucket
)

// Verdict settles one departure.
type Verdict struct {
	Ref, Stamp string
	Outcome    Outcome
	// Error is what a dead job is kept with, at most 4 KiB of it.
	Error string
	// Stale says of a Back that the departure had been out for too long to start.
	Stale bool
}

// SettleMost is the most verdicts of one [Outlet.Settle].
const SettleMost = 64

// Settle says what became of up to [SettleMost] departures of this outlet's worker. It tells for each whether it was taken:
// a departure that is not out any more is refused. It is safe to repeat.
func (o *Outlet) Settle(ctx context.Context, verdicts []Verdict) ([]bool, error) {
	if len(verdicts) == 0 {
		return nil, nil
	}
	args := make([]any, 0, 1+5*len(verdicts))
	args = append(args, o.worker)
	for _, v := range verdicts {
		stale := ""
		if v.Stale {
			stale = "1"
		}
		args = append(args, v.Ref, v.Stamp, string(v.Outcome), cut(v.Error, 4<<10), stale)
	}
	r, err := o.c.run(ctx, o.c.scripts.settle, o.shard, "settle", args...)
	if err != nil {
		return nil, err
	}
	taken := make([]bool, len(verdicts))
	for i := range taken {
		taken[i] = r.int(i) == 1
	}
	return taken, nil
}

// Leave ends the worker's life in this shard: what it still has out returns to its buckets, in order. It tells how many.
func (o *Outlet) Leave(ctx context.Context) (returned int, err error) {
	for {
		r, err := o.c.run(ctx, o.c.scripts.leave, o.shard, "leave", o.worker)
		if err != nil {
			return returned, err
		}
		returned += int(r.int(0))
		if r.int(1) == 0 {
			return returned, nil
		}
	}
}

// cut shortens a text to n bytes of valid UTF-8.
func cut(s string, n int) string {
	if len(s) > n {
		s = s[:n]
	}
	return strings.ToValidUTF8(s, "\ufffd")
}

// Wake says that a bucket of a class became the earliest due of its shard.
type Wake struct {
	Shard int
	Class string
	Due   time.Time
}

// Wakes passes on, until ctx ends, the hints that admissions give to sleeping workers. A hint may be lost, so it only saves
// waiting. It reconnects by itself.
func (c *Client) Wakes(ctx context.Context, wake func(Wake)) error {
	channels := make([]string, len(c.tags))
	shards := map[string]int{}
	for i, tag := range c.tags {
		channels[i] = tag + ":wake"
		shards[channels[i]] = i
	}
	sub := c.rdb.Subscribe(ctx, channels...)
	defer sub.Close() //nolint:errcheck // nothing to lose: it only listens
	messages := sub.Channel(redis.WithChannelSize(1024))
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("listen for wakes: %w", ctx.Err())
		case m, ok := <-messages:
			if !ok {
				return fmt.Errorf("listen for wakes: %w", redis.ErrClosed)
			}
			at, class, _ := strings.Cut(m.Payload, " ")
			wake(Wake{Shard: shards[m.Channel], Class: class, Due: time.UnixMicro(parseInt(at))})
		}
	}
}
