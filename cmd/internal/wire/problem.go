package wire

import (
	"cmp"
	"errors"
	"net/http"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/queue"
)

// Reasons that only the HTTP API gives, besides those of packages queue and answer.
const (
	ReasonUnauthenticated = answer.ReasonUnauthenticated // nobody knows who asks
	ReasonDenied          = answer.ReasonDenied          // the person may not do that
	ReasonUnconfirmed     = answer.ReasonUnconfirmed     // what cannot be undone is asked for twice
)

// Problem is an error in the shape of RFC 9457, with the members of a [Rejection] and those that some reasons have.
type Problem struct {
	Type         string       `json:"type" format:"uri-reference" doc:"Names the kind of problem; it leads to its description."`
	Title        string       `json:"title" example:"The bucket is full"`
	Status       int          `json:"status" example:"429"`
	Detail       string       `json:"detail,omitempty" doc:"What happened, to what, and what to do."`
	Instance     string       `json:"instance,omitempty" doc:"Names this answer in the log."`
	Reason       queue.Reason `json:"reason" doc:"The word for it, the same at every door." example:"full"`
	Class        string       `json:"class,omitempty"`
	Key          string       `json:"key,omitempty"`
	ID           string       `json:"id,omitempty" doc:"Of the job whose outcome is unknown: submit it again with this id."`
	RetryAfterMS *int64       `json:"retry_after_ms,omitempty" doc:"Time until the same request could succeed, in milliseconds; missing where nobody can tell."`
	Level        *int         `json:"level,omitempty" doc:"Of the bucket that has no room."`
	Capacity     *int         `json:"capacity,omitempty" doc:"Of the bucket that has no room."`
	Waiting      *int64       `json:"waiting,omitempty" doc:"Waiting jobs that keep a class, or that would be dropped."`
	Out          *int64       `json:"out,omitempty" doc:"Jobs out that keep a class."`
	Dead         *int64       `json:"dead,omitempty" doc:"Dead jobs that keep a class, or that would be dropped."`
	Confirm      string       `json:"confirm,omitempty" doc:"Send it back as confirm to have that done which cannot be undone."`
	Done         *Done        `json:"done,omitempty" doc:"What was done before it failed."`
}

// Done is what was done before something failed.
type Done struct {
	Waiting int `json:"purged_waiting,omitempty" doc:"Waiting jobs that were dropped."`
	Dead    int `json:"purged_dead,omitempty" doc:"Dead jobs that were dropped."`
	Retried int `json:"retried,omitempty" doc:"Dead jobs that went round again."`
}

// FromProblem is the problem that an error stands for, without its Type and Title, which belong to the server that has the list of them.
func FromProblem(err error) Problem {
	p := Problem{Reason: reasonOf(err), Detail: err.Error()}
	p.Status = statusOf(p.Reason, err)
	if full, ok := errors.AsType[*queue.FullError](err); ok {
		p.Class, p.Key, p.Level, p.Capacity = full.Class, full.Key, &full.Level, &full.Capacity
		if !full.Paused {
			p.RetryAfterMS = new(queue.Millis(full.RetryAfter))
		}
	}
	if busy, ok := errors.AsType[*queue.BusyError](err); ok {
		p.Class, p.Waiting, p.Out, p.Dead = busy.Class, &busy.Waiting, &busy.Out, &busy.Dead
	}
	return p
}

func reasonOf(err error) queue.Reason {
	if errors.Is(err, access.ErrDenied) {
		return ReasonDenied
	}
	switch reason := answer.Reason(err); reason {
	case answer.ReasonDenied, answer.ReasonUnfit, "": // how Redis and this server get on is no business of who asks
		return queue.ReasonUnavailable
	default:
		return reason
	}
}

func statusOf(reason queue.Reason, err error) int {
	switch reason {
	case ReasonUnauthenticated:
		return http.StatusUnauthorized
	case ReasonDenied:
		return http.StatusForbidden
	case ReasonUnconfirmed:
		return http.StatusPreconditionRequired
	default:
		return cmp.Or(answer.Code(err), http.StatusServiceUnavailable)
	}
}

// Cause is the error of package queue or access that a problem stands for, nil for one that has none.
func (p Problem) Cause() error {
	switch p.Reason {
	case queue.ReasonFull, queue.ReasonClassFull, queue.ReasonWouldExpire:
		return &queue.FullError{
			Reason: p.Reason, Class: p.Class, Key: p.Key, Level: orZero(p.Level), Capacity: orZero(p.Capacity),
			RetryAfter: time.Duration(orZero(p.RetryAfterMS)) * time.Millisecond, Paused: p.RetryAfterMS == nil,
		}
	case answer.ReasonBusy:
		return &queue.BusyError{Class: p.Class, Waiting: orZero(p.Waiting), Out: orZero(p.Out), Dead: orZero(p.Dead)}
	default:
		return causes()[p.Reason]
	}
}

func causes() map[queue.Reason]error {
	return map[queue.Reason]error{
		queue.ReasonStoreFull:    queue.ErrUnavailable,
		queue.ReasonDraining:     queue.ErrDraining,
		queue.ReasonConflict:     queue.ErrConflict,
		queue.ReasonInvalid:      queue.ErrInvalid,
		queue.ReasonTooLarge:     queue.ErrTooLarge,
		queue.ReasonUnknownClass: queue.ErrUnknownClass,
		queue.ReasonUnavailable:  queue.ErrUnavailable,
		queue.ReasonUnknown:      queue.ErrUnknown,
		answer.ReasonNotFound:    queue.ErrNotFound,
		ReasonUnauthenticated:    access.ErrDenied,
		ReasonDenied:             access.ErrDenied,

		answer.ReasonTooManyWrong: access.ErrDenied,
		answer.ReasonCrossSite:    access.ErrDenied,
		answer.ReasonWrongHost:    queue.ErrUnavailable,
	}
}
