package scheduler

import (
	"context"
	"log/slog"

	"github.com/spout-queue/spout/queue"
)

// rolledBack tells of data that Redis lost, and gives back what Redis has out here that this worker knows nothing of: its
// end was among what was lost.
func (d *drain) rolledBack(ctx context.Context, r *queue.Rollback) {
	if r != nil {
		d.doubt = true
		d.s.o.Logger.LogAttrs(ctx, slog.LevelWarn,
			"another redis process answers, or redis lost data: what was done between these times may be lost, and jobs settled "+
				"then may run again; no bucket of the shard departs for one interval",
			slog.Int("shard", d.shard), slog.Time("known", r.Known), slog.Time("since", r.Since))
	}
	if d.doubt {
		d.doubt = d.giveUnknownBack(ctx) != nil
	}
}

func (d *drain) giveUnknownBack(ctx context.Context) error {
	owned, err := d.outlet.Owned(ctx)
	if err != nil {
		return err
	}
	for ref, stamp := range owned {
		if d.s.stage.find(ref+":"+stamp) == nil && !d.s.settles[d.shard].has(ref, stamp) {
			back := queue.Verdict{Ref: ref, Stamp: stamp, Outcome: queue.Back}
			d.s.settles[d.shard].add(back, nil) //nolint:contextcheck // it outlives the call
		}
	}
	return nil
}
