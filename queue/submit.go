package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Submit puts one job into its bucket, or says why not. Calls made at the same time share round trips.
//
// The errors are a [*FullError] when there is no room now, and errors that wrap [ErrInvalid], [ErrTooLarge],
// [ErrUnknownClass], [ErrConflict], [ErrDraining], [ErrUnfit] (Redis cannot confirm the ack that is asked for),
// [ErrUnavailable] (nothing was sent or done) or [ErrUnknown] (sent, and no reply: repeat
// with the id in the returned receipt, which is set whenever the job was valid). It returns when ctx ends.
func (c *Client) Submit(ctx context.Context, job Job) (Receipt, error) {
	if c.metrics == nil {
		return c.submit(ctx, job)
	}
	began := time.Now()
	receipt, err := c.submit(ctx, job)
	c.metrics.observe(c.entrance, job.Class, began, receipt.Status, err)
	return receipt, err
}

func (c *Client) submit(ctx context.Context, job Job) (Receipt, error) {
	s := new(submission)
	if err := c.prepare(s, &job); err != nil {
		return Receipt{ID: job.ID}, err
	}
	receipt, err := c.door(s).submit(ctx, s)
	if need, ok := errors.AsType[*ackError](err); ok { // by the class, which this client did not know
		c.acks.learn(job.Class, need.ack)
		s.ack = need.ack
		receipt, err = c.door(s).submit(ctx, s)
	}
	receipt.ID, receipt.Ref = job.ID, s.ref
	return receipt, err
}

// Result is the answer to one job of [Client.SubmitMany].
type Result struct {
	Receipt Receipt
	Err     error
}

// SubmitMany puts many jobs into their buckets with one round trip per shard, and answers each as [Client.Submit] would,
// in the order given. Jobs of one bucket keep that order. It is not atomic: some may be admitted and others not.
func (c *Client) SubmitMany(ctx context.Context, jobs []Job) []Result {
	began := time.Now()
	results := make([]Result, len(jobs))
	defer func() { c.metrics.observeMany(c.entrance, jobs, began, results) }()
	all, own := make([]submission, len(jobs)), slices.Clone(jobs)
	groups := map[flightKind][]*submission{}
	for i := range all {
		s := &all[i]
		if err := c.prepare(s, &own[i]); err != nil {
			results[i] = Result{Receipt{ID: own[i].ID}, err}
			continue
		}
		kind := flightKind{s.shard(c), s.ack}
		groups[kind] = append(groups[kind], s)
	}
	for len(groups) > 0 {
		groups = c.admitGroups(ctx, groups)
	}
	for i := range all {
		if s := &all[i]; s.job != nil {
			s.receipt.ID, s.receipt.Ref = s.job.ID, s.ref
			results[i] = Result{s.receipt, s.err}
		}
	}
	return results
}

// flightKind is what submissions that travel together have in common.
type flightKind struct {
	shard int
	ack   Ack
}

// admitGroups sends all groups at once, and returns those whose class asks for another ack than they were sent with.
func (c *Client) admitGroups(ctx context.Context, groups map[flightKind][]*submission) map[flightKind][]*submission {
	var wg sync.WaitGroup
	for kind, subs := range groups {
		wg.Go(func() { c.admit(ctx, kind, subs) })
	}
	wg.Wait()
	again := map[flightKind][]*submission{}
	for kind, subs := range groups {
		for _, s := range subs {
			if need, ok := errors.AsType[*ackError](s.err); ok {
				c.acks.learn(s.job.Class, need.ack)
				s.ack = need.ack
				kind := flightKind{kind.shard, s.ack}
				again[kind] = append(again[kind], s)
			}
		}
	}
	return again
}

// SubmitWait submits a job and, while there is no room, waits as long as it is told and submits it again: the same job, so
// that nothing is admitted twice. It returns when the job is admitted, when ctx ends (the last refusal and the
// context's error, both wrapped) or when waiting would not help.
func (c *Client) SubmitWait(ctx context.Context, job Job) (Receipt, error) {
	var patience patience
	for {
		receipt, err := c.Submit(ctx, job)
		job.ID = receipt.ID
		full, ok := errors.AsType[*FullError](err)
		if !ok {
			return receipt, err
		}
		wait := time.NewTimer(patience.wait(full))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return receipt, fmt.Errorf("%w; gave up waiting for room: %w", full, context.Cause(ctx))
		}
	}
}

// patience decides how long a refused producer waits: as long as it is told, a little more so that the departure that
// makes room has happened, and ever longer while the bucket stands still, because then nobody drains it.
type patience struct {
	room  time.Time // when the last refusal expected a place to open
	extra time.Duration
}

const (
	lateness  = 25 * time.Millisecond // how long a departure stays good (G)
	leastWait = 100 * time.Millisecond
	mostExtra = 5 * time.Second
)

func (p *patience) wait(full *FullError) time.Duration {
	if full.Paused || (!p.room.IsZero() && !full.room.After(p.room)) {
		p.extra = min(max(2*p.extra, leastWait), mostExtra)
	} else {
		p.extra = 0
	}
	p.room = full.room
	return max(full.RetryAfter+lateness, min(full.interval, leastWait), p.extra)
}

