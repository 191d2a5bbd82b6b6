package httpmeter

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spout-queue/spout/meter"
)

// Quota is a limit on the requests to a service.
type Quota struct {
	// Name of the quota in the fields and the problem document: 1 to 64 printable ASCII characters, different for each
	// quota of a service. Defaults to "default".
	Name string
	// Meter decides. Required.
	Meter *meter.Meter
	// Key names what a request counts against: a tenant, a user, a route. Required: only the program knows whom to
	// trust for it. [ClientAddr] is one for addresses. A key that the meter does not take is answered with 400.
	Key func(*http.Request) string
	// Cost of a request, 0 or more units. Defaults to 1.
	Cost func(*http.Request) int64
	// Unit is what is counted, in the words of the draft: "requests", "content-bytes" or "concurrent-requests". It is only
	// told to clients. Empty, the default, is left out, which means requests.
	Unit string
}

// Options of [Middleware]. The zero value is a good one.
type Options struct {
	// NoFields leaves the RateLimit and RateLimit-Policy fields out. A service whose meters only try out a limit in
	// shadow mode sets it, since clients heed the fields.
	NoFields bool
	// XRateLimit adds the older X-RateLimit-Limit, -Remaining and -Reset of the quota that has the least left. Reset is in
	// seconds since 1970-01-01 UTC, as GitHub's is.
	XRateLimit bool
	// Report, when set, is called before the answer for each quota that refused, would have refused (Decision.Shadow),
	// was decided while the store was away (Decision.Away), or could not be decided.
	Report func(*http.Request, Report)
}

// Report is what happened to a request at one quota.
type Report struct {
	// Quota is its name.
	Quota string
	// Decision of its meter; zero when Err is set.
	Decision meter.Decision
	// Err is why the meter could not decide; it is the same for all quotas of a request.
	Err error
}

// ErrInvalid is wrapped by the errors of [Middleware]: a quota is out of range.
var ErrInvalid = errors.New("httpmeter: invalid")

// Middleware returns a function that puts the quotas in front of a handler. Several are decided at once, all or nothing, by
// [meter.CheckAll], so their meters must have the same store, and on a Redis cluster their keys a common tag. The error
// wraps [ErrInvalid].
//
// A request that conforms reaches the handler, with the RateLimit fields already in the header of its answer. One that does
// not is answered by the middleware, with nothing taken:
//
//	429  a quota refused: Retry-After in whole seconds, rounded up, at least 1; none when the cost can never conform
//	400  the meter does not take the key or the cost ([meter.ErrInvalid])
//	503  nothing could be decided: the store is away and the meters fail closed, or a memory store is full
//
// A meter that fails open, or to a local share, decides as it says; its RateLimit field is left out then. What a shadow meter
// would have refused passes.
//
// The body is a problem document; that of a 429 has the type quota-exceeded of the draft, which names the quotas that
// refused in "violated-policies". The body of the request is not read.
func Middleware(o Options, quotas ...Quota) (func(http.Handler) http.Handler, error) {
	g := gate{options: o}
	seen := make(map[string]bool)
	for _, q := range quotas {
		if q.Name == "" {
			q.Name = "default"
		}
		switch {
		case len(q.Name) > 64 || !printable(q.Name) || !printable(q.Unit):
			return nil, fmt.Errorf("%w: quota %.64q: name and unit are printable ASCII, the name at most 64 characters", ErrInvalid, q.Name)
		case seen[q.Name]:
			return nil, fmt.Errorf("%w: two quotas are named %q", ErrInvalid, q.Name)
		case q.Meter == nil:
			return nil, fmt.Errorf("%w: quota %q has no meter", ErrInvalid, q.Name)
		case q.Key == nil:
			return nil, fmt.Errorf("%w: quota %q has no key", ErrInvalid, q.Name)
		}
		seen[q.Name] = true
		l := q.Meter.Limit()
		common := gcd(l.Period.Microseconds(), l.Count)
		g.quotas = append(g.quotas, quota{
			Quota: q, limit: l, unit: l.Period.Microseconds() / common, drain: l.Count / common, policy: policyField(q),
		})
	}
	if len(g.quotas) == 0 {
		return nil, fmt.Errorf("%w: there is no quota", ErrInvalid)
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if g.pass(w, r) {
				next.ServeHTTP(w, r)
			}
		})
	}, nil
}

// gate is the quotas of a service.
type gate struct {
	options Options
	quotas  []quota
}

type quota struct {
	Quota
	limit       meter.Limit
	unit, drain int64  // the period in µs and the count, in lowest terms: capacity * unit is below 2^53 (meter.New)
	policy      string // its item of RateLimit-Policy
}

