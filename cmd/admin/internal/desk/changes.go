package desk

import (
	"context"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/changes"
)

// Changes reads a page of the log of changes, those of classes that the person sees; see [changes.Log.List].
func (d *Desk) Changes(ctx context.Context, q changes.Query) (page []changes.Change, next string, err error) {
	person := access.From(ctx)
	if q.Class != "" {
		err = look(ctx, q.Class)
	} else {
		err = person.Check(access.Viewer)
	}
	if err != nil {
		return nil, "", err
	}
	if len(person.Classes) > 0 {
		q.Sees = person.Sees
	}
	return d.log.List(ctx, q)
}