// prepare checks a job and computes what names it. A submission without a job failed here.
func (c *Client) prepare(s *submission, job *Job) error {
	if err := job.prepare(); err != nil {
		return err
	}
	if c.check != nil {
		if err := c.check(job.Type, job.Payload); err != nil {
			return fmt.Errorf("%w: %w", ErrInvalid, err)
		}
	}
	ref := refOf(shardOf(job.bucket(), len(c.tags)), job)
	ack := job.Ack
	if ack == "" {
		ack = c.acks.known(job.Class)
	}
	*s = submission{job: job, ref: ref, digest: job.digest(), others: -1, ack: ack}
	return nil
}

func (s *submission) shard(c *Client) int { return shardOf(s.job.bucket(), len(c.tags)) }

// admit sends submissions of one shard, in order, and sets each one's receipt or error. Those of classes with a bound over
// all keys come back once for the number of jobs that wait in the other shards.
func (c *Client) admit(ctx context.Context, kind flightKind, subs []*submission) {
	full := c.store.nearlyFull(ctx, kind.shard)
	for _, s := range subs {
		s.storeFull = full
	}
	c.send(ctx, kind, subs)
	var again []*submission
	for _, s := range subs {
		if errors.Is(s.err, errCount) {
			again = append(again, s)
		}
	}
	if again == nil {
		return
	}
	counts := map[string]int64{}
	for _, s := range again {
		if _, ok := counts[s.job.Class]; !ok {
			counts[s.job.Class], s.err = c.countElsewhere(ctx, kind.shard, s.job.Class)
			if errors.Is(s.err, ErrUnavailable) {
				setErr(again, s.err)
				return
			}
		}
		s.others = counts[s.job.Class]
	}
	c.send(ctx, kind, again)
}

func setErr(subs []*submission, err error) {
	for _, s := range subs {
		s.receipt, s.err = Receipt{}, err
	}
}

// send makes one round trip of as many script calls as the submissions need.
func (c *Client) send(ctx context.Context, kind flightKind, subs []*submission) {
	shard := kind.shard
	if kind.ack != "" && kind.ack != AckMemory {
		c.sendAcked(ctx, kind, subs)
		return
	}
	if len(subs) == batchLength(subs) {
		v, err := c.scripts.admit.Run(ctx, c.rdb, []string{c.tags[shard]}, admitArgs(subs)...).Slice()
		answer(subs, v, err)
		return
	}
	pipe := c.rdb.Pipeline()
	var batches [][]*submission
	var calls []*redis.Cmd
	call := c.scripts.admit.Eval // the first sends the script: else it might fail where a later one finds it, and come after that
	for len(subs) > 0 {
		n := batchLength(subs)
		batches = append(batches, subs[:n])
		calls = append(calls, call(ctx, pipe, []string{c.tags[shard]}, admitArgs(subs[:n])...))
		subs, call = subs[n:], c.scripts.admit.EvalSha
	}
	_, _ = pipe.Exec(ctx) // each call carries its own error
	for i, call := range calls {
		v, err := call.Slice()
		if noScript(err) { // a pipeline does not fall back by itself
			v, err = c.scripts.admit.Run(ctx, c.rdb, []string{c.tags[shard]}, admitArgs(batches[i])...).Slice()
		}
		answer(batches[i], v, err)
	}
}

// answerFields is how many values admit.lua takes and returns per job.
const answerFields = 6

func admitArgs(subs []*submission) []any {
	args := make([]any, 0, answerFields*len(subs))
	for _, s := range subs {
		j := s.job
		bucket := j.bucket()
		args = append(args, s.ref, bucket, s.run(), s.digest+j.ID+"\n"+bucket, len(j.Payload), s.options())
	}
	return args
}

// run is what a departure hands over: id, type and, where there is one, a tab and the trace, and payload, a line each. None
// of the first has a line break or a tab.
func (s *submission) run() []byte {
	j := s.job
	run := make([]byte, 0, len(j.ID)+len(j.Type)+len(j.Trace)+len(j.Payload)+3)
	run = append(append(run, j.ID...), '\n')
	run = append(run, j.Type...)
	if j.Trace != "" {
		run = append(append(run, '\t'), j.Trace...)
	}
	return append(append(run, '\n'), j.Payload...)
}

// readRun is the inverse of run.
func readRun(run string) (id, typ, trace, payload string) {
	id, rest, _ := strings.Cut(run, "\n")
	typ, payload, _ = strings.Cut(rest, "\n")
	typ, trace, _ = strings.Cut(typ, "\t")
	return id, typ, trace, payload
}

