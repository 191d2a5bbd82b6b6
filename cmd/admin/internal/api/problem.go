package api

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/meter"
	"github.com/spout-queue/spout/queue"
)

// problem says no: a problem document of RFC 9457 and the headers that go with it.
type problem struct {
	wire.Problem
	header http.Header
}

// problemType begins the type of every problem. A urn, since a server of ours is found under any name.
const problemType = "urn:spout:problem:"

// Reasons that only this door gives.
const (
	reasonNotAllowed                 = answer.ReasonNotAllowed
	reasonNotAcceptable              = answer.ReasonNotAcceptable
	reasonUnsupported                = answer.ReasonUnsupported
	reasonInternal      queue.Reason = "internal"
	// Of the console, which says them before the API is asked.
	reasonTooManyWrong = answer.ReasonTooManyWrong
	reasonWrongHost    = answer.ReasonWrongHost
	reasonCrossSite    = answer.ReasonCrossSite
)

// kind is what all problems with one reason have in common.
type kind struct {
	reason queue.Reason
	status int
	title  string
	advice string // for the page about it
}

// kinds are all of them, in the order in which they are shown.
func kinds() []kind {
	return []kind{
		{queue.ReasonFull, 429, "The bucket is full", "Come back after Retry-After: alone, you are admitted then. Producers that are refused together are told different times."},
		{queue.ReasonClassFull, 429, "The class has as many jobs as it may", "Its max_jobs is reached, over all keys. Come back after Retry-After."},
		{queue.ReasonWouldExpire, 429, "The job would wait longer than it may", "Its max_wait, or that of its class, is shorter than the line. Come back after Retry-After, or let it wait longer."},
		{queue.ReasonStoreFull, 503, "The store is nearly full", "Redis has used its share of memory for jobs. What waits still leaves; come back later."},
		{queue.ReasonDraining, 409, "The bucket admits nothing", "An operator drains it, or its class, until it is resumed."},
		{queue.ReasonConflict, 409, "It is not what you take it for", "The id belongs to a job with another type or payload; or the class has another version (412, when If-Match or If-None-Match said so)."},
		{queue.ReasonInvalid, 400, "The request is not valid", "The detail says what is wrong. Nothing was changed."},
		{queue.ReasonTooLarge, 413, "It is too large", "The payload is above the max_payload of its class, or the body above what is read. Nothing was changed."},
		{queue.ReasonUnknownClass, 404, "There is no such class", "It was never made, was removed, or is not for you to see."},
		{answer.ReasonNotFound, 404, "There is no such thing", "There never was, or it has ended and nothing is kept of it."},
		{answer.ReasonBusy, 409, "The class still has jobs", "Wait until they are done, or send purge=true to drop those that wait and the dead ones."},
		{queue.ReasonUnavailable, 503, "Redis cannot be reached", "Nothing was done. Come back later."},
		{queue.ReasonUnknown, 504, "Nobody knows what became of it", "The request was sent to Redis and no reply came. Repeat the submission with the id that the problem has: it stays one job."},
		{wire.ReasonDenied, 403, "You may not do that", "It takes another role."},
		{wire.ReasonUnauthenticated, 401, "Say who you are", "Send Authorization: Bearer with a token."},
		{reasonTooManyWrong, 429, "Too many wrong credentials", "They came from where you are, or from many places at once. Right ones always pass; others may be tried after Retry-After."},
		{reasonCrossSite, 403, "A page of another site asked", "Browsers may change something from the pages of this server only. Programs that are no browsers send neither Origin nor Sec-Fetch-Site."},
		{reasonWrongHost, 421, "This server has another name", "The request was for a host that it does not know itself by. Whoever runs it adds names with --host."},
		{wire.ReasonUnconfirmed, 428, "This drops jobs: say so", "Send the number of jobs in confirm as a query parameter to agree. When more are there by then, you are asked again."},
		{reasonNotAllowed, 405, "The method is not for this", "Allow lists those that are."},
		{reasonNotAcceptable, 406, "Your Accept leaves out all that there is", "Send Accept: application/json, or none."},
		{reasonUnsupported, 415, "The body is of another type", "Send Content-Type: application/json."},
		{reasonInternal, 500, "Something is broken here", "The log of the server says what."},
	}
}

