package scheduler

import (
	"context"
	"log/slog"

	"github.com/spout-queue/spout/queue"
)

// rolledBack tells of data that Redis lost.
func (d *drain) rolledBack(ctx context.Context, r *queue.Rollback) {
	if r == nil {
		return
	}
	d.doubt = true
	d.s.seen.rolledBack(d.shard)
	d.s.o.Logger.LogAttrs(ctx, slog.LevelWarn,
		"another redis process answers, or redis lost data: what was done between these times may be lost, and jobs settled "+
			"then may run again; no bucket of the shard departs for one interval",
		slog.Int("shard", d.shard), slog.Time("known", r.Known), slog.Time("since", r.Since))
}

// reconcile compares, after a loss of data or when a call was refused, what Redis has out here with what runs. What this
// worker knows nothing of goes back: its end was among what was lost. What runs and is no longer out is told to end: it was
// given to others, for this worker was taken for dead, or its departure was lost.
func (d *drain) reconcile(ctx context.Context) {
	if !d.doubt {
		return
	}
	owned, err := d.outlet.Owned(ctx)
	if err != nil {
		return // the next call will do
	}
	d.doubt = false
	returned := 0
	for ref, stamp := range owned {
		if d.s.stage.find(ref+":"+stamp) == nil && !d.s.settles[d.shard].has(ref, stamp) {
			returned++
			back := queue.Verdict{Ref: ref, Stamp: stamp, Outcome: queue.Back}
			d.s.settles[d.shard].add(nil, back, nil) //nolint:contextcheck // it outlives the call
		}
	}
	n := d.s.stage.cut(errLost, func(a *attempt) bool { //nolint:contextcheck // nor does this end with the call
		return a.shard == d.shard && owned[a.Ref] != a.Stamp
	})
	d.s.seen.repaired(returned, n)
	if n > 0 {
		d.s.o.Logger.LogAttrs(ctx, slog.LevelWarn, "redis no longer has these jobs out here: their handlers were told to end",
			slog.Int("shard", d.shard), slog.Int("handlers", n))
	}
}
