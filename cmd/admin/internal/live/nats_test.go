package live_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"

	"github.com/spout-queue/spout/cmd/admin/internal/live"
	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// NATS is asked while somebody looks; when it is away the rest goes on.
func TestNATS(t *testing.T) {
	t.Parallel()
	c, err := queue.Open(t.Context(), redistest.Start(t).Client(t), queue.Options{})
	must(t, err)
	away := errors.New("away")
	var asked, gone atomic.Int64
	l := runWith(t, live.New(c, func(context.Context) (uint64, error) {
		asked.Add(1)
		if gone.Load() > 0 {
			return 0, away
		}
		return 7, nil
	}))
	if asked.Load() != 0 {
		t.Error("nobody looks, and it was asked")
	}
	defer l.Look()()
	eventually(t, "it is connected", func() bool {
		n := l.Now(t.Context()).NATS
		return n != nil && n.Asked && n.Waiting == 7 && n.Err == nil
	})
	gone.Store(1)
	eventually(t, "it is away", func() bool {
		p := l.Now(t.Context())
		return errors.Is(p.NATS.Err, away) && p.Err == nil
	})
}

func TestNoNATS(t *testing.T) {
	t.Parallel()
	c, err := queue.Open(t.Context(), redistest.Start(t).Client(t), queue.Options{})
	must(t, err)
	l := run(t, c)
	defer l.Look()()
	if p := l.Now(t.Context()); p.NATS != nil || p.Err != nil {
		t.Errorf("the picture tells of a NATS that there is not: %+v", p)
	}
}