// options are empty for most jobs.
func (s *submission) options() string {
	j := s.job
	if j.MaxWait == 0 && j.NotBefore.IsZero() && s.others < 0 && s.ack == "" && !s.storeFull {
		return ""
	}
	flags := ""
	if s.ack != "" {
		flags += " a"
	}
	if s.storeFull {
		flags += " f"
	}
	var notBefore int64
	if !j.NotBefore.IsZero() {
		notBefore = j.NotBefore.UnixMicro()
	}
	return fmt.Sprintf("%d %d %d%s", j.MaxWait.Microseconds(), notBefore, s.others, flags)
}

// answer turns a script's reply into receipts and errors.
func answer(subs []*submission, v []any, err error) {
	for i, s := range subs {
		switch {
		case err != nil:
			s.receipt, s.err = Receipt{}, redisError("submit "+s.job.bucket(), err)
			if errors.Is(s.err, ErrUnknown) {
				s.err = unknownOutcome(s.job, err)
			}
		case answerFields*(i+1) > len(v):
			s.err = unknownOutcome(s.job, errors.New("redis answered fewer jobs than were sent"))
		default:
			s.receipt, s.err = s.read(v[answerFields*i : answerFields*(i+1)])
		}
	}
}

func unknownOutcome(j *Job, err error) error {
	return fmt.Errorf("%w: bucket %s: the job may or may not be in it; submit it again with id %q: %w",
		ErrUnknown, clip(j.bucket()), j.ID, err)
}

// errCount: the class bounds its jobs over all keys, and the script needs the number elsewhere.
var errCount = errors.New("queue: others not counted")

// What admit.lua answers.
const (
	saysAdmitted = iota + 1
	saysDuplicate
	saysFull
	saysClassFull
	saysWouldExpire
	saysTooLarge
	saysConflict
	saysUnknownClass
	saysCount
	saysSick
	saysDraining
	saysStoreFull
	saysAck
)

func (s *submission) read(r reply) (Receipt, error) {
	j := s.job
	switch verdict := r.int(0); verdict {
	case saysAdmitted:
		return s.receiptOf(Admitted, r), nil
	case saysDuplicate:
		return s.receiptOf(Duplicate, r), nil
	case saysDraining:
		return Receipt{}, drainingError(j.bucket())
	case saysStoreFull:
		return Receipt{}, fmt.Errorf("%w: submit %s: %w: %s", ErrUnavailable, clip(j.bucket()), errStoreFull,
			"what is above the share for jobs is kept free so that it drains; come back later, or give it more memory")
	case saysAck:
		return Receipt{}, &ackError{ackOf(r.int(1))}
	case saysFull:
		return Receipt{}, j.full(ReasonFull, r)
	case saysClassFull:
		return Receipt{}, j.full(ReasonClassFull, r)
	case saysWouldExpire:
		return Receipt{}, j.full(ReasonWouldExpire, r)
	case saysUnknownClass:
		return Receipt{}, fmt.Errorf("%w: %q; create it with a class file, or see which there are", ErrUnknownClass, j.Class)
	case saysConflict:
		return Receipt{}, fmt.Errorf("%w: id %q in bucket %s belongs to a job of another type or payload",
			ErrConflict, j.ID, clip(j.bucket()))
	case saysTooLarge:
		return Receipt{}, fmt.Errorf("%w: payload of %d bytes is above class %s's max_payload of %d",
			ErrTooLarge, len(j.Payload), j.Class, r.int(1))
	case saysCount:
		return Receipt{}, errCount
	case saysSick:
		return Receipt{}, &SickError{j.Class, j.Key}
	default:
		return Receipt{}, unknownOutcome(j, fmt.Errorf("redis answered %d", verdict))
	}
}

func (s *submission) receiptOf(status Status, r reply) Receipt {
	position, dropped := r.int(1), ""
	if text, ok := r[1].(string); ok { // another one was dropped for it
		first, rest, _ := strings.Cut(text, " ")
		position, dropped = parseInt(first), rest
	}
	ack := s.ack
	if ack == "" {
		ack = AckMemory
	}
	wait, at := time.Duration(r.int(4))*time.Microsecond, time.UnixMicro(r.int(5)).UTC()
	return Receipt{
		Status: status, Position: int(position), Dropped: dropped, Ack: ack, Level: int(r.int(2)), Capacity: int(r.int(3)),
		EstimatedStart: at.Add(wait), Wait: wait,
	}
}

func (j *Job) full(reason Reason, r reply) *FullError {
	return &FullError{
		Reason: reason, Class: j.Class, Key: j.Key,
		RetryAfter: max(0, time.Duration(r.int(1))*time.Microsecond), Paused: r.int(1) < 0,
		Level: int(r.int(2)), Capacity: int(r.int(3)),
		interval: time.Duration(r.int(4)) * time.Microsecond, room: time.UnixMicro(r.int(5)),
	}
}

// countElsewhere is how many jobs of a class wait in all shards but one.
func (c *Client) countElsewhere(ctx context.Context, shard int, class string) (int64, error) {
	var n int64
	books, err := c.books(ctx, class)
	if err != nil {
		return 0, fmt.Errorf("%w: count the jobs of class %s", err, class)
	}
	for i, b := range books {
		if i != shard {
			n += b.Waiting()
		}
	}
	return n, nil
}
