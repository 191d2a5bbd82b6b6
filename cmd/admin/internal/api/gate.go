package api

import (
	"bytes"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/queue"
)

// bodyMost is the longest body that is read but of a batch: the largest payload, with room for blanks and the other fields, as
// through the other doors.
const bodyMost = queue.MaxPayload + 64<<10

// router has every route twice: in the mux, behind a gate, and in the description.
type router struct {
	mux  *http.ServeMux
	base string
}

func newRouter(base string) *router {
	t := &router{mux: http.NewServeMux(), base: base}
	t.mux.HandleFunc(t.rest(), t.elsewhere)
	return t
}

// rest is the pattern of what no route is for.
func (t *router) rest() string { return t.base + "/" }

// Handle is for huma, which describes the operation itself.
func (t *router) Handle(op *huma.Operation, handle func(huma.Context)) {
	t.handle(op, func(w http.ResponseWriter, r *http.Request) { handle(lenient{humago.NewContext(op, r, w)}) })
}

// ServeHTTP answers a request. Where a path is not clean, the mux would lead to another one: of a bucket whose key is .., to its class.
func (t *router) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if at := r.URL.EscapedPath(); strings.HasPrefix(at, t.base+"/v1/") && path.Clean(at) != strings.TrimSuffix(at, "/") {
		newProblem(queue.ReasonInvalid, fmt.Sprintf("the path %s has an empty segment, or . or ..; a key goes into the query, as /bucket?key=", clip(at))).write(w)
		return
	}
	t.mux.ServeHTTP(w, r)
}

// handle adds a route behind its gate.
func (t *router) handle(op *huma.Operation, handle http.HandlerFunc) {
	g := gateOf(op)
	if takesLong(op) {
		handle = patiently(handle)
	}
	if op.Responses["304"] != nil {
		handle = tagged(handle)
	}
	t.mux.HandleFunc(op.Method+" "+t.base+op.Path, func(w http.ResponseWriter, r *http.Request) {
		if p := g.check(r); p != nil {
			p.write(w)
			return
		}
		if g.body > 0 && r.ContentLength < 0 { // of others it is known
			r.Body = http.MaxBytesReader(w, r.Body, g.body)
		}
		handle(w, r)
	})
}

// takesLong tells whether what a route does grows with the buckets and jobs of a class, or of all.
func takesLong(op *huma.Operation) bool {
	switch op.Method {
	case http.MethodPost:
		return strings.HasPrefix(op.Path, "/v1/classes/") || op.Path == "/v1/dead/purge"
	case http.MethodGet:
		return op.Path == "/v1/audit"
	}
	return true
}

// longTime is how long such work may take: a million buckets, where Redis is next door.
const longTime = 10 * time.Minute

// patiently keeps the connection for the answer to work that takes long: what was done is to be told.
func patiently(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		beBackIn(w, longTime)
		handle(w, r)
	}
}

// elsewhere answers what no route is for: a path of another method, or of none.
func (t *router) elsewhere(w http.ResponseWriter, r *http.Request) {
	allow := t.methods(r)
	switch {
	case len(allow) == 0:
		newProblem(answer.ReasonNotFound, fmt.Sprintf("there is nothing at %s; see the description of the API", clip(r.URL.Path))).write(w)
	case r.Method == http.MethodOptions:
		w.Header().Set("Allow", strings.Join(allow, ", "))
		w.WriteHeader(http.StatusNoContent)
	default:
		p := newProblem(reasonNotAllowed, fmt.Sprintf("%s is not for %s; there are %s", clip(r.Method), clip(r.URL.Path), strings.Join(allow, ", ")))
		p.header.Set("Allow", strings.Join(allow, ", "))
		p.write(w)
	}
}

// methods lists those that the path of a request has routes for.
func (t *router) methods(r *http.Request) []string {
	var list []string
	for _, method := range []string{http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete} {
		other := *r
		other.Method = method
		if _, pattern := t.mux.Handler(&other); pattern != t.rest() {
			list = append(list, method)
		}
	}
	if list != nil {
		list = append(list, http.MethodOptions)
	}
	return list
}

// gate refuses what no handler should have to look at.
type gate struct {
	params  []string // known query parameters
	accepts []string // types of answers
	sends   []string // types of bodies; none has no body
	body    int64    // its most bytes
}

