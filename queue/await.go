package queue

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// Ending is how a job ended.
type Ending struct {
	// State is Completed, Kept (it is dead, and can be sent round again), Expired, Cancelled or Dropped.
	State State
	At    time.Time
	// Result is what the handler of a done job wrote, at most [ResultMost] bytes of it.
	Result []byte
	// Error of a dead or cancelled job.
	Error string
}

// Await waits until a job has ended, without polling. For a job that had ended before, it tells what the class's retention
// keeps; the error wraps [ErrNotFound] when nothing is kept, or there never was such a job. It returns when ctx ends.
// All waits of a client share one connection.
func (c *Client) Await(ctx context.Context, ref string) (Ending, error) {
	shard, err := shardOfRef(ref, len(c.tags))
	if err != nil {
		return Ending{}, err
	}
	w := c.hall.enter(c.tags[shard] + ":end:" + ref) //nolint:contextcheck // the subscription is everybody's
	defer c.hall.leave(w)                            //nolint:contextcheck // the same
	for {
		select {
		case ending := <-w.ended:
			return ending, nil
		case <-w.listening: // now, and whenever the connection was made anew: something may have been missed
			ending, over, err := c.lookEnded(ctx, shard, ref)
			if err != nil || over {
				return ending, err
			}
		case <-ctx.Done():
			return Ending{}, fmt.Errorf("wait for the end of job %s: %w", ref, context.Cause(ctx))
		}
	}
}

// lookEnded asks whether a job has ended, and to be told when it has not.
func (c *Client) lookEnded(ctx context.Context, shard int, ref string) (Ending, bool, error) {
	r, err := c.run(ctx, c.scripts.job, shard, "wait for the end of job "+ref, "await", ref)
	if err != nil {
		return Ending{}, false, err
	}
	switch r.text(0) {
	case "wait":
		return Ending{}, false, nil
	case "gone":
		return Ending{}, true, fmt.Errorf("%w: job %s has ended and nothing is kept of it, or it never was; "+
			"a class with a retention keeps it", ErrNotFound, ref)
	default:
		return readEnding(r.text(0), r.int(1), r.text(2)), true, nil
	}
}

func readEnding(state string, ended int64, text string) Ending {
	e := Ending{State: State(state), At: time.UnixMicro(ended).UTC()}
	switch {
	case e.State != Completed:
		e.Error = text
	case text != "":
		e.Result = []byte(text)
	}
	return e
}

// hall is where those wait who want to hear of ends. Its one subscription lives while there are any.
type hall struct {
	c *Client

	mu      sync.Mutex
	waiters map[string][]*waiter // by channel
	sub     *redis.PubSub
}

type waiter struct {
	channel   string
	ended     chan Ending
	listening chan struct{}
}

func newHall(c *Client) *hall { return &hall{c: c, waiters: map[string][]*waiter{}} }

func (h *hall) enter(channel string) *waiter {
	h.mu.Lock()
	defer h.mu.Unlock()
	w := &waiter{channel: channel, ended: make(chan Ending, 1), listening: make(chan struct{}, 1)}
	first := len(h.waiters[channel]) == 0
	h.waiters[channel] = append(h.waiters[channel], w)
	ctx := context.Background() // the subscription is everybody's
	switch {
	case h.sub == nil:
		h.sub = h.c.rdb.Subscribe(ctx, channel)
		go h.listen(h.sub)
	case first:
		if h.sub.Subscribe(ctx, channel) != nil { // it is made anew by itself, and then tells
			break
		}
	default: // the channel is listened to already
		w.listening <- struct{}{}
	}
	return w
}

func (h *hall) leave(w *waiter) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.waiters[w.channel]
	for i := range all {
		if all[i] == w {
			all = append(all[:i:i], all[i+1:]...)
			break
		}
	}
	if h.waiters[w.channel] = all; len(all) > 0 {
		return
	}
	delete(h.waiters, w.channel)
	if len(h.waiters) == 0 {
		_ = h.sub.Close() // nobody is left to hear an error
		h.sub = nil
		return
	}
	_ = h.sub.Unsubscribe(context.Background(), w.channel) // what still comes is dropped
}

// listen passes on what comes until the subscription is closed.
func (h *hall) listen(sub *redis.PubSub) {
	for m := range sub.ChannelWithSubscriptions() {
		switch m := m.(type) {
		case *redis.Subscription:
			if m.Kind == "subscribe" {
				h.each(m.Channel, func(w *waiter) {
					select {
					case w.listening <- struct{}{}:
					default:
					}
				})
			}
		case *redis.Message:
			head, text, _ := strings.Cut(m.Payload, "\n")
			state, at, _ := strings.Cut(head, " ")
			ending := readEnding(state, parseInt(at), text)
			h.each(m.Channel, func(w *waiter) {
				select {
				case w.ended <- ending:
				default:
				}
			})
		}
	}
}

func (h *hall) each(channel string, do func(*waiter)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, w := range h.waiters[channel] {
		do(w)
	}
}

// Cancel ends a job. One that waits is gone at once, without a departure: Cancelled. Of one that is out the context ends,
// which its handler should heed: Out; when it returns an error, or does not return, the job is cancelled, and when it
// succeeds, done. The error wraps [ErrNotFound] for a job that has ended, and [ErrConflict] for a dead one, which there is
// nothing to cancel of.
func (c *Client) Cancel(ctx context.Context, ref string) (State, error) {
	shard, err := shardOfRef(ref, len(c.tags))
	if err != nil {
		return "", err
	}
	r, err := c.run(ctx, c.scripts.job, shard, "cancel job "+ref, "cancel", ref)
	if err != nil {
		return "", err
	}
	switch state := State(r.text(0)); state {
	case "not_found":
		return "", fmt.Errorf("%w: job %s: it has ended, or never was", ErrNotFound, ref)
	case Kept:
		return Kept, fmt.Errorf("%w: job %s is dead: there is nothing to cancel; purge it, or retry it", ErrConflict, ref)
	default:
		return state, nil
	}
}
