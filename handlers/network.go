package handlers

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"syscall"
	"time"

	"code.dny.dev/ssrf"
)

// Bounds of the connections to called services.
const (
	defaultConnectTimeout = 10 * time.Second
	defaultIdleTimeout    = 90 * time.Second

	keepAlive          = 30 * time.Second
	idlePerHost        = 64
	idleInAll          = 1024
	maxResponseHeaders = 64 << 10 // bytes
	bufferSize         = 2 << 10  // bytes, two per connection: most headers fit, and bodies go past them
	pingAfter          = 30 * time.Second
	pingTimeout        = 10 * time.Second
)

type dialFunc func(ctx context.Context, network, addr string) (net.Conn, error)

// controlFunc is the type of net.Dialer's Control.
type controlFunc func(network, address string, conn syscall.RawConn) error

// newDialer returns a dialer that asks control, if not nil, before it connects.
func newDialer(control controlFunc, resolver *net.Resolver) dialFunc {
	return (&net.Dialer{KeepAlive: keepAlive, Control: control, Resolver: resolver}).DialContext
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

// lane is a set of connections that are all made under the same rule.
type lane struct {
	transport *http.Transport
	left      *leftovers
}

// newLane returns a lane that dials with dial.
func newLane(o HTTPOptions, dial dialFunc, proxy func(*http.Request) (*url.URL, error), tlsConfig *tls.Config) lane {
	connect := cmp.Or(max(o.ConnectTimeout, 0), defaultConnectTimeout)
	return lane{left: new(leftovers), transport: &http.Transport{
		Proxy: proxy,
		DialContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
			// Not the dialer's own Timeout, so that any dialer keeps to it.
			dialling, cancel := context.WithTimeout(ctx, connect)
			conn, err := dial(dialling, network, addr)
			if err != nil && dialling.Err() != nil && ctx.Err() == nil {
				err = fmt.Errorf("no connection to %s within %s: %w", addr, connect, err)
			}
			cancel()
			if s, ok := ctx.Value(startKey{}).(*start); ok {
				s.dialled(err)
			}
			return conn, err
		},
		TLSClientConfig:        tlsConfig.Clone(), // the transport writes to it
		TLSHandshakeTimeout:    connect,
		ForceAttemptHTTP2:      true,
		MaxIdleConns:           idleInAll,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        cmp.Or(max(o.IdleTimeout, 0), defaultIdleTimeout),
		MaxResponseHeaderBytes: maxResponseHeaders,
		ReadBufferSize:         bufferSize,
		WriteBufferSize:        bufferSize,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}}
}

// proxies is which calls of the guarded lane go through a proxy. The operator named it, so it may have any address; what
// is called without it, and what a job names by its address, is guarded as ever. Only the proxy sees what a name
// resolves to.
type proxies struct {
	find  func(*http.Request) (*url.URL, error)
	guard controlFunc
	known sync.Map // host:port of each that was used
}

// of is the Proxy of a transport.
func (p *proxies) of(req *http.Request) (*url.URL, error) {
	proxy, err := p.find(req)
	if err != nil || proxy == nil {
		return nil, err
	}
	if host := req.URL.Hostname(); isAddress(host) {
		if err := p.guard(addressNetwork(host), net.JoinHostPort(host, "1"), nil); err != nil {
			return nil, err
		}
	}
	port := map[string]string{"http": "80", "https": "443", "socks5": "1080", "socks5h": "1080"}[proxy.Scheme]
	p.known.Store(net.JoinHostPort(proxy.Hostname(), cmp.Or(proxy.Port(), port)), true)
	return proxy, nil
}

// dial connects to proxies without a guard and to all else with it.
func (p *proxies) dial(guarded, anywhere dialFunc) dialFunc {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		if _, ok := p.known.Load(addr); ok {
			return anywhere(ctx, network, addr)
		}
		return guarded(ctx, network, addr)
	}
}

func addressNetwork(host string) string {
	if ip := net.ParseIP(host); ip != nil && ip.To4() != nil {
		return "tcp4"
	}
	return "tcp6"
}
