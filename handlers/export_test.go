package handlers

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
)

// NewTestHTTPCall is NewHTTPCall with a network and trusted certificates of the
// test's own. There is no guard in it but the one in dial.
func NewTestHTTPCall(o HTTPOptions, dial func(context.Context, string, string) (net.Conn, error), trust *tls.Config) *HTTPCall {
	return newHTTPCall(o, dial, dial, trust)
}

// NewGuardedHTTPCall is NewTestHTTPCall with a guarded dialer for public targets.
func NewGuardedHTTPCall(o HTTPOptions, public, anywhere func(context.Context, string, string) (net.Conn, error)) *HTTPCall {
	return newHTTPCall(o, public, anywhere, nil)
}

// Guard runs the check that a guarded dialer makes before it connects.
func Guard(network, address string) error { return newGuard()(network, address, nil) }

// GuardedDial is the dialer for public targets, with a resolver of the test's own, and connect called with each address
// that passes the guard in place of a connection.
func GuardedDial(resolver *net.Resolver, connect func(address string) error) func(context.Context, string, string) (net.Conn, error) {
	guard := newGuard()
	return newDialer(func(network, address string, conn syscall.RawConn) error {
		if err := guard(network, address, conn); err != nil {
			return err
		}
		return connect(address)
	}, resolver)
}

// Breakers is how many hosts have one.
func (h *HTTPCall) Breakers() int {
	h.breakers.mu.Lock()
	defer h.breakers.mu.Unlock()
	return len(h.breakers.byAddr)
}

// Result is what is kept of an answer of 200 of which at most 1 MiB is read.
func Result(header http.Header, body string) []byte {
	c := new(call)
	resp := &http.Response{StatusCode: http.StatusOK, Header: header, Body: io.NopCloser(strings.NewReader(body))}
	return readAnswer(c, resp, 1<<20).result(c)
}

// HideAddresses masks addresses in an error text about a call to host.
func HideAddresses(s, host string) string { return hideAddresses(s, host) }
