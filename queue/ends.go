package queue

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// WaitingEnd is a job that ended while it waited: no handler has seen it.
type WaitingEnd struct {
	Class, Key, ID, Ref string
	// State is Expired, Cancelled, Dropped, or purged.
	State State
}

// endClaim is how long it is remembered that an end has been passed on.
const endClaim = 10 * time.Second

// WaitingEnds passes on, until ctx ends, the jobs that end while they wait, however that comes: each to one of those that
// listen. An end may be lost. It reconnects by itself. The ends of jobs that workers have are known to those workers.
func (c *Client) WaitingEnds(ctx context.Context, tell func(WaitingEnd)) error {
	channels := make([]string, len(c.tags))
	tags := map[string]string{}
	for i, tag := range c.tags {
		channels[i] = tag + ":ends"
		tags[channels[i]] = tag
	}
	sub := c.rdb.Subscribe(ctx, channels...)
	defer sub.Close() //nolint:errcheck // nothing to lose: it only listens
	messages := sub.Channel(redis.WithChannelSize(8192))
	for {
		select {
		case <-ctx.Done():
			return fmt.Errorf("listen for ends: %w", ctx.Err())
		case m, ok := <-messages:
			if !ok {
				return fmt.Errorf("listen for ends: %w", redis.ErrClosed)
			}
			e := readWaitingEnd(m.Payload)
			mine, err := c.rdb.SetNX(ctx, tags[m.Channel]+":told:"+e.Ref+":"+string(e.State), "", endClaim).Result()
			if mine && err == nil {
				tell(e)
			}
		}
	}
}

// readWaitingEnd reads what end_waiting in seldom.lua says.
func readWaitingEnd(text string) WaitingEnd {
	head, rest, _ := strings.Cut(text, "\n")
	state, ref, _ := strings.Cut(head, " ")
	id, bucket, _ := strings.Cut(rest, "\n")
	class, key, _ := strings.Cut(bucket, "/")
	return WaitingEnd{Class: class, Key: key, ID: id, Ref: ref, State: State(state)}
}
