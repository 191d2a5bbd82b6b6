package api

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

const (
	listenersMost = 1000
	// heardMost is how many events wait for one listener: what comes then is dropped, and counted.
	heardMost = 1024
	// entryTime is how long somebody who begins to listen waits for Redis.
	entryTime = 2 * time.Second
)

// hub passes on what happens to those who listen. While nobody does, it costs nothing.
type hub struct {
	client *queue.Client
	log    *slog.Logger

	mu        sync.Mutex
	listeners map[*listener]bool
	stop      context.CancelFunc // ends the listening to Redis
	listening chan struct{}      // closed once that has begun
}

// filter is what somebody wants to hear of.
type filter struct {
	sees func(class string) bool
	key  string
	what []string
}

func (f *filter) wants(e *wire.Event) bool {
	return f.sees(e.Class) && (f.key == "" || e.Key == f.key) && (len(f.what) == 0 || slices.Contains(f.what, e.What))
}

// listener hears of what its filter lets through.
type listener struct {
	filter
	heard chan wire.Event

	dropped int  // guarded by the hub
	gap     bool // nobody knows how many more; guarded by the hub
}

func newHub(client *queue.Client, log *slog.Logger) *hub {
	return &hub{client: client, log: log, listeners: map[*listener]bool{}}
}

// enter is false when there are too many. What happens once it has returned is heard; where Redis is away, that something is missed.
func (h *hub) enter(ctx context.Context, f filter) (*listener, bool) {
	l, listening := h.admit(f) //nolint:contextcheck // what it starts is for all who listen
	if l == nil {
		return nil, false
	}
	ctx, cancel := context.WithTimeout(ctx, entryTime)
	defer cancel()
	select {
	case <-listening:
	case <-ctx.Done():
		h.mu.Lock()
		l.gap = true
		h.mu.Unlock()
	}
	return l, true
}

func (h *hub) admit(f filter) (*listener, <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.listeners) >= listenersMost {
		return nil, nil
	}
	l := &listener{filter: f, heard: make(chan wire.Event, heardMost)}
	h.listeners[l] = true
	if h.stop == nil {
		ctx, stop := context.WithCancel(context.Background()) // it is for all who listen
		h.stop, h.listening = stop, make(chan struct{})
		go h.overhear(ctx, sync.OnceFunc(func() { close(h.listening) }))
	}
	return l, h.listening
}

func (h *hub) leave(l *listener) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.listeners, l)
	if len(h.listeners) == 0 {
		h.stop()
		h.stop = nil
	}
}

// overhear tells of what happens anywhere in the installation.
func (h *hub) overhear(ctx context.Context, listening func()) {
	err := h.client.Overhear(ctx, queue.Ear{
		Heard: func(e queue.Event) { h.tell(wire.FromEvent(e)) }, Missed: h.miss, Listening: listening,
	})
	if ctx.Err() == nil {
		h.log.LogAttrs(ctx, slog.LevelWarn, "event streams do not hear of workers any more", slog.Any("error", err))
	}
}

// tell never waits.
func (h *hub) tell(e wire.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		if !l.wants(&e) {
			continue
		}
		select {
		case l.heard <- e:
		default:
			l.dropped++
		}
	}
}

// miss says that n events of a class were not told; of no class and 0, that nobody knows.
func (h *hub) miss(class string, n int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for l := range h.listeners {
		switch {
		case class == "":
			l.gap = true
		case l.sees(class):
			l.dropped += n
		}
	}
}

// missed is what a listener was not told since the last time; nil for nothing.
func (h *hub) missed(l *listener) *wire.Missed {
	h.mu.Lock()
	defer h.mu.Unlock()
	n, gap := l.dropped, l.gap
	l.dropped, l.gap = 0, false
	switch {
	case gap:
		return &wire.Missed{Detail: "there is no connection to Redis, or it was lost: what happened meanwhile is not told"}
	case n > 0:
		return &wire.Missed{Dropped: n, Detail: "they came faster than they are told, or read"}
	}
	return nil
}

// tell tells those who listen how a submission was answered, but of what somebody may not submit, or does not see.
func (s *server) tell(ctx context.Context, job queue.Job, receipt queue.Receipt, err error) {
	if err == nil || s.desk.Allow(ctx, access.Operator, job.Class) == nil {
		s.hub.submitted(job, receipt, err)
	}
}

// The longest names that there are, in bytes. What is longer was refused, and waits for slow readers too.
const (
	classMost = 64
	keyMost   = 256
	idMost    = 128
)

// submitted tells how a submission through this server was answered.
func (h *hub) submitted(job queue.Job, receipt queue.Receipt, err error) {
	h.mu.Lock()
	nobody := len(h.listeners) == 0
	h.mu.Unlock()
	if nobody || job.Class == "" || len(job.Class) > classMost {
		return
	}
	e := wire.Event{What: string(receipt.Status), At: wire.Time(time.Now()), Class: job.Class, Ref: receipt.Ref}
	e.Key, e.ID = clipTo(keyMost, job.Key), clipTo(idMost, cmp.Or(receipt.ID, job.ID))
	if err != nil {
		e.What, e.Reason = "rejected", wire.FromError(err).Reason
	}
	h.tell(e)
}
