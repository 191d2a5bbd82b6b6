// Package pages is the dashboard: pages drawn on the server that work without scripts, and are kept live by one stream of
// events per tab. Everything that it does goes through package desk, and all that it shows is escaped by html/template.
package pages

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/cmd/admin/internal/live"
)

// Options of the dashboard.
type Options struct {
	// Desk does what people ask for.
	Desk *desk.Desk
	// Live has the numbers that the pages show.
	Live *live.Live
	// Base is the path that the dashboard is mounted under, without a slash at its end; empty for the root.
	Base string
	// Logout draws a button that ends the session, at <base>/logout.
	Logout bool
	Log    *slog.Logger
}

// Pages serves the dashboard. Every request must have a person in its context, see package access.
type Pages struct {
	Options
	mux       *http.ServeMux
	templates templates
	static    *static
	live      map[string]liveView
	revivals  *revivals
}

// New makes the dashboard.
func New(o Options) *Pages {
	p := &Pages{Options: o, mux: http.NewServeMux(), static: newStatic(o.Base), revivals: newRevivals()}
	p.templates = parseTemplates(p)
	p.live = map[string]liveView{}
	p.mux.Handle("GET "+o.Base+"/static/", p.static)
	p.mux.HandleFunc("GET "+o.Base+"/live", p.serveLive)
	p.routes()
	return p
}

// routes are the pages. Each file of a page adds its own.
func (p *Pages) routes() {
	p.overviewRoutes()
	p.classesRoutes()
	p.classEditRoutes()
	p.changesRoutes()
	p.submitRoutes()
	p.meterRoutes()
	p.classRoutes()
	p.bucketRoutes()
	p.jobRoutes()
	p.deadRoutes()
	p.workersRoutes()
	p.get("/", func(http.ResponseWriter, *http.Request) error { return errNowhere })
}

// errNowhere answers a mistyped address with a page that leads back.
var errNowhere = fmt.Errorf("%w: nothing is at this address", errNoPage)

// Close stops what runs in the background and waits until it has ended.
func (p *Pages) Close() { p.revivals.close() }

// ServeHTTP implements [http.Handler].
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) { p.mux.ServeHTTP(w, r) }

// get and post register a page's handlers under the base path. An error that a handler returns is shown as a page or, where a
// script asked, as a part of one.
func (p *Pages) get(path string, h func(http.ResponseWriter, *http.Request) error) {
	p.mux.HandleFunc("GET "+p.Base+path, p.handler(h))
}

func (p *Pages) post(path string, h func(http.ResponseWriter, *http.Request) error) {
	p.mux.HandleFunc("POST "+p.Base+path, p.handler(h))
}

func (p *Pages) handler(h func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := h(w, r); err != nil {
			p.fail(w, r, err)
		}
	}
}

// url is a path of the dashboard with a query: pairs of names and values, of which empty ones are left out.
func (p *Pages) url(path string, pairs ...string) string {
	var b strings.Builder
	b.WriteString(p.Base + path)
	separator := byte('?')
	for i := 0; i+1 < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			continue
		}
		b.WriteByte(separator)
		b.WriteString(queryEscape(pairs[i]) + "=" + queryEscape(pairs[i+1]))
		separator = '&'
	}
	return b.String()
}
