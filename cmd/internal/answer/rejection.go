// Package answer writes what a command answers: receipts and rejections in the shapes that every door of the service
// uses, lists as tables for people or JSON for programs, and the exit status that goes with each.
package answer

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/cmd/internal/exit"
	"github.com/spout-queue/spout/queue"
)

// Reasons that only commands of an operator give.
const (
	ReasonNotFound queue.Reason = "not_found" // no such job
	ReasonBusy     queue.Reason = "busy"      // the class still has jobs
	ReasonDenied   queue.Reason = "denied"    // Redis, or the API, does not let us in
	ReasonUnfit    queue.Reason = "unfit"     // Redis, or its data, and this program do not fit together
)

// Reasons that only the HTTP API gives.
const (
	ReasonUnauthenticated queue.Reason = "unauthenticated" // a token is missing or wrong
	ReasonTooManyWrong    queue.Reason = "too_many_wrong"  // and many were before
	ReasonCrossSite       queue.Reason = "cross_site"
	ReasonWrongHost       queue.Reason = "wrong_host"
	ReasonUnconfirmed     queue.Reason = "unconfirmed" // what cannot be undone is asked for twice
	ReasonNotAllowed      queue.Reason = "method_not_allowed"
	ReasonNotAcceptable   queue.Reason = "not_acceptable"
	ReasonUnsupported     queue.Reason = "unsupported_media_type"
)

// reasoned are errors that know their reason, such as those that came through the API.
type reasoned interface {
	error
	Reason() queue.Reason
}

// Reason is [queue.ReasonOf] and the reasons of this package. It is empty for an error that is no answer, such as a wrong
// command line.
func Reason(err error) queue.Reason {
	own, ofExit := errors.AsType[*exit.Error](err)
	_, isBusy := errors.AsType[*queue.BusyError](err)
	told, isTold := errors.AsType[reasoned](err)
	switch {
	case ofExit && own.Status != exit.Data, errors.Is(err, context.Canceled) && !errors.Is(err, queue.ErrUnknown):
		return ""
	case ofExit:
		return queue.ReasonInvalid
	case isTold:
		return told.Reason()
	case errors.Is(err, queue.ErrNotFound):
		return ReasonNotFound
	case isBusy:
		return ReasonBusy
	case redis.IsAuthError(err), redis.IsPermissionError(err):
		return ReasonDenied
	case errors.Is(err, queue.ErrUnfit), errors.Is(err, queue.ErrSchema):
		return ReasonUnfit
	}
	return queue.ReasonOf(err)
}

// Exit is the exit status of an error.
func Exit(err error) int {
	if err == nil {
		return exit.OK
	}
	if own, ok := errors.AsType[*exit.Error](err); ok {
		return own.Status
	}
	switch Reason(err) {
	case "":
		return exit.Interrupted
	case queue.ReasonFull, queue.ReasonClassFull, queue.ReasonStoreFull, queue.ReasonWouldExpire, queue.ReasonDraining, ReasonBusy, ReasonUnconfirmed:
		return exit.TryLater
	case queue.ReasonConflict, queue.ReasonInvalid, queue.ReasonTooLarge, queue.ReasonUnknownClass, ReasonNotFound:
		return exit.Data
	case queue.ReasonUnavailable, queue.ReasonUnknown, ReasonWrongHost:
		return exit.Unavailable
	case ReasonDenied, ReasonUnauthenticated, ReasonTooManyWrong, ReasonCrossSite:
		return exit.Denied
	case ReasonUnfit, ReasonNotAllowed, ReasonNotAcceptable, ReasonUnsupported: // this program and its server are of different builds
		return exit.Config
	}
	return exit.Broken
}

// Rejection says no in JSON.
type Rejection struct{ Err error }

// MarshalJSON writes the shape that every door of the service uses. A refusal for lack of room has the time to come back,
// 0 included, unless the bucket is paused: then nobody can tell.
func (r Rejection) MarshalJSON() ([]byte, error) {
	shape := struct {
		Status       string       `json:"status"`
		Reason       queue.Reason `json:"reason"`
		RetryAfterMS *int64       `json:"retry_after_ms,omitempty"`
		Level        *int         `json:"level,omitempty"`
		Capacity     *int         `json:"capacity,omitempty"`
		Detail       string       `json:"detail"`
	}{Status: "rejected", Reason: Reason(r.Err), Detail: r.Err.Error()}
	if full, ok := errors.AsType[*queue.FullError](r.Err); ok {
		shape.Level, shape.Capacity = &full.Level, &full.Capacity
		if !full.Paused {
			shape.RetryAfterMS = new(queue.Millis(full.RetryAfter))
		}
	}
	return json.Marshal(shape)
}

// OfLine is the answer to one line of a file: the receipt's or rejection's object with the line's number in front.
type OfLine struct {
	Line   int
	Answer json.Marshaler
}

// MarshalJSON puts the number into the answer's object.
func (o OfLine) MarshalJSON() ([]byte, error) {
	object, err := o.Answer.MarshalJSON()
	if err != nil {
		return nil, err
	}
	line, err := json.Marshal(struct {
		Line int `json:"line"`
	}{o.Line})
	if err != nil {
		return nil, err
	}
	return append(append(line[:len(line)-1], ','), object[1:]...), nil
}
