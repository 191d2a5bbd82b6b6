package scheduler

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/spout-queue/spout/queue"
)

// holds tells all shards of holds of whole classes that called services asked for. The shard of the attempt that heard of
// it knows already.
type holds struct {
	classes queue.Classes
	log     *slog.Logger

	mu      sync.Mutex
	until   map[string]time.Time // by class: what was last told
	telling sync.WaitGroup
}

func newHolds(classes queue.Classes, log *slog.Logger) *holds {
	return &holds{classes: classes, log: log, until: map[string]time.Time{}}
}

// holdSlack is by how much a hold has to be longer to be told of again: many attempts hear of one refusal.
const holdSlack = 50 * time.Millisecond

// class closes a class until a time of the server's.
func (h *holds) class(name string, until time.Time, reason string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if until.Before(h.until[name].Add(holdSlack)) {
		return
	}
	h.until[name] = until
	h.telling.Go(func() { h.tell(name, until, reason) })
}

// tell repeats it until the hold would be over, some seconds at most: where it is not heard, the service says it again.
func (h *holds) tell(name string, until time.Time, reason string) {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	var fault backoff
	for {
		err := h.classes.HoldMore(ctx, name, until, reason)
		if err == nil || queue.ReasonOf(err) == queue.ReasonUnknownClass {
			return
		}
		timer := time.NewTimer(fault.next())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			h.log.LogAttrs(ctx, slog.LevelWarn, "class is not held in all shards", slog.String("class", name), slog.Any("error", err))
			return
		}
	}
}

// wait until all have been told.
func (h *holds) wait() { h.telling.Wait() }
