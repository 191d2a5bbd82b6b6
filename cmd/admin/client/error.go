package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// Error is what the server answered in place of what was asked for. It unwraps to the error of package queue or access that
// it stands for: [queue.ErrUnknownClass], a [*queue.FullError], [access.ErrDenied] and so on.
type Error struct {
	// Status of HTTP.
	Status int
	// Type and Title name the kind of problem, Detail says what happened.
	Type, Title, Detail string
	// RetryAfter is when the same request could succeed, -1 when the server does not say.
	RetryAfter time.Duration

	problem wire.Problem
	cause   error
}

func (e *Error) Error() string { return e.Detail }

// Unwrap is the error that it stands for, nil when there is none.
func (e *Error) Unwrap() error { return e.cause }

// Reason is the word that every door of the service uses for it.
func (e *Error) Reason() queue.Reason { return e.problem.Reason }

// fromProblem is the error of a problem.
func fromProblem(p wire.Problem) *Error {
	e := &Error{Status: p.Status, Type: p.Type, Title: p.Title, Detail: p.Detail, RetryAfter: -1, problem: p, cause: p.Cause()}
	if p.RetryAfterMS != nil {
		e.RetryAfter = time.Duration(*p.RetryAfterMS) * time.Millisecond
	}
	if e.Detail == "" {
		e.Detail = p.Title
	}
	return e
}

const errorMost = 1 << 20 // bytes of a problem that are read

// readError reads the answer to a call that failed.
func readError(ask *call, reply *http.Response) *Error {
	var p wire.Problem
	kind, _, _ := mime.ParseMediaType(reply.Header.Get("Content-Type"))
	body, err := io.ReadAll(io.LimitReader(reply.Body, errorMost))
	if err != nil || kind != "application/problem+json" || json.Unmarshal(body, &p) != nil || p.Reason == "" {
		p = stranger(ask, reply)
	}
	p.Status = reply.StatusCode
	e := fromProblem(p)
	if seconds, err := strconv.Atoi(reply.Header.Get("Retry-After")); err == nil && e.RetryAfter < 0 {
		e.RetryAfter = time.Duration(seconds) * time.Second
	}
	return e
}

// stranger is the problem of an answer that is none of the API's, as of a proxy before it.
func stranger(ask *call, reply *http.Response) wire.Problem {
	p := wire.Problem{
		Reason: queue.ReasonUnavailable, Title: http.StatusText(reply.StatusCode),
		Detail: fmt.Sprintf("%s %s: %s, which is no answer of the API; is this its address?", ask.method, reply.Request.URL.Path, reply.Status),
	}
	switch code := reply.StatusCode; {
	case code == http.StatusUnauthorized:
		p.Reason = wire.ReasonUnauthenticated
	case code == http.StatusForbidden:
		p.Reason = wire.ReasonDenied
	case code >= 300 && code < 400:
		p.Detail = fmt.Sprintf("%s %s: %s to %s; give that as the address, if you trust it",
			ask.method, reply.Request.URL.Path, reply.Status, reply.Header.Get("Location"))
	case code == http.StatusBadGateway || code == http.StatusGatewayTimeout:
		p.Reason = queue.ReasonOf(ask.without())
	}
	return p
}

// transportError says of a call without an answer whether it can have been carried out.
func transportError(ask *call, err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	kind := ask.without()
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" { // nothing was sent
		kind = queue.ErrUnavailable
	}
	if ask.id != "" && errors.Is(kind, queue.ErrUnknown) {
		return fmt.Errorf("%w: %s: no reply from the API; submit it again with id %q: %w", kind, ask.what, ask.id, err)
	}
	return fmt.Errorf("%w: %s: no reply from the API: %w", kind, ask.what, err)
}
