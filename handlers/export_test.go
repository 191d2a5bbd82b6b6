package handlers

import (
	"context"
	"crypto/tls"
	"net"
)

// NewTestHTTPCall is NewHTTPCall with a network and trusted certificates of the
// test's own. There is no guard in it but the one in dial.
func NewTestHTTPCall(o HTTPOptions, dial func(context.Context, string, string) (net.Conn, error), trust *tls.Config) *HTTPCall {
	return newHTTPCall(o, dial, dial, trust)
}

// Guard runs the check that a guarded dialer makes before it connects.
func Guard(network, address string) error { return newGuard()(network, address, nil) }
