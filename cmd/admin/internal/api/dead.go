package api

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// DeadTarget is a class, or one bucket of it.
type DeadTarget struct {
	Class string `query:"class" doc:"The class of the jobs." required:"true" example:"github-api"`
	Key   string `query:"key" doc:"The key of one bucket; all of the class by default."`
}

func (t DeadTarget) target() desk.Target { return desk.Target{Class: t.Class, Key: t.Key} }

type deadInput struct {
	DeadTarget
	Paging
	Before string `query:"before" doc:"Only those that died before this time, in RFC 3339." format:"date-time"`
}

type purgeDeadInput struct {
	DeadTarget
	Confirmation
}

func (s *server) routeDead() {
	route(s, s.operation(http.MethodGet, "/v1/dead", "dead", "List dead jobs", "The newest first.", queue.ReasonUnknownClass), s.listDead)
	route(s, s.operation(http.MethodGet, "/v1/dead/groups", "dead", "What jobs died of", "The errors of the newest dead jobs of a class, alike ones together.", queue.ReasonUnknownClass),
		func(ctx context.Context, in *groupsInput) (*output[wire.DeadGroups], error) {
			groups, err := s.desk.DeadGroups(ctx, in.Class, in.Limit)
			return &output[wire.DeadGroups]{wire.FromDeadGroups(groups)}, err
		})
	s.routeRevival()
	route(s, s.operation(http.MethodPost, "/v1/dead/purge", "dead", "Drop dead jobs", "Asks twice.",
		queue.ReasonUnknownClass, queue.ReasonUnknown, wire.ReasonUnconfirmed), s.purgeDead)
}

type groupsInput struct {
	Class string `query:"class" doc:"The class of the jobs." required:"true" example:"github-api"`
	Limit int    `query:"limit" doc:"Most groups." minimum:"1" maximum:"100" default:"20"`
}

func (s *server) listDead(ctx context.Context, in *deadInput) (*output[wire.Page[wire.JobState]], error) {
	q := queue.DeadQuery{Class: in.Class, Key: in.Key}
	var err error
	switch {
	case in.Cursor != "" && in.Before != "":
		return nil, fmt.Errorf("%w: cursor and before are both there; one will do", queue.ErrInvalid)
	case in.Cursor != "":
		if q.Before, q.BeforeRef, err = readDeadCursor(in.Cursor); err != nil {
			return nil, err
		}
	case in.Before != "":
		if q.Before, err = timeOf("before", in.Before); err != nil {
			return nil, err
		}
	}
	next := ""
	jobs, err := inParts(in.Limit, func(n int) (part []queue.JobState, more bool, err error) {
		q.Limit, next = n, ""
		if part, err = s.desk.Dead(ctx, q); err != nil || len(part) < n {
			return part, false, err
		}
		last := part[len(part)-1]
		next, q.Before, q.BeforeRef = deadCursor(last), last.EndedAt, last.Ref
		return part, true, nil
	})
	return pageOf(jobs, next, wire.FromJobState), err
}

func timeOf(name, text string) (time.Time, error) {
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return at, fmt.Errorf("%w: %s %q is not a time in RFC 3339, like 2026-01-31T18:00:00Z", queue.ErrInvalid, name, clip(text))
	}
	if at.IsZero() { // the year 1, which the queue would take for no time at all: for all of them
		at = at.Add(time.Nanosecond)
	}
	return at, nil
}

// deadCursor is where a page of dead jobs ends.
func deadCursor(last queue.JobState) string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %s", last.EndedAt.UnixMicro(), last.Ref))
}

func readDeadCursor(cursor string) (time.Time, string, error) {
	text, err := base64.RawURLEncoding.DecodeString(cursor)
	at, ref, found := strings.Cut(string(text), " ")
	micros, noNumber := strconv.ParseInt(at, 10, 64)
	if err != nil || noNumber != nil || !found {
		return time.Time{}, "", fmt.Errorf("%w: cursor %q is none that a page told", queue.ErrInvalid, clip(cursor))
	}
	return time.UnixMicro(micros).UTC(), ref, nil
}

func (s *server) purgeDead(ctx context.Context, in *purgeDeadInput) (*output[wire.Purged], error) {
	t := in.target()
	if err := s.desk.Allow(ctx, access.Admin, t.Class); err != nil {
		return nil, err
	}
	would, err := s.countDead(ctx, t)
	if err != nil {
		return nil, err
	}
	if err := in.check("purge the dead of "+t.String(), int64(would)); err != nil {
		if p, ok := errors.AsType[*problem](err); ok { // it is not those that wait that go
			p.Waiting, p.Dead = nil, p.Waiting
		}
		return nil, err
	}
	n, err := s.desk.PurgeDead(ctx, t)
	if err != nil && n > 0 {
		p := s.refusal(ctx, err)
		p.Done = &wire.Done{Dead: n}
		return nil, p
	}
	return &output[wire.Purged]{wire.Purged{Class: t.Class, Key: t.Key, Purged: n}}, err
}

// countDead counts all of them, however many: what is agreed to is what is dropped.
func (s *server) countDead(ctx context.Context, t desk.Target) (int, error) {
	if _, err := s.desk.Class(ctx, t.Class); err != nil {
		return 0, err
	}
	return s.desk.DeadCountOf(ctx, t)
}
