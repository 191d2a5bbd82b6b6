package handlers

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"time"

	"github.com/hibiken/asynq"
)

// HTTPCallType is the type of the jobs that [HTTPCall] handles.
const HTTPCallType = "http:call"

const (
	defaultTimeout     = 30 * time.Second
	defaultMaxResponse = 1 << 20
)

// HTTPOptions are the settings of an [HTTPCall]. The zero value is a good one.
type HTTPOptions struct {
	// Timeout bounds a call, its answer included, whose context has no deadline.
	// The scheduler gives each context the timeout of the job's class, which then
	// counts alone. Zero or less means 30 s.
	Timeout time.Duration

	// MaxResponse is the most bytes of an answer's body that are read, after
	// decompression. A longer answer keeps its status, so a 2xx is still done;
	// the rest of it is not read and the connection is dropped. Zero or less means
	// 1 MiB.
	MaxResponse int64

	// FreshUntil tells until when the departure behind a context is good, and
	// whether there is such a time. A call whose connection is not ready by then is
	// given back; see [HTTPCall.ProcessTask]. Nil means no check.
	FreshUntil func(context.Context) (time.Time, bool)
}

// HTTPCall is the [asynq.Handler] of the type [HTTPCallType]: each attempt sends one
// HTTP request.
//
// # Payload
//
// The payload is a JSON object with these fields, named exactly so:
//
//	url          absolute, http or https; without user and password
//	method       default GET; sent in upper case; CONNECT is refused
//	headers      object of strings; default User-Agent spout/1
//	body         string
//	body_base64  string, for bytes that are not text; not together with body
//
// An unknown or repeated field is an error, and so is a header that belongs to the
// connection: Connection, Content-Length, Expect, Host, HTTP2-Settings, Keep-Alive,
// Proxy-*, TE, Trailer, Transfer-Encoding, Upgrade. A fragment in the url is not sent.
//
// # Outcome
//
// A complete answer with a status of 2xx is done. An answer with another status is a
// [*StatusError]; redirects are not followed. An answer that breaks off, or no
// answer, is an error as well. Nothing is tried again within an attempt: the one
// exception is a reused connection that turns out to be dead before the request's
// headers were written.
//
// A payload that cannot be called and a target that is refused fail for good: those
// errors wrap [asynq.SkipRetry], the latter [ErrRefused] too. No error text of this
// handler has the query of the url in it, nor the value of a header; text that a
// service sent is shortened and stripped of what cannot be printed.
//
// # Targets
//
// Unless the class of the job says allow_private, connections are made to publicly
// routable addresses only, checked after the name was resolved. When the class lists
// hosts, only these are called: a name or an address matches an entry, in any case, on
// any port unless the entry says host:port; there are no wildcards. A proxy named
// in the environment is not used.
//
// Connections are kept for 90 s, at most 64 idle ones per host, and shared by all
// calls; HTTP/2 is used where the service offers it. All methods are safe for
// concurrent use.
type HTTPCall struct {
	timeout     time.Duration
	maxResponse int64
	freshUntil  func(context.Context) (time.Time, bool)
	public      lane
	anywhere    lane // for classes that allow private targets
}

// lane is a set of connections that are all made under the same rule.
type lane struct {
	transport *http.Transport
	left      *leftovers
}

// NewHTTPCall returns an HTTPCall. Call its CloseIdleConnections when it is no
// longer used.
func NewHTTPCall(o HTTPOptions) *HTTPCall {
	return newHTTPCall(o, newDialer(newGuard()), newDialer(nil), nil)
}

// newHTTPCall is NewHTTPCall with dialers for public and for all targets, and a
// TLS configuration, which tests replace.
func newHTTPCall(o HTTPOptions, public, anywhere dialFunc, tlsConfig *tls.Config) *HTTPCall {
	h := &HTTPCall{
		timeout:     cmp.Or(max(o.Timeout, 0), defaultTimeout),
		maxResponse: cmp.Or(min(max(o.MaxResponse, 0), math.MaxInt64-1), defaultMaxResponse),
		freshUntil:  o.FreshUntil,
		public:      lane{newTransport(public, tlsConfig), new(leftovers)},
		anywhere:    lane{newTransport(anywhere, tlsConfig), new(leftovers)},
	}
	if h.freshUntil == nil {
		h.freshUntil = func(context.Context) (time.Time, bool) { return time.Time{}, false }
	}
	return h
}

