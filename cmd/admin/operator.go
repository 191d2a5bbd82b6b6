package main

import (
	"context"
	"time"

	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// operator does what the commands are told to, either on Redis or through the HTTP API of a server.
type operator interface { //nolint:interfacebloat // one method per command
	// States lists all classes, State reads one, with how many jobs they have.
	States(ctx context.Context) ([]classState, error)
	State(ctx context.Context, class string) (classState, error)
	Class(ctx context.Context, name string) (queue.Class, error)
	PutClass(ctx context.Context, class queue.Class) (queue.Class, error)
	// PutClassIf is PutClass for a class that still has a version, 0 for one that must not be there yet.
	PutClassIf(ctx context.Context, class queue.Class, version int64) (queue.Class, error)
	RemoveClass(ctx context.Context, name string, purge bool) (desk.Removal, error)

	Bucket(ctx context.Context, t target) (queue.Bucket, error)
	// Buckets reads up to limit buckets of a class, sick ones and then the fullest first.
	Buckets(ctx context.Context, class string, limit int) ([]queue.Bucket, error)
	// Pause and those that follow tell whether that changed anything.
	Pause(ctx context.Context, t target) (changed bool, err error)
	Resume(ctx context.Context, t target) (changed bool, err error)
	Drain(ctx context.Context, t target) (changed bool, err error)
	Hold(ctx context.Context, t target, until time.Time) (changed bool, err error)
	// HoldFor is Hold from now on, by Redis's clock.
	HoldFor(ctx context.Context, t target, period time.Duration) (changed bool, err error)
	Unhold(ctx context.Context, t target) (changed bool, err error)
	// CountWaiting is how many jobs a Purge would drop, for a question.
	CountWaiting(ctx context.Context, t target) (string, error)
	Purge(ctx context.Context, t target) (int, error)

	Jobs(ctx context.Context, t target, dead bool, limit int) ([]queue.JobState, error)
	Job(ctx context.Context, ref string) (queue.JobState, error)
	Cancel(ctx context.Context, ref string) (queue.State, error)
	Retry(ctx context.Context, ref string) (queue.Receipt, error)

	Dead(ctx context.Context, q queue.DeadQuery) ([]queue.JobState, error)
	// Revive sends the jobs of a target that are dead now round again, once or for as long as some find no room.
	Revive(ctx context.Context, t target, wait bool, progress func(queue.Revival)) (queue.Revival, error)
	// CountDead is how many jobs a PurgeDead would drop, for a question.
	CountDead(ctx context.Context, t target) (string, error)
	PurgeDead(ctx context.Context, t target) (int, error)

	Audit(ctx context.Context, class string) ([]queue.Account, error)
	// Changes reads up to limit entries of the log of changes, the newest first: of a target, or of all when it is empty.
	Changes(ctx context.Context, t target, limit int) ([]wire.LoggedChange, error)
}
