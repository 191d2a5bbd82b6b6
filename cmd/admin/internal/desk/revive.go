package desk

import (
	"context"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/revive"
	"github.com/spout-queue/spout/queue"
)

// Revive sends the dead jobs of a target that died before a time, zero for now, round again, pass after pass while some find no room in
// their buckets, until none of them is left. It takes as long as that takes: end ctx to stop it; what went round stays so.
// progress is told on the way what was done since it began. The log of changes tells when it begins and when it ends.
func (d *Desk) Revive(ctx context.Context, t Target, before time.Time, progress func(queue.Revival)) (queue.Revival, error) {
	if err := allow(ctx, access.Operator, t.Class); err != nil {
		return queue.Revival{}, err
	}
	began, err := d.client.Now(ctx)
	if err != nil {
		return queue.Revival{}, err
	}
	if before.IsZero() {
		before = began
	}
	d.note(ctx, "retry dead", t, nil, map[string]string{"began": began.UTC().Format(queue.TimeFormat)}, nil)
	r := revive.Reviver{Wait: true, Show: progress, Log: d.errors, Pass: func(ctx context.Context, progress func(queue.Revival)) (queue.Revival, error) {
		return d.client.Dead().RetryAll(ctx, t.Class, t.Key, before, progress)
	}}
	sum, err := r.Run(ctx)
	d.note(ctx, "retry dead", t, nil, map[string]int{"retried": sum.Retried, "left": sum.Left}, err)
	return sum, err
}