// CloseIdleConnections closes the connections that no call uses and ends the dials
// that no call waits for.
func (h *HTTPCall) CloseIdleConnections() {
	h.public.transport.CloseIdleConnections()
	h.anywhere.transport.CloseIdleConnections()
}

// ProcessTask makes the call that the payload of task describes and returns nil when
// it is done. It ends, with the cause of ctx, as soon as ctx does.
//
// When HTTPOptions.FreshUntil gives a time and the connection is not ready by then,
// nothing is sent and the error has a method GiveBack() bool that returns true. The
// connection is still made, and kept for the next attempt. If an earlier attempt left
// such a dial behind and it has failed, this attempt fails with that error instead.
// If it succeeded but the service has closed the unused connection since, this
// attempt waits for its own and goes out late, since giving back would never end.
func (h *HTTPCall) ProcessTask(ctx context.Context, task *asynq.Task) error {
	t, err := targetOf(task.Headers())
	if err != nil {
		return err
	}
	c, err := parseCall(task.Payload())
	if err != nil {
		return err
	}
	if err := t.check(c); err != nil {
		return err
	}
	until, ok := h.freshUntil(ctx)
	if !ok {
		until = time.Time{}
	} else if !time.Now().Before(until) {
		return &notReadyError{what: c.what(), host: c.addr()}
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.timeout)
		defer cancel()
	}
	if err := h.send(ctx, c, t, until); err != nil {
		return t.explain(ctx, c, err)
	}
	return nil
}

// send sends c once and reads the answer.
func (h *HTTPCall) send(ctx context.Context, c *call, t target, until time.Time) error {
	l := h.public
	if t.allowPrivate {
		l = h.anywhere
	}
	watched, s := watch(ctx, c, until, l.left)
	req, err := c.request(watched)
	if err != nil {
		_ = s.end() // nothing has begun
		return err
	}
	// Not through http.Client: it would follow redirects, and put the whole url
	// into its errors.
	resp, err := l.transport.RoundTrip(req)
	if err == nil {
		err = h.read(c, resp)
	}
	return cmp.Or(s.end(), err)
}

// read reads the answer as far as it may and judges it.
func (h *HTTPCall) read(c *call, resp *http.Response) error {
	head := &prefix{max: maxSnippet + len(c.url.RawQuery)}
	var n int64
	var err error
	if resp.StatusCode >= 200 { // a connection switched to another protocol has no end to read
		n, err = io.Copy(head, io.LimitReader(resp.Body, h.maxResponse+1))
	}
	_ = resp.Body.Close() // what could not be read is known by now
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return &StatusError{
			Method:   c.method,
			URL:      shownURL(c.url),
			Status:   resp.StatusCode,
			Location: location(resp, c.url),
			Body:     clip(printable(clip(c.mask(string(head.b)), maxSnippet)), maxSnippet),
		}
	}
	if err != nil {
		return fmt.Errorf("answered %d, but the body broke off after %d bytes: %w", resp.StatusCode, n, err)
	}
	return nil
}

// location is the host that a 3xx answer points to.
func location(resp *http.Response, from *url.URL) string {
	if resp.StatusCode < 300 || resp.StatusCode > 399 || resp.Header.Get("Location") == "" {
		return ""
	}
	to, err := from.Parse(resp.Header.Get("Location"))
	if err != nil {
		return ""
	}
	return clip(printable(to.Host), maxURL)
}

// explain makes the error of a call fit to be shown: it says which call failed and
// how, and nothing that is not for a log.
func (t target) explain(ctx context.Context, c *call, err error) error {
	if _, ok := errors.AsType[*StatusError](err); ok {
		return err
	}
	if _, ok := errors.AsType[*notReadyError](err); ok {
		return err
	}
	if r, ok := asRefusal(err); ok {
		return t.refused(c, r)
	}
	causes := []error{err}
	if end := ctx.Err(); end != nil {
		err = fmt.Errorf("ended before there was a complete answer: %w", context.Cause(ctx))
		causes = append(causes, end, context.Cause(ctx))
	}
	text := clip(printable(c.mask(fmt.Sprintf("%s: %s", c.what(), err))), maxText)
	return &wrapped{text: text, causes: causes}
}

// prefix keeps the first max bytes written to it and takes the rest for nothing.
type prefix struct {
	b   []byte
	max int
}

func (p *prefix) Write(b []byte) (int, error) {
	p.b = append(p.b, b[:min(len(b), p.max-len(p.b))]...)
	return len(b), nil
}
