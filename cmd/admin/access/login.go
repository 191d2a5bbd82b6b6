package access

import (
	"context"
	"crypto/subtle"
	_ "embed" // the page
	"encoding/base64"
	"errors"
	"html/template"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"
)

const (
	loginCookie = "spout-login" // a login with the identity provider that is under way
	loginTime   = 10 * time.Minute
	nextMost    = 2048 // bytes of the page to go to afterwards
)

//go:embed login.html
var loginHTML string

//go:embed login.css
var loginCSS []byte

// Handler serves the pages below <base>/login, and <base>/logout. They are for everybody.
func (g *Guard) Handler() http.Handler {
	page := template.Must(template.New("login").Parse(loginHTML))
	show := func(w http.ResponseWriter, r *http.Request, status int, problem string) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		person, _ := g.byCookie(r)
		_ = page.Execute(w, map[string]any{ // the browser is gone, then
			"Base": g.o.Base, "Next": g.next(r), "Problem": problem, "Tokens": g.o.Tokens != nil, "OIDC": g.o.OIDC != nil, "Person": person,
		})
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+g.o.Base+"/login", func(w http.ResponseWriter, r *http.Request) { show(w, r, http.StatusOK, "") })
	mux.HandleFunc("GET "+g.o.Base+"/login/style.css", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/css; charset=utf-8")
		_, _ = w.Write(loginCSS)
	})
	mux.HandleFunc("POST "+g.o.Base+"/login", func(w http.ResponseWriter, r *http.Request) {
		if err := g.loginByToken(w, r); err != nil {
			status, text := refusal(w, err)
			show(w, r, status, text)
		}
	})
	mux.HandleFunc("POST "+g.o.Base+"/logout", g.logout)
	if g.o.OIDC == nil {
		return mux
	}
	mux.HandleFunc("GET "+g.o.Base+"/login/oidc", func(w http.ResponseWriter, r *http.Request) {
		if err := g.beginOIDC(w, r); err != nil {
			g.o.Log.LogAttrs(r.Context(), slog.LevelError, "nobody can log in with the identity provider", slog.Any("error", err))
			show(w, r, http.StatusBadGateway, "The identity provider cannot be reached. Try again; the log of this server says more.")
		}
	})
	mux.HandleFunc("GET "+g.o.Base+callbackPath, func(w http.ResponseWriter, r *http.Request) {
		if err := g.finishOIDC(w, r); err != nil {
			status, text := refusal(w, err)
			show(w, r, status, text)
		}
	})
	return mux
}

// refusal is what to tell a browser.
func refusal(w http.ResponseWriter, err error) (status int, text string) {
	many, tooMany := errors.AsType[*TooManyError](err)
	switch {
	case tooMany:
		seconds := strconv.Itoa(int(math.Ceil(many.RetryAfter.Seconds())))
		w.Header().Set("Retry-After", seconds)
		return http.StatusTooManyRequests, "Too many wrong attempts. Come back in " + seconds + " s."
	case errors.Is(err, ErrDenied):
		return http.StatusForbidden, "You are known, but have no role here. Ask whoever runs this server."
	case errors.Is(err, ErrWrong):
		return http.StatusUnauthorized, "That was not right, or is no longer."
	}
	return http.StatusBadGateway, "The identity provider's answer could not be used. Try again; the log of this server says more."
}

func (g *Guard) loginByToken(w http.ResponseWriter, r *http.Request) error {
	hash := HashOf(strings.TrimSpace(r.PostFormValue("token")))
	person, ok := g.o.Tokens.find(r.Context(), hash)
	if !ok {
		return g.failed(r, "token")
	}
	g.welcome(w, r, person, session{token: hash}, g.next(r))
	return nil
}

// failed counts and logs wrong credentials.
func (g *Guard) failed(r *http.Request, with string) error {
	err := g.guesses.wrong(r.Context(), r)
	if errors.Is(err, ErrWrong) { // the others are as many as somebody likes to send
		g.o.Log.LogAttrs(r.Context(), slog.LevelInfo, "a login failed", slog.String("with", with), slog.String("from", g.guesses.address(r)))
	}
	return err
}

