package desk

import (
	"context"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/queue"
)

// Pause closes a target until it is resumed. Like all of these it tells whether that changed anything: what is so already is not
// written into the log of changes.
func (d *Desk) Pause(ctx context.Context, t Target) (changed bool, err error) {
	return d.operate(ctx, "pause", t, queue.Classes.Pause, queue.Buckets.Pause)
}

// Resume ends pause and drain.
func (d *Desk) Resume(ctx context.Context, t Target) (changed bool, err error) {
	return d.operate(ctx, "resume", t, queue.Classes.Resume, queue.Buckets.Resume)
}

// Drain admits nothing more and lets the target empty.
func (d *Desk) Drain(ctx context.Context, t Target) (changed bool, err error) {
	return d.operate(ctx, "drain", t, queue.Classes.Drain, queue.Buckets.Drain)
}

// Unhold ends a hold.
func (d *Desk) Unhold(ctx context.Context, t Target) (changed bool, err error) {
	return d.operate(ctx, "unhold", t, queue.Classes.Unhold, queue.Buckets.Unhold)
}

// Hold closes a target until a time by Redis's clock.
func (d *Desk) Hold(ctx context.Context, t Target, until time.Time) (changed bool, err error) {
	return d.operate(ctx, "hold", t,
		func(s queue.Classes, ctx context.Context, class string) error {
			return s.Hold(ctx, class, until, "an operator")
		},
		func(s queue.Buckets, ctx context.Context, class, key string) error {
			return s.Hold(ctx, class, key, until)
		})
}

// operate does one thing to a bucket or to a class. It is done even where it looks done: on some shards it may not be.
func (d *Desk) operate(ctx context.Context, action string, t Target,
	class func(queue.Classes, context.Context, string) error, bucket func(queue.Buckets, context.Context, string, string) error,
) (changed bool, err error) {
	if err := allow(ctx, access.Operator, t.Class); err != nil {
		return false, err
	}
	leave, err := d.turns.take(ctx, t)
	if err != nil {
		return false, err
	}
	defer leave()
	before, err := d.closed(ctx, t)
	if err != nil {
		return false, err
	}
	if t.Key == "" {
		err = class(d.client.Classes(), ctx, t.Class)
	} else {
		err = bucket(d.client.Buckets(), ctx, t.Class, t.Key)
	}
	if err != nil && nothingDone(err) {
		return false, err
	}
	look, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime) // it is made, also when its asker is gone by now
	defer cancel()
	after, unread := d.closed(look, t)
	switch {
	case unread != nil: // the log does without
		d.note(ctx, action, t, openness(before), nil, err)
	case err == nil && before == after:
		return false, nil
	default:
		d.note(ctx, action, t, openness(before), openness(after), err)
	}
	return true, err
}

// closed is what closes a target by itself.
func (d *Desk) closed(ctx context.Context, t Target) (queue.Closed, error) {
	if t.Key != "" {
		return d.client.Buckets().Closed(ctx, t.Class, t.Key)
	}
	class, err := d.client.Classes().Get(ctx, t.Class)
	return queue.Closed{Paused: class.Paused, Draining: class.Draining, Hold: class.Hold, HoldReason: class.HoldReason}, err
}

// openness is [queue.Closed] for the log of changes.
func openness(c queue.Closed) any {
	return struct {
		Paused     bool      `json:"paused"`
		Draining   bool      `json:"draining"`
		Hold       time.Time `json:"hold,omitzero"`
		HoldReason string    `json:"hold_reason,omitempty"`
		Backoff    time.Time `json:"backoff,omitzero"`
		Sick       string    `json:"sick,omitempty"`
	}(c)
}
