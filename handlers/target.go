package handlers

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// Headers of a task that this package reads; doc.go has the whole list.
const (
	headerClass = "Spout-Class"
	headerHTTP  = "Spout-Http"
)

// Bounds of the connections to called services.
const (
	dialTimeout        = 10 * time.Second
	handshakeTimeout   = 10 * time.Second
	keepAlive          = 30 * time.Second
	idleTimeout        = 90 * time.Second
	idlePerHost        = 64
	idleInAll          = 1024
	maxResponseHeaders = 64 << 10 // bytes
	pingAfter          = 30 * time.Second
	pingTimeout        = 10 * time.Second
)

// target is what the class of a job says about what may be called.
type target struct {
	class        string
	allowPrivate bool
	hosts        []string // when not empty, only these
}

// targetOf reads the settings out of the headers of a task. It fails closed.
func targetOf(headers map[string]string) (target, error) {
	t := target{class: headers[headerClass]}
	settings, ok := headers[headerHTTP]
	if !ok {
		return t, nil
	}
	var allow *bool
	var hosts *[]string
	err := eachField([]byte(settings), func(name string, value json.RawMessage) error {
		switch name {
		case "allow_private":
			return decode(value, &allow)
		case "hosts":
			return decode(value, &hosts)
		}
		return errUnknownField
	})
	if err != nil {
		return t, permanent(nil, "header %s of the task cannot be read, nothing is called without it: %s; "+
			"check the http settings of class %q and that scheduler and worker are of one version", headerHTTP, err, t.class)
	}
	if allow != nil {
		t.allowPrivate = *allow
	}
	if hosts != nil {
		t.hosts = *hosts
	}
	return t, nil
}

// check refuses, before anything is looked up, a call to a host that is not in the
// list of the class, and to the names of this machine.
func (t target) check(c *call) error {
	listed := func(entry string) bool { return matchHost(entry, c.url) }
	if len(t.hosts) > 0 && !slices.ContainsFunc(t.hosts, listed) {
		return permanent(ErrRefused, "%s: target refused: host %q is not in http: {hosts: [...]} of class %q; add it there to allow it",
			c.what(), clip(c.url.Host, maxURL), t.class)
	}
	if !t.allowPrivate && isLocalhost(c.url.Hostname()) {
		return t.refused(c, &refusal{cause: errors.New("localhost is this machine")})
	}
	return nil
}

// refused turns the refusal of an address at connect time into the attempt's error.
func (t target) refused(c *call, r *refusal) error {
	return permanent(ErrRefused, "%s: target refused: %s; to let class %q call loopback, private and other "+
		"special-purpose addresses set http: {allow_private: true} in it", c.what(), r.cause, t.class)
}

// matchHost tells whether entry, a host or host:port, is what u calls. Names
// match in any case but otherwise exactly, addresses in any notation, and an entry
// without a port matches every port.
func matchHost(entry string, u *url.URL) bool {
	host, port, err := net.SplitHostPort(entry)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(entry, "["), "]"), ""
	}
	want := u.Port()
	if want == "" {
		want = defaultPort(u.Scheme)
	}
	return sameHost(host) == sameHost(u.Hostname()) && (port == "" || port == want)
}

// isLocalhost tells whether host is a name that always means this machine (RFC
// 6761). Not every resolver knows that, and one that does not asks the DNS.
func isLocalhost(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// sameHost returns the form in which equal hosts are equal strings.
func sameHost(host string) string {
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.Unmap().String()
	}
	return strings.ToLower(host)
}

// refusal says that an address is not for jobs to call. It travels through the
// dialer and net/http as the cause of their errors.
type refusal struct{ cause error }

func (r *refusal) Error() string { return "target refused: " + r.cause.Error() }
func (r *refusal) Unwrap() error { return r.cause }

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// controlFunc is the type of net.Dialer's Control.
type controlFunc func(network, address string, conn syscall.RawConn) error

// newDialer returns a dialer that asks control, if not nil, before it connects.
func newDialer(control controlFunc) dialFunc {
	return (&net.Dialer{Timeout: dialTimeout, KeepAlive: keepAlive, Control: control}).DialContext
}

// newGuard returns a control that refuses every address that is not publicly
// routable. It runs after the name was resolved and sees the very address that is
// to be connected to, so neither a name that resolves to something private nor one
// that changes between look-ups gets past it.
func newGuard() controlFunc {
	guardian := ssrf.New(ssrf.WithAnyPort())
	return func(network, address string, conn syscall.RawConn) error {
		if err := guardian.Safe(network, address, conn); err != nil {
			return &refusal{cause: err}
		}
		return nil
	}
}

// newTransport returns a transport that dials with dial. It takes no proxy from the
// environment: the proxy would connect where the guard cannot see.
func newTransport(dial dialFunc, tlsConfig *tls.Config) *http.Transport {
	return &http.Transport{
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, err := dial(ctx, network, addr)
			if s, ok := ctx.Value(startKey{}).(*start); ok {
				s.dialled(err)
			}
			return conn, err
		},
		TLSClientConfig:        tlsConfig.Clone(), // the transport writes to it
		TLSHandshakeTimeout:    handshakeTimeout,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           idleInAll,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxResponseHeaders,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
}

// asRefusal finds the refusal that err was caused by.
func asRefusal(err error) (*refusal, bool) {
	return errors.AsType[*refusal](err)
}
