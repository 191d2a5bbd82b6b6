package handlers

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
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

	// Observe is told of each request before it is sent and may add headers to it, such
	// as traceparent. What it returns is told of the answer, whose body it must leave
	// alone, or of the error. Nil observes nothing.
	Observe func(*http.Request) func(*http.Response, error)

	// Secrets is where {{secret:name}} in a header is looked up.
	Secrets Secrets

	// ConnectTimeout bounds a dial with its name look-up, and then the TLS handshake.
	// Zero or less means 10 s each.
	ConnectTimeout time.Duration

	// IdleTimeout is how long a connection is kept that no call uses. Zero or less means
	// 90 s.
	IdleTimeout time.Duration

	// Proxy is the proxy of a request, nil for none; [http.ProxyFromEnvironment] is the
	// usual one. It is connected to whatever its address is; what a name resolves to
	// only it can see, so that it has to keep private targets off. Nil means no proxy.
	Proxy func(*http.Request) (*url.URL, error)
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
//	accept       "2xx", the default, or "any": then any complete answer is done
//	callback     who is to hear of the end; only within [Callbacks]
//
// An unknown or repeated field is an error, and so is a header that belongs to the
// connection: Connection, Content-Length, Expect, Host, HTTP2-Settings, Keep-Alive,
// Proxy-*, TE, Trailer, Transfer-Encoding, Upgrade. A fragment in the url is not sent.
// [CheckCall] finds all this before a job is submitted.
//
// A header may hold {{secret:name}}, which is replaced with a value that only workers
// know, if the class lists the secret and its hosts; see [Secrets]. Idempotency-Key
// is the ref of the job, the same on every attempt, unless the job brings one;
// Spout-Attempt is the number of the attempt. A class can be anonymous: then neither
// is added.
//
// # Outcome
//
// A complete answer with a status of 2xx is done. An answer with another status is a
// [*StatusError]. An answer that breaks off, or no answer, is an error as well. Nothing is
// tried again within an attempt: the one exception is a reused connection that turns out
// to be dead before the request's headers were written. Redirects are followed as far as
// the class says, by default not at all; each one's target is checked like the first,
// and another origin gets no header that could be a credential.
//
// What is done leaves a result of at most 64 KiB of JSON: status, headers (up to 8 KiB,
// without Set-Cookie and what belongs to the connection) and the first 40 KiB of the
// body:
//
//	{"status":200,"headers":{"Content-Type":["text/plain"]},"body":"…","truncated":true}
//
// A body that is no text is in body_base64 instead.
//
// A payload that cannot be called and a target that is refused fail for good: those
// errors wrap [asynq.SkipRetry], the latter [ErrRefused] too. No error text of this
// handler has the query of the url in it, nor the value of a header, nor an address
// that the job did not name; text that a service sent is shortened and stripped of
// what cannot be printed.
//
// # Holds
//
// An answer of 429 is a [*HoldError], and so are 503 and 403 that say until when: by
// Retry-After, RateLimit, X-RateLimit-* and the like. The hold is as long as the service
// asks for, at most the class's max_hold, and up to a tenth longer, 5 s at most, so that
// not all come back together. A 429 that does not say how long holds for 1 s, and for
// twice as long each time it is repeated, up to 1 min.
//
// When five calls in a row to a host fail (no answer, 502, 503, 504), its breaker opens for
// 10 s: attempts to call it are held until then, and then one of them tries.
//
// # Targets
//
// Unless the class of the job says allow_private, connections are made to publicly
// routable addresses only, checked after the name was resolved. When the class lists
// hosts, only these are called: a name or an address matches an entry, in any case, on
// any port unless the entry says host:port; there are no wildcards. Schemes and ports can
// be listed likewise. A proxy named in the environment is not used, unless
// [HTTPOptions] say so.
//
// Connections are kept for 90 s, at most 64 idle ones per host, and shared by all
// calls; HTTP/2 is used where the service offers it. All methods are safe for
// concurrent use.
type HTTPCall struct {
	timeout     time.Duration
	maxResponse int64
	freshUntil  func(context.Context) (time.Time, bool)
	observe     func(*http.Request) func(*http.Response, error)
	secrets     Secrets
	breakers    breakers
	streaks     streaks
	public      lane
	anywhere    lane // for classes that allow private targets
}

// NewHTTPCall returns an HTTPCall. Call its CloseIdleConnections when it is no
// longer used.
func NewHTTPCall(o HTTPOptions) *HTTPCall {
	return newHTTPCall(o, newDialer(newGuard(), nil), newDialer(nil, nil), nil)
}

