package api

import (
	"context"
	"net/http"

	"github.com/spout-queue/spout/cmd/admin/internal/changes"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

type auditInput struct {
	Class string `query:"class" doc:"One class; all by default." example:"github-api"`
}

func (s *server) routeService() {
	route(s, s.operation(http.MethodGet, "/v1/audit", "service", "Audit the books",
		"Both sides of the books of each class in each shard: the totals, and what there is. It looks at every bucket.", queue.ReasonUnknownClass),
		func(ctx context.Context, in *auditInput) (*output[wire.Page[wire.Account]], error) {
			accounts, err := s.audit(ctx, in.Class)
			return pageOf(accounts, "", wire.FromAccount), err
		})
	route(s, s.operation(http.MethodGet, "/v1/workers", "service", "List workers", "Those that have not left, by name, on one page."),
		func(ctx context.Context, _ *struct{}) (*output[wire.Page[wire.Worker]], error) {
			workers, err := s.desk.Workers(ctx)
			return pageOf(workers, "", wire.FromWorker), err
		})
	route(s, s.operation(http.MethodGet, "/v1/history", "service", "How a class fared",
		"Counts, levels and percentiles over time, as workers and this server have recorded them.", queue.ReasonUnknownClass),
		func(ctx context.Context, in *historyInput) (*output[wire.History], error) {
			h, err := s.desk.History(ctx, in.Class, queue.Span(in.Span))
			return &output[wire.History]{wire.FromHistory(h)}, err
		})
}

type historyInput struct {
	Class string `query:"class" required:"true" doc:"The class." example:"github-api"`
	Span  string `query:"span" doc:"15m: a point every 5 s. 24h: a point every 5 min." enum:"15m,24h" default:"15m"`
}

func (s *server) audit(ctx context.Context, class string) ([]queue.Account, error) {
	if class != "" {
		return s.desk.Audit(ctx, class)
	}
	classes, err := s.desk.Classes(ctx)
	if err != nil {
		return nil, err
	}
	var all []queue.Account
	for _, c := range classes {
		some, err := s.desk.Audit(ctx, c.Name)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	return all, nil
}

type changesInput struct {
	Class  string `query:"class" doc:"Only of one class." example:"github-api"`
	Target string `query:"target" doc:"Only of one bucket: class/key." example:"github-api/tenant-42"`
	Paging
}

func (s *server) routeChanges() {
	route(s, s.operation(http.MethodGet, "/v1/changes", "service", "Who changed what",
		"The newest first: about the last ten thousand changes, made by whoever through whichever door. A page may be short and still have a next.",
		queue.ReasonUnknownClass),
		func(ctx context.Context, in *changesInput) (*output[wire.Page[wire.LoggedChange]], error) {
			list, next, err := s.desk.Changes(ctx, changes.Query{Before: in.Cursor, Class: in.Class, Target: in.Target, Limit: in.Limit})
			return pageOf(list, next, func(c changes.Change) wire.LoggedChange { return wire.LoggedChange(c) }), err
		})
}
