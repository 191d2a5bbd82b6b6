package desk

import (
	"context"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/queue"
)

// look fails unless the person may read what belongs to a class.
func look(ctx context.Context, class string) error { return allow(ctx, access.Viewer, class) }

// Now is the time by Redis's clock.
func (d *Desk) Now(ctx context.Context) (time.Time, error) {
	if err := access.From(ctx).Check(access.Viewer); err != nil {
		return time.Time{}, err
	}
	return d.client.Now(ctx)
}

// Books reads the totals of a class.
func (d *Desk) Books(ctx context.Context, class string) (queue.Books, error) {
	if err := look(ctx, class); err != nil {
		return queue.Books{}, err
	}
	return d.client.Books(ctx, class)
}

// Bucket reads one bucket. One that nobody used lately is empty, which is no error.
func (d *Desk) Bucket(ctx context.Context, t Target) (queue.Bucket, error) {
	if err := look(ctx, t.Class); err != nil {
		return queue.Bucket{}, err
	}
	return d.client.Buckets().Get(ctx, t.Class, t.Key)
}

// Buckets reads up to limit buckets of a class, sick ones and then the fullest first; see [queue.Buckets.List].
func (d *Desk) Buckets(ctx context.Context, class string, limit int) ([]queue.Bucket, error) {
	if err := look(ctx, class); err != nil {
		return nil, err
	}
	return d.client.Buckets().List(ctx, class, limit)
}

// Jobs reads up to limit waiting jobs of a target, in order of departure, or its dead ones, the newest first.
func (d *Desk) Jobs(ctx context.Context, t Target, dead bool, limit int) ([]queue.JobState, error) {
	if err := look(ctx, t.Class); err != nil {
		return nil, err
	}
	return d.client.Jobs(ctx, t.Class, t.Key, dead, limit)
}

// Dead reads a page of dead jobs.
func (d *Desk) Dead(ctx context.Context, q queue.DeadQuery) ([]queue.JobState, error) {
	if err := look(ctx, q.Class); err != nil {
		return nil, err
	}
	return d.client.Dead().List(ctx, q)
}

// DeadCount is how many dead jobs of a class are kept.
func (d *Desk) DeadCount(ctx context.Context, class string) (int, error) {
	if err := look(ctx, class); err != nil {
		return 0, err
	}
	return d.client.Dead().Count(ctx, class)
}

// DeadCountOf is how many dead jobs of a target are kept.
func (d *Desk) DeadCountOf(ctx context.Context, t Target) (int, error) {
	if t.Key == "" {
		return d.DeadCount(ctx, t.Class)
	}
	if err := look(ctx, t.Class); err != nil {
		return 0, err
	}
	return d.client.Dead().CountOf(ctx, t.Class, t.Key)
}

// Audit compares the books of a class with what is there.
func (d *Desk) Audit(ctx context.Context, class string) ([]queue.Account, error) {
	if err := look(ctx, class); err != nil {
		return nil, err
	}
	return d.client.Audit(ctx, class)
}
