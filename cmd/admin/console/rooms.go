package console

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"path"
	"runtime/debug"
	"strings"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/api"
	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/cmd/admin/internal/lasting"
	"github.com/spout-queue/spout/cmd/admin/internal/live"
	"github.com/spout-queue/spout/cmd/admin/internal/pages"
)

// room is a part of the console that a request may go to.
type room int

const (
	pagesRoom  room = iota // the dashboard
	apiRoom                // /v1, its description and its documentation
	loginRoom              // login and logout: for everybody
	staticRoom             // the dashboard's files, for everybody: the same in every installation
	healthRoom             // for everybody
)

// rooms are the handlers behind the door.
type rooms struct {
	api, login http.Handler
	pages      *pages.Pages
}

func newRooms(o Options, l *live.Live) rooms {
	r := rooms{
		api:   api.New(api.Options{Desk: desk.NewTraced(o.Client, "http", o.Log, o.Trace), Base: o.Base, Version: version(), Log: o.Log}),
		login: http.NotFoundHandler(),
		pages: pages.New(pages.Options{Desk: desk.NewTraced(o.Client, "dashboard", o.Log, o.Trace), Live: l, Base: o.Base, Log: o.Log, Logout: logout(o.Guard)}),
	}
	if logout(o.Guard) {
		r.login = o.Guard.Handler()
	}
	return r
}

// version is what the build recorded of itself.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}

// room is where a path leads. One with dots in it, which leads elsewhere in the end, leads nowhere that is for everybody.
func (c *Console) room(at string) room {
	at = strings.TrimPrefix(at, c.base)
	under := func(dir string) bool { return at == dir || strings.HasPrefix(at, dir+"/") }
	switch {
	case under("/v1"), under("/docs"), strings.HasPrefix(at, "/openapi"):
		return apiRoom
	case path.Clean(at) != at:
		return pagesRoom
	case under("/login"), at == "/logout":
		return loginRoom
	case under("/static"):
		return staticRoom
	case at == "/healthz":
		return healthRoom
	}
	return pagesRoom
}

// logout tells whether there is a session to end.
func logout(g *access.Guard) bool { return g != nil && !g.Local() }

// readsPage tells whether a browser wants a page, and not a script a part of one.
func readsPage(r *http.Request) bool {
	return (r.Method == http.MethodGet || r.Method == http.MethodHead) && r.Header.Get("Hx-Request") == "" &&
		strings.Contains(r.Header.Get("Accept"), "text/html")
}

// hasPages tells whether somebody who looks at a path wants pages: the dashboard, or the documentation of the API.
func (c *Console) hasPages(at string) bool {
	return c.room(at) == pagesRoom || strings.HasPrefix(at+"/", c.base+"/docs/")
}

// enter lets those in who may be there.
func (c *Console) enter(w http.ResponseWriter, r *http.Request) {
	if !strings.HasPrefix(r.URL.Path, c.base+"/") {
		if r.URL.Path == c.base {
			http.Redirect(w, r, c.base+"/", http.StatusPermanentRedirect)
			return
		}
		elsewhere := notFound.says()
		elsewhere.detail = "there is nothing here: this server is below " + c.base + "/"
		c.say(w, r, elsewhere)
		return
	}
	switch c.room(r.URL.Path) {
	case healthRoom:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = w.Write([]byte("ok\n"))
	case loginRoom:
		c.withBody(w, r, loginBody, c.rooms.login)
	case staticRoom:
		c.withBody(w, r, 0, c.rooms.pages)
	case apiRoom:
		c.admit(w, r, apiBody(r.URL.Path), c.rooms.api)
	case pagesRoom:
		c.admit(w, r, pagesBody, c.rooms.pages)
	}
}

// admit finds out who asks, and lets them in.
func (c *Console) admit(w http.ResponseWriter, r *http.Request, most int64, to http.Handler) {
	person, err := c.authenticate(r)
	if err != nil {
		c.turnAway(w, r, err)
		return
	}
	ctx, cancel := context.WithTimeout(access.With(r.Context(), person), requestTime)
	defer cancel()
	if c.isStream(r) {
		ctx, cancel = lasting.Until(ctx)
		defer cancel()
		go c.watch(ctx, r, person, cancel)
	}
	c.withBody(w, r.WithContext(ctx), most, to)
}

// requestTime is how long a request can last: streams begin again then, and who may not be there any more does not get in.
const requestTime = 15 * time.Minute

// turnAway answers somebody who is not known, or not to be let in: a browser is led to the login page.
func (c *Console) turnAway(w http.ResponseWriter, r *http.Request, err error) {
	many, tooMany := errors.AsType[*access.TooManyError](err)
	switch {
	case tooMany:
		retryAfter(w, many.RetryAfter)
		w.Header().Set("Connection", "close")
		c.refuse(w, r, tooManyWrong)
	case errors.Is(err, access.ErrDenied), errors.Is(err, access.ErrNotLocal):
		refused := denied.says()
		refused.detail = err.Error()
		c.say(w, r, refused)
	case errors.Is(err, access.ErrAnonymous) && c.canLogin && c.hasPages(r.URL.Path) && readsPage(r):
		http.Redirect(w, r, c.base+"/login?next="+url.QueryEscape(r.URL.RequestURI()), http.StatusSeeOther)
	default:
		w.Header().Set("WWW-Authenticate", `Bearer realm="spout"`)
		if c.canLogin && r.Header.Get("Hx-Request") != "" { // a script of a page whose session has ended
			w.Header().Set("Hx-Redirect", c.loginAgain(r))
		}
		c.refuse(w, r, unauthenticated)
	}
}
