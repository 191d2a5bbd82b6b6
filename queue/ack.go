package queue

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Ack is what a receipt vouches for: [AckMemory], [AckFsynced] or replicated(n), see [AckReplicated]. More of it costs
// more time per submission.
type Ack string

const (
	// AckMemory vouches that Redis has the job in its memory. What Redis then keeps of it is its own persistence's business.
	AckMemory Ack = "memory"
	// AckFsynced vouches that the job is on the disk of the Redis server, too. It needs Redis 7.2 with an append-only file, or any
	// Redis with appendfsync always.
	AckFsynced Ack = "fsynced"
)

// AckReplicated asks that n replicas (1 to 16) have the job, too.
func AckReplicated(n int) Ack { return Ack("replicated(" + strconv.Itoa(n) + ")") }

// ParseAck reads an ack as it is written in a class file. The error wraps [ErrInvalid].
func ParseAck(s string) (Ack, error) {
	a := Ack(s)
	if a == AckMemory || a == AckFsynced {
		return a, nil
	}
	if n := a.replicas(); n >= 1 && n <= 16 && a == AckReplicated(n) {
		return a, nil
	}
	return "", fmt.Errorf("%w: ack %q is none of memory, fsynced and replicated(n), n from 1 to 16", ErrInvalid, clip(s))
}

// replicas is the n of replicated(n), 0 for any other ack.
func (a Ack) replicas() int {
	inner, ok := strings.CutPrefix(strings.TrimSuffix(string(a), ")"), "replicated(")
	if !ok {
		return 0
	}
	n, _ := strconv.Atoi(inner) // no number is 0
	return n
}

// ackOf reads an ack from a script.
func ackOf(level int64) Ack {
	switch {
	case level < 0:
		return AckFsynced
	case level > 0:
		return AckReplicated(int(level))
	default:
		return AckMemory
	}
}

// ackError says that the class asks for an ack that the submission was not sent with.
type ackError struct{ ack Ack }

func (e *ackError) Error() string { return "queue: the class asks for ack " + string(e.ack) }

// ackBook remembers for a while what classes ask for, so that most submissions are sent once. Most classes ask for nothing,
// and then there is nothing in it to look for.
type ackBook struct {
	classes sync.Map // class -> learnt
}

type learnt struct {
	ack Ack
	at  time.Time
}

// ackMemory is how long a class is believed to ask for what it asked for: should it ask for less, receipts are slower for
// that long.
const ackMemory = time.Minute

// known is what a class asks for, empty when that is not known or nothing special.
func (b *ackBook) known(class string) Ack {
	v, ok := b.classes.Load(class)
	if !ok {
		return ""
	}
	l, _ := v.(learnt)
	if time.Since(l.at) > ackMemory {
		b.classes.CompareAndDelete(class, l)
		return ""
	}
	return l.ack
}

func (b *ackBook) learn(class string, ack Ack) { b.classes.Store(class, learnt{ack, time.Now()}) }

// door is where a submission is collected with others of its kind.
func (c *Client) door(s *submission) *door {
	kind := flightKind{s.shard(c), s.ack}
	if kind.ack == "" || kind.ack == AckMemory {
		return c.doors[kind.shard]
	}
	d, _ := c.acked.LoadOrStore(kind, newDoor(c, kind))
	return d.(*door) //nolint:forcetypeassert,errcheck // nothing else is stored
}

// ackTime is how long Redis may take to confirm.
const ackTime = 5 * time.Second

// sendAcked admits submissions and then waits, on the same connection, until Redis has confirmed what their receipts are to
// vouch for. What is not confirmed in time is an unknown.
func (c *Client) sendAcked(ctx context.Context, kind flightKind, subs []*submission) {
	node, err := c.node(ctx, kind.shard)
	wait := kind.ack.replicas() > 0
	if err == nil && kind.ack == AckFsynced {
		wait, err = c.store.needsWaitAOF(ctx, kind.shard)
	}
	if err != nil {
		setErr(subs, err)
		return
	}
	conn := node.Conn()
	defer conn.Close() //nolint:errcheck // it goes back to the pool
	for rest := subs; len(rest) > 0; {
		n := batchLength(rest)
		v, err := c.scripts.admit.Run(ctx, conn, []string{c.tags[kind.shard]}, admitArgs(rest[:n])...).Slice()
		answer(rest[:n], v, err)
		rest = rest[n:]
	}
	if !wait {
		return
	}
	if err := confirm(ctx, conn, kind.ack); err != nil { // of all that this connection wrote
		unconfirmed(subs, kind.ack, err)
	}
}

// confirm waits until all that this connection wrote is where the ack says.
func confirm(ctx context.Context, conn *redis.Conn, ack Ack) error {
	patience := ackTime
	if deadline, ok := ctx.Deadline(); ok {
		patience = min(patience, max(time.Until(deadline)-10*time.Millisecond, time.Millisecond))
	}
	if n := ack.replicas(); n > 0 {
		reached, err := conn.Wait(ctx, n, patience).Result()
		if err == nil && reached < int64(n) {
			err = fmt.Errorf("%d of %d replicas have it after %v", reached, n, patience)
		}
		return err
	}
	synced, err := conn.WaitAOF(ctx, 1, 0, patience).Result()
	if err == nil && (len(synced) == 0 || synced[0] < 1) {
		err = fmt.Errorf("it is not on redis's disk after %v", patience)
	}
	return err
}

func unconfirmed(subs []*submission, ack Ack, err error) {
	for _, s := range subs {
		if s.err == nil {
			s.receipt, s.err = Receipt{}, fmt.Errorf("%w: bucket %s: the job is in redis's memory, but %s was not confirmed; "+
				"submit it again with id %q: %w", ErrUnknown, clip(s.job.bucket()), ack, s.job.ID, err)
		}
	}
}