// welcome begins a session, in place of any before, and goes on to a page.
func (g *Guard) welcome(w http.ResponseWriter, r *http.Request, person Person, begun session, next string) {
	g.forget(r)
	g.setCookie(w, r, "spout-session", g.sessions.begin(begun), int(sessionTime.Seconds()))
	g.o.Log.LogAttrs(r.Context(), slog.LevelInfo, "logged in", slog.String("name", person.Name), slog.String("role", string(person.Role)),
		slog.String("from", g.guesses.address(r)))
	http.Redirect(w, r, next, http.StatusSeeOther) //nolint:gosec // one of ours
}

// forget ends the session of the browser, if it has one.
func (g *Guard) forget(r *http.Request) {
	if cookie, err := r.Cookie(g.cookieName(r)); err == nil {
		g.sessions.end(cookie.Value)
	}
}

// logout ends the session of the browser or, where everywhere is asked for, all of the same person.
func (g *Guard) logout(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(g.cookieName(r)); err == nil && r.PostFormValue("everywhere") == "yes" {
		g.sessions.endAll(cookie.Value)
	}
	g.forget(r)
	g.setCookie(w, r, "spout-session", "", -1)
	http.Redirect(w, r, g.o.Base+"/login", http.StatusSeeOther)
}

// next is the page that somebody wanted before they were asked to log in: one of ours.
func (g *Guard) next(r *http.Request) string { return g.ours(r.FormValue("next")) }

// ours is a page, or the first one when it is none of ours, also where dots lead out of it.
func (g *Guard) ours(next string) string {
	first := g.o.Base + "/"
	to, err := url.Parse(next)
	if err != nil || len(next) > nextMost || to.Scheme != "" || to.Host != "" || strings.ContainsAny(next, "\\\r\n\t") ||
		!strings.HasPrefix(next, first) || strings.HasPrefix(next, "//") || !strings.HasPrefix(path.Clean(to.Path)+"/", first) ||
		strings.HasPrefix(path.Clean(to.Path), first+"login") {
		return first
	}
	return next
}

func (g *Guard) beginOIDC(w http.ResponseWriter, r *http.Request) error {
	f := newFlow()
	to, err := g.provider.begin(r.Context(), f)
	if err != nil {
		return err
	}
	value := strings.Join([]string{f.state, f.nonce, f.verifier, base64.RawURLEncoding.EncodeToString([]byte(g.next(r)))}, ".")
	g.setCookie(w, r, loginCookie, value, int(loginTime.Seconds()))
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

func (g *Guard) finishOIDC(w http.ResponseWriter, r *http.Request) error {
	f, next, ok := g.flowOf(r)
	g.setCookie(w, r, loginCookie, "", -1)
	query := r.URL.Query()
	if !ok || subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(f.state)) != 1 || query.Get("code") == "" {
		return g.failed(r, "identity provider")
	}
	person, err := g.provider.finish(r.Context(), f, query.Get("code"))
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case err != nil:
		g.o.Log.LogAttrs(r.Context(), slog.LevelWarn, "a login with the identity provider failed", slog.Any("error", err))
		return err
	}
	g.welcome(w, r, person, session{person: person}, g.ours(next))
	return nil
}

// flowOf is the login that the browser has begun, and the page that it wanted.
func (g *Guard) flowOf(r *http.Request) (f flow, next string, ok bool) {
	cookie, err := r.Cookie(prefixed(g.secure(r), loginCookie))
	if err != nil {
		return f, "", false
	}
	parts := strings.Split(cookie.Value, ".")
	if len(parts) != 4 || parts[0] == "" {
		return f, "", false
	}
	page, err := base64.RawURLEncoding.DecodeString(parts[3])
	return flow{parts[0], parts[1], parts[2]}, string(page), err == nil
}
