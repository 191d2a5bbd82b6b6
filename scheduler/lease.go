package scheduler

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// leaseTime is how long a worker that cannot beat goes on with what it has out. It is less than reclaimAfter, so that its
// handlers have been told to end before their jobs are given to others.
const leaseTime = 8 * time.Second

// lease ends when no beat has reached a shard for leaseTime. A process that was frozen learns of it as it wakes up.
type lease struct {
	lost func()

	mu    sync.Mutex
	last  time.Time // when the last beat that arrived was sent
	timer *time.Timer
}

// renew says that a beat that was sent then has arrived.
func (l *lease) renew(sent time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	late := !l.last.IsZero() && sent.Sub(l.last) > leaseTime // before the timer could say so
	l.last = sent
	left := time.Until(sent.Add(leaseTime))
	if l.timer == nil {
		l.timer = time.AfterFunc(left, l.lost)
		return
	}
	if l.timer.Reset(left) && late {
		go l.lost()
	}
}

func (l *lease) stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.timer != nil {
		l.timer.Stop()
	}
}

// leaseLost ends the handlers of what is out in a shard: others may take its jobs from now on. What a call brings that got
// through meanwhile is younger.
func (d *drain) leaseLost() {
	n := d.s.stage.cut(errLost, func(a *attempt) bool {
		return a.shard == d.shard && time.Since(a.clock.ours) > leaseTime/2
	})
	d.s.seen.lost(d.shard)
	d.s.o.Logger.LogAttrs(context.Background(), slog.LevelWarn, "no contact with redis: the handlers of this shard were told to end",
		slog.Int("shard", d.shard), slog.Duration("for", leaseTime), slog.Int("handlers", n))
}
