// Package desk is where an operator's wishes arrive, whichever way they came: it checks what the person in the context may
// do, does it, and writes the log of changes.
package desk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/changes"
	"github.com/spout-queue/spout/cmd/internal/metercheck"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/meter"
	"github.com/spout-queue/spout/queue"
)

// Target is a bucket or, without a key, all buckets of a class.
type Target struct{ Class, Key string }

// String is class or class/key.
func (t Target) String() string {
	if t.Key == "" {
		return t.Class
	}
	return t.Class + "/" + t.Key
}

// Desk serves one installation. It is safe for concurrent use.
type Desk struct {
	client *queue.Client
	log    *changes.Log
	door   string
	errors *slog.Logger
	meters *metercheck.Meters
	trace  Trace
	turns  turns
}

// Trace begins the span of a submission: it puts the context of the span into the job, and end is told the answer.
type Trace func(ctx context.Context, job *queue.Job) (_ context.Context, end func(queue.Receipt, error))

// NewTraced returns a desk whose submissions of one job are spans; with nil it is that of [New].
func NewTraced(client *queue.Client, door string, log *slog.Logger, by Trace) *Desk {
	d := New(client, door, log)
	d.trace = by
	return d
}

// New returns a desk that writes changes with the door they came by: cli, http or dashboard. log gets what keeps it from writing one.
func New(client *queue.Client, door string, log *slog.Logger) *Desk {
	return &Desk{client: client, log: changes.Open(client.Redis(), client.Prefix()), door: door, errors: log, meters: metercheck.New(client)}
}

// Client is the installation itself, for what only reads and what checks for itself.
func (d *Desk) Client() *queue.Client { return d.client }

// CheckMeter asks a meter, see [metercheck.Meters.Decide]. Meters belong to no class.
func (d *Desk) CheckMeter(ctx context.Context, question []byte) (meter.Decision, error) {
	if err := access.From(ctx).Check(access.Operator); err != nil {
		return meter.Decision{}, err
	}
	return d.meters.Decide(ctx, question)
}

// sees fails as if a class did not exist when it does not for the person. It does not ask for a role.
func sees(ctx context.Context, class string) error {
	if access.From(ctx).Sees(class) {
		return nil
	}
	return fmt.Errorf("%w: %q", queue.ErrUnknownClass, class)
}

// allow fails unless the person may do what takes a role, to a class.
func allow(ctx context.Context, role access.Role, class string) error {
	if err := access.From(ctx).Check(role); err != nil {
		return err
	}
	return sees(ctx, class)
}

// note writes a change into the log. What was done stays done when that fails: then the program's own log has it.
func (d *Desk) note(ctx context.Context, action string, t Target, before, after any, done error) {
	c := changes.Change{
		Who: access.From(ctx).Name, Door: d.door, Action: action, Target: t.String(), Class: t.Class, Before: shown(before), After: shown(after),
	}
	if done != nil {
		c.Error = wire.Public(done).Error()
	}
	// A change that was made is written, also when its asker is gone by now.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	if err := d.log.Add(ctx, c); err != nil {
		d.errors.LogAttrs(ctx, slog.LevelError, "a change could not be written into the log of changes",
			slog.String("who", c.Who), slog.String("action", action), slog.String("target", c.Target), slog.Any("error", err))
	}
}

const noteTime = 5 * time.Second

func shown(v any) json.RawMessage {
	if v == nil {
		return nil
	}
	body, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	return body
}

// nothingDone tells of errors after which there is no change to write down. After others, something may have been done.
func nothingDone(err error) bool {
	_, full := errors.AsType[*queue.FullError](err)
	_, busy := errors.AsType[*queue.BusyError](err)
	return full || busy || errors.Is(err, queue.ErrInvalid) || errors.Is(err, queue.ErrUnknownClass) || errors.Is(err, queue.ErrNotFound) ||
		errors.Is(err, queue.ErrConflict) || errors.Is(err, queue.ErrDraining)
}
