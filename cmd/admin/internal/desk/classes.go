package desk

import (
	"context"
	"errors"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/queue"
)

// Classes lists the classes that the person sees.
func (d *Desk) Classes(ctx context.Context) ([]queue.Class, error) {
	person := access.From(ctx)
	if err := person.Check(access.Viewer); err != nil {
		return nil, err
	}
	all, err := d.client.Classes().List(ctx)
	var seen []queue.Class
	for _, class := range all {
		if person.Sees(class.Name) {
			seen = append(seen, class)
		}
	}
	return seen, err
}

// Class reads one class.
func (d *Desk) Class(ctx context.Context, name string) (queue.Class, error) {
	if err := look(ctx, name); err != nil {
		return queue.Class{}, err
	}
	return d.client.Classes().Get(ctx, name)
}

// PutClass stores a class.
func (d *Desk) PutClass(ctx context.Context, class queue.Class) (queue.Class, error) {
	return d.putClass(ctx, class, func() (queue.Class, error) { return d.client.Classes().Put(ctx, class) })
}

func (d *Desk) putClass(ctx context.Context, class queue.Class, put func() (queue.Class, error)) (queue.Class, error) {
	if err := allow(ctx, access.Admin, class.Name); err != nil {
		return class, err
	}
	var before any
	switch old, err := d.client.Classes().Get(ctx, class.Name); {
	case err == nil:
		before = old
	case !errors.Is(err, queue.ErrUnknownClass):
		return class, err
	}
	stored, err := put()
	if err != nil && nothingDone(err) {
		return stored, err
	}
	d.note(ctx, "put class", Target{Class: class.Name}, before, stored, err)
	return stored, err
}

// Removal is what RemoveClass did.
type Removal struct {
	Class   string `json:"class"`
	Removed bool   `json:"removed"`
	Waiting int    `json:"purged_waiting"`
	Dead    int    `json:"purged_dead"`
}

// RemoveClass removes a class that has no jobs, or first drops those that wait and are dead.
func (d *Desk) RemoveClass(ctx context.Context, name string, purge bool) (Removal, error) {
	done := Removal{Class: name}
	if err := allow(ctx, access.Admin, name); err != nil {
		return done, err
	}
	before, err := d.client.Classes().Get(ctx, name)
	if err != nil {
		return done, err
	}
	if purge {
		done.Waiting, done.Dead, err = d.client.Classes().Purge(ctx, name)
	}
	if err == nil {
		err = d.client.Classes().Remove(ctx, name)
	}
	done.Removed = err == nil
	if done.Removed || done.Waiting+done.Dead > 0 || !nothingDone(err) {
		d.note(ctx, "remove class", Target{Class: name}, before, done, err)
	}
	return done, err
}