func gateOf(op *huma.Operation) gate {
	g := gate{accepts: []string{"application/problem+json"}, body: op.MaxBodyBytes}
	for _, p := range op.Parameters {
		if p.In == "query" {
			g.params = append(g.params, p.Name)
		}
	}
	for _, response := range op.Responses {
		for name := range response.Content {
			if !slices.Contains(g.accepts, name) {
				g.accepts = append(g.accepts, name)
			}
		}
	}
	if op.RequestBody != nil {
		for name := range op.RequestBody.Content {
			g.sends = append(g.sends, name)
		}
		slices.Sort(g.sends)
		if g.body == 0 {
			g.body = bodyMost
		}
	}
	return g
}

// check returns what is wrong with a request, or nil.
func (g *gate) check(r *http.Request) *problem {
	if r.URL.RawQuery != "" {
		if p := g.checkQuery(r.URL.RawQuery); p != nil {
			return p
		}
	}
	if accept := r.Header["Accept"]; len(accept) > 0 && !g.acceptable(strings.Join(accept, ",")) {
		return newProblem(reasonNotAcceptable, fmt.Sprintf("Accept leaves out what this answers with: %s", strings.Join(g.accepts[1:], ", ")))
	}
	if sent := r.Header.Get("Content-Type"); sent != "" && len(g.sends) > 0 && !g.readable(sent) {
		return newProblem(reasonUnsupported, fmt.Sprintf("Content-Type is %s, and this reads %s", clip(sent), strings.Join(g.sends, ", ")))
	}
	if p := g.checkCoding(r); p != nil {
		return p
	}
	if g.body > 0 && r.ContentLength > g.body {
		return newProblem(queue.ReasonTooLarge, fmt.Sprintf("the body has %d bytes; %d are read", r.ContentLength, g.body))
	}
	return nil
}

// checkCoding wants a body as it is, and none where none is read: what it says would be skipped in silence.
func (g *gate) checkCoding(r *http.Request) *problem {
	if len(g.sends) == 0 {
		if r.ContentLength == 0 {
			return nil
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, smallBody))
		if text := string(bytes.TrimSpace(body)); err == nil && (text == "" || text == "{}" || text == "null") { // what some clients send for none
			return nil
		}
		return newProblem(queue.ReasonInvalid, "there is a body, and none is read here: parameters go into the query")
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		p := newProblem(reasonUnsupported, fmt.Sprintf("Content-Encoding is %s, and bodies are read as they are", clip(coding)))
		p.header.Set("Accept-Encoding", "identity")
		return p
	}
	return nil
}

// checkQuery wants each parameter known, and once: what is skipped in silence is found out too late.
func (g *gate) checkQuery(raw string) *problem {
	query, err := url.ParseQuery(raw)
	if err != nil {
		return newProblem(queue.ReasonInvalid, "the query cannot be read: "+err.Error())
	}
	for name, values := range query {
		switch {
		case !slices.Contains(g.params, name) && len(g.params) == 0:
			return newProblem(queue.ReasonInvalid, fmt.Sprintf("unknown query parameter %q; there are none here", clip(name)))
		case !slices.Contains(g.params, name):
			return newProblem(queue.ReasonInvalid, fmt.Sprintf("unknown query parameter %q; known are %s", clip(name), strings.Join(g.params, ", ")))
		case len(values) > 1:
			return newProblem(queue.ReasonInvalid, fmt.Sprintf("query parameter %q is there %d times", name, len(values)))
		case values[0] == "":
			return newProblem(queue.ReasonInvalid, fmt.Sprintf("query parameter %q is empty; leave it out", name))
		}
	}
	return nil
}

// acceptable reads Accept as far as it matters here: whether any type of ours is in it.
func (g gate) acceptable(accept string) bool {
	for part := range strings.SplitSeq(accept, ",") {
		name, params, err := mime.ParseMediaType(part)
		if err != nil || strings.Trim(params["q"], "0.") == "" && params["q"] != "" {
			continue
		}
		major, isRange := strings.CutSuffix(name, "/*")
		for _, own := range g.accepts {
			if name == own || major == "*" || isRange && strings.HasPrefix(own, major+"/") {
				return true
			}
		}
	}
	return strings.TrimSpace(accept) == ""
}

func (g *gate) readable(sent string) bool {
	if sent == jsonType && g.sends[0] == jsonType { // what nearly all send
		return true
	}
	name, params, err := mime.ParseMediaType(sent)
	charset := params["charset"]
	return err == nil && slices.Contains(g.sends, name) && (charset == "" || strings.EqualFold(charset, "utf-8"))
}

// clip shortens what somebody sent for an error text.
func clip(s string) string { return clipTo(64, s) }

func clipTo(most int, s string) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