// newHTTPCall is NewHTTPCall with dialers for public and for all targets, and a
// TLS configuration, which tests replace.
func newHTTPCall(o HTTPOptions, public, anywhere dialFunc, tlsConfig *tls.Config) *HTTPCall {
	h := &HTTPCall{
		timeout:     cmp.Or(max(o.Timeout, 0), defaultTimeout),
		maxResponse: cmp.Or(min(max(o.MaxResponse, 0), math.MaxInt64-1), defaultMaxResponse),
		freshUntil:  o.FreshUntil,
		observe:     o.Observe,
		secrets:     o.Secrets,
		anywhere:    newLane(o, anywhere, o.Proxy, tlsConfig),
	}
	if o.Proxy == nil {
		h.public = newLane(o, public, nil, tlsConfig)
	} else {
		p := &proxies{find: o.Proxy, guard: newGuard()}
		h.public = newLane(o, p.dial(public, anywhere), p.of, tlsConfig)
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
	if c.back && !listened(ctx) {
		return badPayload(errors.New(`field "callback": this worker sends none; its http:call must be within handlers.NewCallbacks`))
	}
	if err := t.check(c); err != nil {
		return err
	}
	if err := t.resolve(c, h.secrets); err != nil {
		return err
	}
	c.identify(t)
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
	c, a, err := h.follow(ctx, c, t, until)
	if err != nil {
		return err
	}
	if err := h.judge(ctx, t, c, a); err != nil {
		return err
	}
	result := a.result(c)
	tellResult(ctx, result)
	if w := task.ResultWriter(); w != nil { // tasks that no server made have none
		_, err = w.Write(result)
	}
	return err
}

// follow makes the call, and those that it is redirected to, and returns the answer that counts. Its errors are fit to be
// shown.
func (h *HTTPCall) follow(ctx context.Context, c *call, t target, until time.Time) (*call, *answer, error) {
	for hops := 0; ; hops++ {
		a, err := h.once(ctx, c, t, until)
		if err != nil {
			return nil, nil, t.explain(ctx, c, err)
		}
		if hops >= t.redirects {
			return c, a, nil
		}
		next, err := c.redirected(a)
		if err != nil {
			return nil, nil, err
		}
		if next == nil {
			return c, a, nil
		}
		if err := t.check(next); err != nil {
			return nil, nil, err
		}
		c, until = next, time.Time{} // the attempt has started
	}
}

// once sends c once, if the breaker of its host lets it.
func (h *HTTPCall) once(ctx context.Context, c *call, t target, until time.Time) (*answer, error) {
	if wait, ok := h.breakers.enter(c.addr()); !ok {
		hold := t.hold(openError(c), wait)
		hold.Class = false // it is about a host
		return nil, hold
	}
	a, err := h.send(ctx, c, t, until)
	h.breakers.leave(c.addr(), healthOf(ctx, a, err))
	return a, err
}

// send sends c and reads the answer.
func (h *HTTPCall) send(ctx context.Context, c *call, t target, until time.Time) (*answer, error) {
	l := h.public
	if t.allowPrivate {
		l = h.anywhere
	}
	watched, s := watch(ctx, c, until, l.left)
	req, err := c.request(watched)
	if err != nil {
		_ = s.end() // nothing has begun
		return nil, err
	}
	// Not through http.Client: it would follow redirects on its own, and put the
	// whole url into its errors.
	var a *answer
	answered := func(*http.Response, error) {}
	if h.observe != nil && !t.anonymous {
		answered = h.observe(req) //nolint:bodyclose // it is told of the answer below, and leaves the body to us
	}
	resp, err := l.transport.RoundTrip(req)
	answered(resp, err)
	if err == nil {
		a = readAnswer(c, resp, h.maxResponse)
	}
	if stopped := s.end(); stopped != nil {
		err = stopped
	}
	return a, err
}

// judge decides what an answer means for the job: nil is done.
func (h *HTTPCall) judge(ctx context.Context, t target, c *call, a *answer) error {
	if wait, by, asks := h.heard(t, a); asks {
		return t.hold(fmt.Errorf("%w; %s", a.statusError(c), by), wait)
	}
	if !c.any && (a.status < 200 || a.status > 299) || a.status < 200 {
		return a.statusError(c)
	}
	if a.err != nil {
		return t.explain(ctx, c, a.broken())
	}
	return nil
}

// explain makes the error of a call fit to be shown: it says which call failed and
// how, and nothing that is not for a log.
func (t target) explain(ctx context.Context, c *call, err error) error {
	if _, ok := errors.AsType[*HoldError](err); ok {
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
	text := hideAddresses(c.mask(fmt.Sprintf("%s: %s", c.what(), err)), c.url.Hostname())
	text = clip(printable(text), maxText)
	return &wrapped{text: text, causes: causes}
}
