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
	epoch  int64 // of the last reply: when the shard's data was found to be older than what happened
	known  bool  // epoch has been read
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
	// Trace is what the job was submitted with.
	Trace string
	// Number is the job's place in the order of its bucket: lower leaves first.
	Number int64
	// Attempt is 1 for the first attempt. Departures that were given back do not count.
	Attempt int
	// Backs is how often a departure of this job was given back because it had become stale.
	Backs int
	// Held is how long holds and backoffs kept its bucket from letting go while the job waited, all its attempts together.
	Held time.Duration
	// Suspect: the job's next crash is its last, so it must not run beside another suspect.
	Suspect bool
	// Settings of the class at this departure.
	Settings *Settings
}

// Settings of a class that an attempt needs.
type Settings struct {
	Timeout time.Duration
	// HTTP is the class's http settings as JSON, empty for the defaults.
	HTTP string
	// Retained: what a done job wrote, and when, is kept.
	Retained bool
	// Strict: see [PaceStrict].
	Strict bool
}

// Ask is what a worker wants of one call of [Outlet.Depart].
type Ask struct {
	// Want is the most jobs to take, 0 to 100.
	Want int
	// Classes to take from; empty means all.
	Classes []string
	// Suspect: one of the jobs may be a suspect, see [Departure.Suspect]. A worker has at most one of them at a time, over all
	// its shards.
	Suspect bool
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
	// Cancelled are the refs of this worker's jobs whose attempts should end. They come again until a later call.
	Cancelled []string
	// Suspects counts jobs that stayed in line because they are suspects and none was asked for.
	Suspects int
	// Rollback is set once when the shard's data turns out to be older than what happened.
	Rollback *Rollback
}

// Rollback says that a shard lost its latest changes: Redis was restarted or failed over. What was done after Known may be
// gone, jobs admitted since may be lost and jobs settled since may run again. No bucket lets go before one interval after Since.
type Rollback struct {
	Since, Known time.Time
}

// ErrRefused says that the call number is not new, so nothing departed. It happens when the same call reached Redis twice, or when
// Redis no longer knows the worker, for it was taken for dead; the next call goes on by itself.
var ErrRefused = errors.New("queue: departure call refused")

// replyBytes bounds the payload of one reply.
const replyBytes = 1 << 20

// Depart asks for jobs whose time has come. It is the worker's heartbeat as well. After an error nothing of the call may be
// started: what it took goes back with the next call.
func (o *Outlet) Depart(ctx context.Context, ask Ask) (Departures, error) {
	o.call++
	suspects := 0
	if ask.Suspect {
		suspects = 1
	}
	args := make([]any, 0, 6+len(ask.Classes))
	args = append(args, o.worker, o.call, o.seen, min(ask.Want, batchMost), replyBytes, suspects)
	for _, class := range ask.Classes {
		args = append(args, class)
	}
	r, err := o.c.run(ctx, o.c.scripts.depart, o.shard, "depart", args...)
	if err != nil {
		return Departures{}, err
	}
	if r.text(0) == "refused" {
		if r.int(1) == 0 { // unknown here, as after a loss of data: begin again
			o.seen = 0
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
				HTTP:    reply(s).text(3), Retained: reply(s).int(4) > 0, Strict: reply(s).int(5) == 1,
			}
		}
	}
	buckets, values := reply(r.list(6)), reply(r.list(7))
	d := Departures{
		Now:      time.UnixMicro(r.int(1)),
		Wait:     time.Duration(r.int(2)) * time.Microsecond,
		Returned: int(r.int(3)),
		Visits:   int(r.int(4)),
		Suspects: int(r.int(11)),
		Jobs:     make([]Departure, 0, len(values)/departureFields),
	}
	for ; len(values) >= departureFields; values = values[departureFields:] {
		class, key, _ := strings.Cut(buckets.text(int(values.int(3))-1), "/")
		id, typ, trace, payload := readRun(values.text(4))
		past := readPast(values.text(5))
		d.Jobs = append(d.Jobs, Departure{
			Ref: values.text(0), Stamp: values.text(1), Worker: o.worker, Due: time.UnixMicro(values.int(2)),
			Class: class, Key: key, ID: id, Type: typ, Trace: trace, Payload: []byte(payload), Number: values.int(6),
			Attempt: past.attempts + 1, Backs: past.backs, Suspect: past.suspect, Held: past.held, Settings: settings[class],
		})
	}
	for i := range r.list(10) {
		d.Cancelled = append(d.Cancelled, reply(r.list(10)).text(i))
	}
	if epoch := r.int(8); epoch != o.epoch {
		if o.known || epoch == r.int(1) {
			d.Rollback = &Rollback{Since: time.UnixMicro(epoch), Known: time.UnixMicro(r.int(9))}
		}
		o.epoch = epoch
	}
	o.known = true
	return d
}

