package desk

import (
	"context"
	"slices"
	"strings"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/queue"
)

// JobPage reads a page of jobs.
func (d *Desk) JobPage(ctx context.Context, q queue.JobQuery) ([]queue.JobState, string, error) {
	if err := look(ctx, q.Class); err != nil {
		return nil, "", err
	}
	return d.client.JobPage(ctx, q)
}

// BucketPage reads a page of buckets, of all classes that the person sees when the query names none.
func (d *Desk) BucketPage(ctx context.Context, q queue.BucketQuery) ([]queue.Bucket, string, error) {
	person := access.From(ctx)
	if q.Class != "" {
		if err := look(ctx, q.Class); err != nil {
			return nil, "", err
		}
	} else if err := person.Check(access.Viewer); err != nil {
		return nil, "", err
	}
	if q.Class == "" && len(person.Classes) > 0 {
		return d.bucketsOfSome(ctx, q)
	}
	return d.client.Buckets().Page(ctx, q)
}

// bucketsOfSome goes through the buckets class by class: a cursor through all of them would name those that the person does not see.
// Its own is the class, a dot, and where the page of that class ended.
func (d *Desk) bucketsOfSome(ctx context.Context, q queue.BucketQuery) ([]queue.Bucket, string, error) {
	classes, err := d.Classes(ctx)
	if err != nil {
		return nil, "", err
	}
	at, after, _ := strings.Cut(q.After, ".")
	i := slices.IndexFunc(classes, func(c queue.Class) bool { return c.Name >= at })
	if i < 0 {
		return nil, "", nil
	}
	if q.Class = classes[i].Name; q.Class == at { // else that class is gone by now
		q.After = after
	} else {
		q.After = ""
	}
	list, next, err := d.client.Buckets().Page(ctx, q)
	switch {
	case err != nil:
		return nil, "", err
	case next != "":
		return list, q.Class + "." + next, nil
	case i+1 < len(classes):
		return list, classes[i+1].Name + ".", nil
	}
	return list, "", nil
}

// Allow fails unless the person may do what takes a role, to a class: for what asks before it does.
func (d *Desk) Allow(ctx context.Context, role access.Role, class string) error {
	return allow(ctx, role, class)
}

// PutClassIf is PutClass for somebody who has looked at the class: it must have exactly that version, 0 when it must not be there.
func (d *Desk) PutClassIf(ctx context.Context, class queue.Class, version int64) (queue.Class, error) {
	return d.putClass(ctx, class, func() (queue.Class, error) { return d.client.Classes().PutIf(ctx, class, version) })
}

// Workers lists the workers that serve a class that the person sees, and which of those.
func (d *Desk) Workers(ctx context.Context) ([]queue.Worker, error) {
	person := access.From(ctx)
	if err := person.Check(access.Viewer); err != nil {
		return nil, err
	}
	workers, err := d.client.Workers(ctx)
	serves := func(w queue.Worker) bool {
		return len(w.Classes) == 0 || slices.ContainsFunc(w.Classes, person.Sees) // none named is all
	}
	workers = slices.DeleteFunc(workers, func(w queue.Worker) bool { return !serves(w) })
	for i := range workers {
		workers[i].Classes = slices.DeleteFunc(workers[i].Classes, func(class string) bool { return !person.Sees(class) })
	}
	return workers, err
}

// History reads how a class fared.
func (d *Desk) History(ctx context.Context, class string, span queue.Span) (queue.History, error) {
	if err := look(ctx, class); err != nil {
		return queue.History{}, err
	}
	return d.client.History(ctx, class, span)
}

// DeadGroups tells what the newest dead jobs of a class died of.
func (d *Desk) DeadGroups(ctx context.Context, class string, limit int) (queue.DeadGroups, error) {
	if err := look(ctx, class); err != nil {
		return queue.DeadGroups{}, err
	}
	return d.client.Dead().Groups(ctx, class, limit)
}