func kindOf(reason queue.Reason) kind {
	for _, k := range kinds() {
		if k.reason == reason {
			return k
		}
	}
	return kindOf(reasonInternal)
}

// Title of the problems with a reason, for those who refuse before the API is asked.
func Title(reason string) string { return kindOf(queue.Reason(reason)).title }

// newProblem returns a problem of a kind.
func newProblem(reason queue.Reason, detail string) *problem {
	k := kindOf(reason)
	return &problem{
		Problem: wire.Problem{Type: problemType + string(k.reason), Title: k.title, Status: k.status, Detail: detail, Reason: k.reason},
		header:  http.Header{},
	}
}

// problemOf says an error as a problem.
func problemOf(err error) *problem {
	if own, ok := errors.AsType[*problem](err); ok {
		return own
	}
	if errors.Is(err, meter.ErrUnavailable) {
		return newProblem(queue.ReasonUnavailable, "meter: unavailable: Redis cannot be asked; nobody knows whether the question counted")
	}
	p := &problem{Problem: wire.FromProblem(wire.Public(err)), header: http.Header{}}
	p.Type, p.Title = problemType+string(p.Reason), kindOf(p.Reason).title
	if full, ok := errors.AsType[*queue.FullError](err); ok && !full.Paused {
		p.retryAfter(full.RetryAfter)
	}
	return p
}

// retryAfter says when to come back, in the body to the millisecond and in the header to the second.
func (p *problem) retryAfter(after time.Duration) {
	p.RetryAfterMS = new(queue.Millis(after))
	p.header.Set("Retry-After", strconv.FormatInt(seconds(after), 10))
}

// seconds rounds up: too early would be refused.
func seconds(d time.Duration) int64 {
	return int64((max(d, 0) + time.Second - 1) / time.Second)
}

// Error is the detail.
func (p *problem) Error() string { return p.Detail }

// GetStatus is the status, for huma.
func (p *problem) GetStatus() int { return p.Status }

// GetHeaders are the headers, for huma.
func (p *problem) GetHeaders() http.Header { return p.header }

// ContentType is that of problem documents, for huma.
func (p *problem) ContentType(string) string { return "application/problem+json" }

// write answers with the problem.
func (p *problem) write(w http.ResponseWriter) {
	h := w.Header()
	maps.Copy(h, p.header)
	body, err := json.Marshal(p.Problem)
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	send(w, p.Status, "application/problem+json", body)
}

// send answers with a body.
func send(w http.ResponseWriter, status int, contentType string, body []byte) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(status)
	_, _ = w.Write(body) // a client that is gone reads nothing
}

// sendJSON answers with a thing. Payloads are compared byte for byte, so nothing in them is escaped.
func sendJSON(w http.ResponseWriter, status int, thing any) error {
	var body bytes.Buffer
	encoder := json.NewEncoder(&body)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(thing); err != nil {
		return err
	}
	send(w, status, jsonType, body.Bytes())
	return nil
}

// asProblem says what huma found wrong in our words.
func asProblem(ctx huma.Context, _ string, v any) (any, error) {
	model, ok := v.(*huma.ErrorModel)
	if !ok {
		return v, nil
	}
	reason := queue.ReasonInvalid
	switch model.Status {
	case http.StatusRequestEntityTooLarge:
		reason = queue.ReasonTooLarge
	case http.StatusInternalServerError:
		return newProblem(reasonInternal, "the server could not answer; its log says why").Problem, nil
	}
	details := []string{}
	for _, e := range model.Errors {
		details = append(details, e.Location+": "+e.Message)
	}
	return newProblem(reason, cmp.Or(strings.Join(details, "; "), model.Detail)).Problem, nil
}

// lenient lets what huma calls unprocessable be what every door calls invalid.
type lenient struct{ inner }

type inner huma.Context

// SetStatus writes 400 for 422.
func (c lenient) SetStatus(status int) {
	if status == http.StatusUnprocessableEntity {
		status = http.StatusBadRequest
	}
	c.inner.SetStatus(status)
}

// Unwrap is the context of the adapter.
func (c lenient) Unwrap() huma.Context { return c.inner }
