package api

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"time"

	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// output is an answer with a body and nothing else.
type output[T any] struct{ Body T }

// Paging is a part of a list, as a query asks for it.
type Paging struct {
	Cursor string `query:"cursor" doc:"Where the page before ended: its next."`
	Limit  int    `query:"limit" doc:"About how many." minimum:"1" maximum:"1000" default:"100"`
}

type refInput struct {
	Ref string `path:"ref" doc:"Names the job, as its receipt does." example:"0-7mVXhJkUQpDZ6v5YbX1m0w"`
}

type jobsInput struct {
	Class string `query:"class" doc:"The class of the jobs." required:"true" example:"github-api"`
	Key   string `query:"key" doc:"The key of one bucket; all of the class by default."`
	State string `query:"state" doc:"Where they are." enum:"waiting,line,later,out,dead" default:"waiting"`
	Paging
}

func (s *server) routeJobs() {
	route(s, s.operation(http.MethodGet, "/v1/jobs", "jobs", "List jobs",
		"Those that wait come bucket by bucket, in the order in which they leave; dead ones the newest first. A page may be short, even empty, and still have a next.",
		queue.ReasonUnknownClass),
		func(ctx context.Context, in *jobsInput) (*output[wire.Page[wire.JobState]], error) {
			q := queue.JobQuery{Class: in.Class, Key: in.Key, State: queue.State(in.State), After: in.Cursor}
			jobs, err := inParts(in.Limit, func(n int) (part []queue.JobState, more bool, err error) {
				q.Limit = n
				part, q.After, err = s.desk.JobPage(ctx, q)
				return part, q.After != "", err
			})
			return pageOf(jobs, q.After, wire.FromJobState), err
		})
	route(s, s.operation(http.MethodGet, "/v1/jobs/{ref}", "jobs", "Look at a job", "", answer.ReasonNotFound),
		func(ctx context.Context, in *refInput) (*output[wire.JobState], error) {
			job, err := s.desk.Job(ctx, in.Ref)
			return &output[wire.JobState]{wire.FromJobState(job)}, err
		})
	s.routeEnd()
	route(s, s.operation(http.MethodPost, "/v1/jobs/{ref}/cancel", "jobs", "Cancel a job",
		"One that waits is gone at once. One that is out is told to end: cancelling.", answer.ReasonNotFound, queue.ReasonConflict),
		func(ctx context.Context, in *refInput) (*output[wire.Cancelled], error) {
			state, err := s.desk.Cancel(ctx, in.Ref)
			return &output[wire.Cancelled]{wire.Cancelled{Ref: in.Ref, State: state, Cancelling: state == queue.Out}}, err
		})
	route(s, s.operation(http.MethodPost, "/v1/jobs/{ref}/retry", "jobs", "Send a dead job round again",
		"It joins the tail of its bucket, with its attempts counted anew.", answer.ReasonNotFound, queue.ReasonFull, queue.ReasonDraining),
		func(ctx context.Context, in *refInput) (*output[wire.Receipt], error) {
			receipt, err := s.desk.Retry(ctx, in.Ref)
			return &output[wire.Receipt]{wire.FromReceipt(receipt)}, err
		})
}

const (
	// partMost is how many jobs are read at a time: nobody knows how large they are before.
	partMost = 25
	// pageBytes ends a page early: a thousand jobs may have a gigabyte of payloads, and anybody who may look may ask for them.
	pageBytes = 8 << 20
)

// inParts reads a page of jobs. read reads up to n and tells whether there may be more; a part without any ends the page, too.
func inParts(limit int, read func(n int) (part []queue.JobState, more bool, err error)) (page []queue.JobState, err error) {
	for size := 0; len(page) < limit && size < pageBytes; {
		part, more, err := read(min(partMost, limit-len(page)))
		if page = append(page, part...); err != nil || !more || len(part) == 0 {
			return page, err
		}
		for _, job := range part {
			size += len(job.Payload) + len(job.Result)
			for _, attempt := range job.History {
				size += len(attempt.Error)
			}
		}
	}
	return page, nil
}

// pageOf is a part of a list as it is sent.
func pageOf[Q, W any](list []Q, next string, from func(Q) W) *output[wire.Page[W]] {
	items := make([]W, len(list))
	for i, one := range list {
		items[i] = from(one)
	}
	return &output[wire.Page[W]]{wire.Page[W]{Items: items, Next: next}}
}

// lookTime is how long it may take to see that a job has ended already.
const lookTime = 2 * time.Second

func (s *server) routeEnd() {
	op := s.operation(http.MethodGet, "/v1/jobs/{ref}/end", "jobs", "How a job ended",
		"Without polling: with wait, the answer comes when the job ends. 202 with the job says that it had not by then.", answer.ReasonNotFound)
	op.Parameters = append(op.Parameters, param("path", "ref", "Names the job, as its receipt does.", ""), waitParam())
	s.answers(&op, http.StatusOK, "It has ended.", reflect.TypeFor[wire.Ending]())
	s.answers(&op, http.StatusAccepted, "Not yet.", reflect.TypeFor[wire.JobState]())
	s.direct(op, s.end)
}

func (s *server) end(w http.ResponseWriter, r *http.Request) error {
	wait, err := waitOf(r)
	if err != nil {
		return err
	}
	job, err := s.desk.Job(r.Context(), r.PathValue("ref"))
	if err != nil {
		return err
	}
	if alive := []queue.State{queue.Line, queue.Later, queue.Out}; wait == 0 && slices.Contains(alive, job.State) {
		return sendJSON(w, http.StatusAccepted, wire.FromJobState(job)) // who asks again and again is not kept waiting
	}
	wait = max(wait, lookTime)
	beBackIn(w, wait)
	ending := s.await(r.Context(), job.Ref, wait)
	switch {
	case ending == nil:
		return sendJSON(w, http.StatusAccepted, wire.FromJobState(job))
	case ending.State == queue.Gone:
		return fmt.Errorf("%w: job %s has ended and nothing is kept of it; a class with a retention keeps it", queue.ErrNotFound, job.Ref)
	}
	return sendJSON(w, http.StatusOK, ending)
}
