package access

import (
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// Why nobody is known to ask.
var (
	// ErrAnonymous: no credentials came with the request.
	ErrAnonymous = errors.New("access: not logged in")
	// ErrWrong: those that came are not, or no longer, good.
	ErrWrong = errors.New("access: wrong credentials")
	// ErrNotLocal: only this machine may ask, since there is no authentication.
	ErrNotLocal = errors.New("access: without authentication, only this machine may ask, and not through a proxy")
)

// Options of a Guard. One of Local, Tokens and OIDC is needed.
type Options struct {
	// Local lets everybody on this machine, who asks on a loopback address, do everything.
	Local bool
	// Tokens of people and programs: Authorization: Bearer, or typed into the login page once.
	Tokens *Tokens
	// OIDC is who else may log in, by an identity provider.
	OIDC *OIDC
	// Base is the path that the console is mounted under, empty or like /spout.
	Base string
	// Trusted are proxies whose X-Forwarded-For and X-Forwarded-Proto are believed.
	Trusted []netip.Prefix
	// Log gets who logs in, and what goes wrong then; nil discards it.
	Log *slog.Logger
}

// Guard finds out who asks. It is safe for concurrent use.
type Guard struct {
	o        Options
	sessions sessions
	guesses  *guesses
	provider provider
}

// NewGuard returns a guard. It asks the identity provider nothing yet.
func NewGuard(o Options) (*Guard, error) {
	if !o.Local && o.Tokens == nil && o.OIDC == nil {
		return nil, errors.New("access: nobody could log in: neither tokens, nor an identity provider, nor local access")
	}
	if o.Local && (o.Tokens != nil || o.OIDC != nil) {
		return nil, errors.New("access: local access lets everybody in, so tokens and an identity provider would mean nothing")
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	g := &Guard{o: o, provider: provider{oidc: o.OIDC}}
	if err := o.OIDC.validate(o.Base); err != nil {
		return nil, err
	}
	var err error
	g.guesses, err = newGuesses(o.Trusted)
	return g, err
}

// Local tells whether there is no authentication, and so nothing to log out of.
func (g *Guard) Local() bool { return g.o.Local }

// Authenticate says who asks. The error is [ErrAnonymous], [ErrWrong], [ErrNotLocal] or a [TooManyError].
func (g *Guard) Authenticate(r *http.Request) (Person, error) {
	if g.o.Local {
		return local(r)
	}
	if header := r.Header.Values("Authorization"); len(header) > 0 {
		scheme, token, _ := strings.Cut(header[0], " ")
		if person, ok := g.o.Tokens.find(r.Context(), HashOf(strings.TrimSpace(token))); ok && len(header) == 1 && strings.EqualFold(scheme, "Bearer") {
			return person, nil
		}
		return Person{}, g.guesses.wrong(r.Context(), r)
	}
	if person, ok := g.byCookie(r); ok {
		return person, nil
	}
	return Person{}, ErrAnonymous
}

// local is everybody who asks from this machine itself. A proxy on this machine would lend its address to anybody.
func local(r *http.Request) (Person, error) {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	ip, bad := netip.ParseAddr(host)
	proxied := slices.ContainsFunc([]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip"}, func(name string) bool {
		return len(r.Header.Values(name)) > 0
	})
	if err != nil || bad != nil || !ip.Unmap().IsLoopback() || proxied {
		return Person{}, ErrNotLocal
	}
	return Person{Name: "local", Role: Admin}, nil
}

// byCookie is who has logged in with this browser. A token that is no longer in the file ends its sessions.
func (g *Guard) byCookie(r *http.Request) (Person, bool) {
	cookie, err := r.Cookie(g.cookieName(r))
	if err != nil {
		return Person{}, false
	}
	open, ok := g.sessions.find(cookie.Value)
	if !ok || open.token == (Hash{}) {
		return open.person, ok
	}
	return g.o.Tokens.find(r.Context(), open.token)
}

// secure tells whether the browser speaks TLS, with us or with a trusted proxy.
func (g *Guard) secure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && r.Header.Get("X-Forwarded-Proto") == "https" &&
		slices.ContainsFunc(g.o.Trusted, func(p netip.Prefix) bool { return p.Contains(peer.Addr().Unmap()) })
}

// cookieName of sessions. With __Host- browsers take it from this very host only, over TLS.
func (g *Guard) cookieName(r *http.Request) string { return prefixed(g.secure(r), "spout-session") }

func prefixed(secure bool, name string) string {
	if secure {
		return "__Host-" + name
	}
	return name
}

// setCookie sets a cookie for some seconds, or deletes it when they are negative. It is for all paths, since browsers want
// that of the prefix.
func (g *Guard) setCookie(w http.ResponseWriter, r *http.Request, name, value string, seconds int) {
	secure := g.secure(r)
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure wherever the browser speaks TLS
		Name: prefixed(secure, name), Value: value, Path: "/", MaxAge: seconds, HttpOnly: true, Secure: secure,
		SameSite: http.SameSiteLaxMode, // the identity provider sends the browser back from another site
	})
}
