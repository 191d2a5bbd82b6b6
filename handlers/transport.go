package handlers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"time"
)

// Transport is an [http.RoundTripper] that sends each request through a bucket: as a
// job of the type [HTTPCallType], at the bucket's rate, by whichever worker drains it.
// The response is the called service's. An existing client is smoothed with one line:
//
//	client.Transport = &handlers.Transport{Submitter: submitter, Class: "github-api"}
//
// The class needs a retention of some seconds, for which a result can be read: without
// one, a call that ends before its caller begins to wait for it has no response. Its
// retry says what happens to a call without an answer; set max_attempts to 1 where a
// request must not be sent twice. An answer of any status is a response, as it is for
// any http.RoundTripper, but 429 and 503 close the bucket and are tried again when the
// service said so.
//
// # Time
//
// A request waits in line until its bucket lets it out, so give it a context or the
// client a Timeout. When the deadline is before the estimated start, the request is
// refused at once and nothing is sent. A request whose context ends is cancelled: it
// never departs, or its connection is closed. RoundTrip returns within a second of that.
//
// # Errors
//
// No room in the bucket is a [*RejectedError], whose RetryAfter tells when to come back.
// An error for lack of time says so as in [net.Error], by Timeout, and wraps
// [context.DeadlineExceeded]. A job that ended otherwise than done is an [*EndedError].
//
// # What a request may have
//
// Its body is read whole, up to MaxBody, and always closed. Headers that belong to
// the connection are left out. Trailers, upgrades and a Host other than the url's
// cannot be sent. A request with credentials in it is refused, since jobs are kept in
// Redis: put {{secret:name}} in their place, as in "Bearer {{secret:github}}", and the
// worker will fill it in.
//
// # What a response has
//
// Status, headers without Set-Cookie, and up to 40 KiB of body. Reading on in a longer
// body fails with [ErrTruncated]. Proto is always HTTP/1.1: a job does not tell it.
//
// The fields are not to be changed after the first request. All methods are safe for
// concurrent use.
type Transport struct {
	// Submitter is the way into the buckets. All of its functions are needed.
	Submitter Submitter
	// Class is the class of all requests for which ClassOf names no other.
	Class string
	// ClassOf names the class of a request; nil or "" means Class.
	ClassOf func(*http.Request) string
	// KeyOf names the key of a request's bucket; nil means its host, in lower case and
	// with the port when the url has one.
	KeyOf func(*http.Request) string
	// MaxBody is the most bytes that the body of a request may have; a larger one is an
	// error. What the class allows in its max_payload counts too, and bytes that are not
	// text take a third more there. Zero or less means 128 KiB.
	MaxBody int64
	// AllowCredentials lets requests carry credentials as they are. They are then kept
	// in Redis, with the job, and everyone who can read that can read them.
	AllowCredentials bool
}

const (
	defaultMaxBody = 128 << 10
	// grace is how long after the end of its context a request may still be with Redis:
	// to learn whether it was admitted, and to be cancelled.
	grace = time.Second
)

// EndedError is the error of a request whose job ended without a response.
type EndedError struct {
	// Ref is the job's ref.
	Ref string
	// State is dead, cancelled or dropped; or done, by a handler that wrote no response.
	State string
	// Detail is what a dead job died of, or what is wrong with the result.
	Detail string
}

func (e *EndedError) Error() string {
	text := fmt.Sprintf("job %s is %s", e.Ref, e.State)
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

// timeoutError is the error of a request that ran out of time.
type timeoutError struct{ error }

func (timeoutError) Timeout() bool     { return true }
func (timeoutError) Temporary() bool   { return true }
func (e timeoutError) Unwrap() []error { return []error{e.error, context.DeadlineExceeded} }

// RoundTrip sends req through its bucket and returns the response.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	job, err := t.job(req)
	if err != nil {
		return nil, err
	}
	ctx := req.Context()
	deadline, ok := ctx.Deadline()
	if ok {
		job.MaxWait = time.Until(deadline)
	}
	if ctx.Err() != nil || ok && job.MaxWait < time.Millisecond {
		return nil, gaveUp(ctx, "not sent")
	}
	ref, err := t.submit(ctx, job)
	if err != nil {
		return nil, notAdmitted(job, err)
	}
	ending, err := t.Submitter.Await(ctx, ref)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, t.cancel(ctx, ref)
	case err != nil:
		return nil, fmt.Errorf("wait for the answer to job %s (its class must have a retention of some seconds): %w", ref, err)
	}
	return response(req, ref, ending)
}

// notAdmitted is the error of a request without a job. http.Client looks at no error
// but the outermost for its Timeout.
func notAdmitted(job Job, err error) error {
	named := fmt.Errorf("bucket %s/%s: %w", job.Class, clip(job.Key, maxName), err)
	if slow, ok := errors.AsType[interface {
		error
		Timeout() bool
	}](err); ok && slow.Timeout() {
		return timeoutError{named}
	}
	return named
}

// submit submits a job. It stays for the answer when ctx ends meanwhile, because a job
// that nobody knows of cannot be cancelled.
func (t *Transport) submit(ctx context.Context, job Job) (ref string, err error) {
	longer, cancel := outlast(ctx)
	defer cancel()
	ref, err = t.Submitter.Submit(longer, job)
	if _, rejected := errors.AsType[*RejectedError](err); err != nil && !rejected && ctx.Err() != nil {
		return "", gaveUp(ctx, fmt.Sprintf("it may not have been admitted: %v", err))
	}
	return ref, err
}

// cancel cancels a job whose caller has given up, and returns the caller's error.
func (t *Transport) cancel(ctx context.Context, ref string) error {
	ctxCancel, done := outlast(ctx)
	defer done()
	if err := t.Submitter.Cancel(ctxCancel, ref); err != nil {
		return gaveUp(ctx, fmt.Sprintf("job %s could not be cancelled and may still be sent: %v", ref, err))
	}
	return gaveUp(ctx, fmt.Sprintf("job %s was cancelled", ref))
}

// gaveUp is the error of a request whose context has ended.
func gaveUp(ctx context.Context, what string) error {
	end, cause := ctx.Err(), context.Cause(ctx)
	if end == nil { // its timer is about to go off
		end, cause = context.DeadlineExceeded, context.DeadlineExceeded
	}
	err := error(&wrapped{text: fmt.Sprintf("%v; %s", cause, what), causes: []error{end, cause}})
	if errors.Is(end, context.DeadlineExceeded) {
		return timeoutError{err}
	}
	return err
}

// outlast returns a context that ends some time after ctx.
func outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(grace, cancel)
		context.AfterFunc(longer, func() { timer.Stop() })
	})
	return longer, func() { stop(); cancel() }
}

// job makes the job of a request and closes the request's body.
func (t *Transport) job(req *http.Request) (Job, error) {
	body, err := t.body(req)
	if err != nil {
		return Job{}, err
	}
	job := Job{Class: t.Class, ID: rand.Text(), Type: HTTPCallType}
	if t.ClassOf != nil {
		if class := t.ClassOf(req); class != "" {
			job.Class = class
		}
	}
	if job.Class == "" {
		return Job{}, errors.New("handlers: the transport has no class for this request; set Class, or ClassOf")
	}
	if job.Payload, err = t.payload(req, body); err != nil {
		return Job{}, err
	}
	if job.Key = hostKey(req); t.KeyOf != nil {
		job.Key = t.KeyOf(req)
	}
	return job, nil
}