// past is what a job has been through.
type past struct {
	backs, attempts, fails, crashes int
	suspect                         bool
	held                            time.Duration
}

// readPast reads what the scripts keep, see prelude.lua. Most jobs have no past.
func readPast(text string) (p past) {
	if text != "" {
		suspect, held := 0, int64(0)
		_, _ = fmt.Sscan(text, &p.backs, &p.attempts, &p.fails, &p.crashes, &suspect, &held) // most have fewer
		p.suspect, p.held = suspect == 1, time.Duration(held)*time.Microsecond
	}
	return p
}

// Start asks for permission to start an attempt of a class with [PaceStrict], when everything else is ready. It may start
// after wait; false means that it may not within longest and has to be given back.
func (o *Outlet) Start(ctx context.Context, d *Departure, longest time.Duration) (wait time.Duration, ok bool, err error) {
	r, err := o.c.run(ctx, o.c.scripts.start, o.shard, "start", o.worker, d.Ref, d.Stamp, longest.Microseconds())
	if err != nil || r.int(0) < 0 {
		return 0, false, err
	}
	return time.Duration(r.int(0)) * time.Microsecond, true, nil
}

// Owned lists what Redis says that the worker has out: ref to stamp.
func (o *Outlet) Owned(ctx context.Context) (map[string]string, error) {
	out, err := o.c.rdb.HGetAll(ctx, o.c.key(o.shard, "out", o.worker)).Result()
	if err != nil {
		return nil, readError("read what worker "+o.worker+" has out", err)
	}
	for ref, entry := range out {
		out[ref], _, _ = strings.Cut(entry, " ")
	}
	return out, nil
}

// Leave ends the worker's life in this shard: what it still has out returns to its buckets, in order. It tells how many.
func (o *Outlet) Leave(ctx context.Context) (returned int, err error) {
	r, err := o.c.reclaim(ctx, o.shard, o.worker, "")
	return r.Returned, err
}

// Wake says that a bucket of a class became the earliest due of its shard.
type Wake struct {
	Shard int
	Class string
	Due   time.Time
}

// Wakes passes on, until ctx ends, the hints that admissions give to sleeping workers. A hint may be lost, so it only saves
// waiting. asked, which may be nil, gets what somebody asks all workers about their starts: those of a bucket, or, when it is
// empty, the flow of all; a question is to be answered once a second for [AskedFor], see [Client.Answer]. When it is
// [AskedEvents], what happens to jobs is to be told for that long, see [Client.Tell]. It reconnects by itself.
func (c *Client) Wakes(ctx context.Context, wake func(Wake), asked func(bucket string)) error {
	channels := make([]string, len(c.tags), len(c.tags)+1)
	shards := map[string]int{}
	for i, tag := range c.tags {
		channels[i] = tag + ":wake"
		shards[channels[i]] = i
	}
	questions := c.tags[0] + ":ask"
	if asked != nil {
		channels = append(channels, questions)
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
			if m.Channel == questions {
				asked(m.Payload)
				continue
			}
			at, class, _ := strings.Cut(m.Payload, " ")
			wake(Wake{Shard: shards[m.Channel], Class: class, Due: time.UnixMicro(parseInt(at))})
		}
	}
}