// pass decides a request. It answers those that do not pass.
func (g *gate) pass(w http.ResponseWriter, r *http.Request) bool {
	all, err := g.decide(r)
	g.report(r, all, err)
	if err != nil {
		g.fail(w, err)
		return false
	}
	g.fields(w.Header(), all)
	if all.Conform {
		return true
	}
	g.refuse(w, all)
	return false
}

// decide asks all meters, in one call.
func (g *gate) decide(r *http.Request) (meter.Decisions, error) {
	if len(g.quotas) == 1 { // the only call that denial caches and leases answer
		q := &g.quotas[0]
		d, err := q.Meter.Check(r.Context(), q.Key(r), q.cost(r))
		all := meter.Decisions{Conform: d.Conform, Each: []meter.Decision{d}, RetryAfter: d.RetryAfter, Never: d.Never}
		if !d.Conform {
			all.Refused = []int{0}
		}
		return all, err
	}
	claims := make([]meter.Claim, len(g.quotas))
	for i := range g.quotas {
		q := &g.quotas[i]
		claims[i] = meter.Claim{Meter: q.Meter, Key: q.Key(r), Cost: q.cost(r)}
	}
	return meter.CheckAll(r.Context(), claims...)
}

func (q *quota) cost(r *http.Request) int64 {
	if q.Cost == nil {
		return 1
	}
	return q.Cost(r)
}

func (g *gate) report(r *http.Request, all meter.Decisions, err error) {
	if g.options.Report == nil {
		return
	}
	for i := range g.quotas {
		switch {
		case err != nil:
			g.options.Report(r, Report{Quota: g.quotas[i].Name, Err: err})
		case !all.Each[i].Conform || all.Each[i].Shadow || all.Each[i].Away:
			g.options.Report(r, Report{Quota: g.quotas[i].Name, Decision: all.Each[i]})
		}
	}
}

// fields tells the client what is left. Nested middlewares each add their items: the fields are lists.
func (g *gate) fields(h http.Header, all meter.Decisions) {
	least := -1
	for i := range g.quotas {
		d := all.Each[i]
		if !g.options.NoFields {
			h.Add("RateLimit-Policy", g.quotas[i].policy)
		}
		if d.Away {
			continue // it knows nothing of the others who share the limit
		}
		if !g.options.NoFields {
			h.Add("RateLimit", limitField(g.quotas[i].Name, d.Remaining, g.quotas[i].window(d)))
		}
		if least < 0 || d.Remaining < all.Each[least].Remaining {
			least = i
		}
	}
	if g.options.XRateLimit && least >= 0 {
		d := all.Each[least]
		xFields(h, d.Limit, d.Remaining, time.Now().Add(g.quotas[least].window(d)))
	}
}

// window is the draft's effective window: how long the client can use no more than what remains. It ends when the
// remaining grows. For sliding windows that moment is not known, and the time until they are as new, which is longer, stands
// for it. It never ends after Retry-After.
func (q *quota) window(d meter.Decision) time.Duration {
	if !d.Conform && d.Remaining == 0 && d.RetryAfter > 0 {
		return d.RetryAfter
	}
	window := d.ResetAfter
	if full := q.limit.Capacity; bucket(q.limit) && d.Remaining < full {
		rest := (full - d.Remaining - 1) * q.unit / q.drain // what is left to drain once one more fits
		window -= time.Duration(rest) * time.Microsecond
	}
	if !d.Conform && d.RetryAfter > 0 {
		window = min(window, d.RetryAfter)
	}
	return max(window, 0)
}

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

func bucket(l meter.Limit) bool {
	switch l.Algorithm {
	case meter.FixedWindow, meter.SlidingLog, meter.SlidingCounter:
		return false
	default:
		return true
	}
}

// refuse answers 429.
func (g *gate) refuse(w http.ResponseWriter, all meter.Decisions) {
	p := problem{Type: quotaExceeded, Title: "Request cannot be satisfied as assigned quota has been exceeded", Status: http.StatusTooManyRequests}
	for _, i := range all.Refused {
		p.Violated = append(p.Violated, g.quotas[i].Name)
	}
	if all.Never {
		p.Detail = "This request costs more than the quota can ever hold."
	} else {
		after := max(seconds(all.RetryAfter), 1)
		p.Detail = fmt.Sprintf("Try again in %d s.", after)
		w.Header().Set("Retry-After", fmt.Sprint(after))
	}
	p.write(w)
}

// fail answers what could not be decided. What was wrong is for the report, not for the client.
func (g *gate) fail(w http.ResponseWriter, err error) {
	p := problem{Type: "about:blank", Status: http.StatusServiceUnavailable}
	switch {
	case errors.Is(err, meter.ErrInvalid):
		p.Status, p.Detail = http.StatusBadRequest, "The request cannot be counted against its quota."
	case errors.Is(err, context.Canceled): // nobody is there to read it
	default:
		p.Detail = "The quota of the request cannot be checked now."
	}
	p.Title = http.StatusText(p.Status)
	p.write(w)
}
