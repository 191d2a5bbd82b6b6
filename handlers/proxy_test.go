package handlers_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/spout-queue/spout/handlers"
)

// TestProxyByChoice: it is connected to wherever it is; what does not go through it, and what a job names by its
// address, is guarded as ever.
func TestProxyByChoice(t *testing.T) {
	t.Parallel()
	var through []string
	proxy := newService(t, func(_ http.ResponseWriter, r *http.Request) { through = append(through, r.RequestURI) })
	address, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	guarded := handlers.GuardedDial(nil, func(string) error { return errNoNetwork })
	h := handlers.NewGuardedHTTPCall(handlers.HTTPOptions{Proxy: func(r *http.Request) (*url.URL, error) {
		if strings.HasPrefix(r.URL.Path, "/direct") {
			return nil, nil
		}
		return address, nil
	}}, guarded, func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr != proxy.Listener.Addr().String() {
			t.Errorf("%s is dialled without a guard", addr)
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	})
	t.Cleanup(h.CloseIdleConnections)
	for target, want := range map[string]error{
		"http://a.example/x":              nil,
		"http://8.8.8.8/y":                nil,
		"http://10.0.0.1/":                handlers.ErrRefused,
		"http://[::ffff:10.0.0.1]/":       handlers.ErrRefused,
		"http://[64:ff9b::a00:1]/":        handlers.ErrRefused,
		"http://localhost/":               handlers.ErrRefused,
		"http://10.0.0.1/direct":          handlers.ErrRefused,
		"http://8.8.8.8/direct":           errNoNetwork,
		"http://169.254.169.254/metadata": handlers.ErrRefused,
	} {
		if err := h.ProcessTask(t.Context(), taskIn(t, object{"url": target}, "")); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", target, err, want)
		}
	}
	if len(through) != 2 {
		t.Errorf("through the proxy went %q", through)
	}
	failing := handlers.NewTestHTTPCall(handlers.HTTPOptions{Proxy: func(*http.Request) (*url.URL, error) { return nil, errNoNetwork }}, noNetwork, nil)
	if err := failing.ProcessTask(t.Context(), taskIn(t, object{"url": "http://a.example"}, "")); !errors.Is(err, errNoNetwork) {
		t.Errorf("no proxy can be told: %v", err)
	}
}
