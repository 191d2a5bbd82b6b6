package handlers_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/handlers"
)

// hostileHosts are hosts that a job may not call unless its class says so.
var hostileHosts = []string{
	"127.0.0.1", "127.255.255.254", "localhost", "LOCALHOST", "localhost.", "a.localhost", "0.0.0.0", "0.1.2.3",
	"10.0.0.1", "172.16.0.1", "172.31.255.255", "192.168.1.1", "100.64.0.1", "169.254.169.254", "198.18.0.1",
	"192.0.0.1", "192.0.2.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
	"[::1]", "[0:0:0:0:0:0:0:1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::ffff:169.254.169.254]", "[::127.0.0.1]",
	"[fe80::1]", "[fe80::1%25lo]", "[fc00::1]", "[fd00:ec2::254]", "[ff02::1]", "[fec0::1]",
	"[64:ff9b::7f00:1]", "[64:ff9b::a9fe:a9fe]", "[64:ff9b:1::7f00:1]", "[2002:7f00:1::]", "[2002:a9fe:a9fe::1]",
	"[2001::1]", "[2001:0:7f00:1::]", "[2001:db8::1]", "[2001:db8::1%25lo]", "[::ffff:0:127.0.0.1]", "[100::1]", "[3fff::1]", "[5f00::1]",
	"2130706433", "0x7f000001", "017700000001", "0x7f.1", "127.1", "127.0.0.1.", "0177.0.0.1", "0", "0x7f.0x0.0x0.0x1", "2852039166",
}

// hostileNames resolve to what may not be called.
var hostileNames = map[string][]string{
	"loopback.example":    {"127.0.0.1"},
	"private.example":     {"10.0.0.1"},
	"metadata.example":    {"169.254.169.254"},
	"shared.example":      {"100.64.0.1"},
	"loopback6.example":   {"::1"},
	"mapped.example":      {"::ffff:10.0.0.1"},
	"nat64.example":       {"64:ff9b::a00:1"},
	"local-nat64.example": {"64:ff9b:1::a00:1"},
	"6to4.example":        {"2002:a00:1::1"},
	"teredo.example":      {"2001:0:a00:1::1"},
	"unique.example":      {"fd00:ec2::254"},
	"link.example":        {"fe80::1"},
}

// hostileURLs are all of these and what else somebody may try.
func hostileURLs() []string {
	var urls []string
	for _, host := range hostileHosts {
		urls = append(urls, "http://"+host+"/")
	}
	for name := range hostileNames {
		urls = append(urls, "http://"+name+"/")
	}
	return append(
		urls, "http://127.0.0.1:22/", "https://10.0.0.1/", "http://user@127.0.0.1/", "http://8.8.8.8@127.0.0.1/", "http://127.0.0.1#@a.example/",
		"http://a.example\\@127.0.0.1/", "http://%31%32%37.0.0.1/", "http://127。0。0。1/", "http://①②⑦.0.0.1/", "file:///etc/passwd",
		"gopher://127.0.0.1:6379/_FLUSHALL", "http:///127.0.0.1/", "http://[127.0.0.1]/", "http://127.0.0.1:80:80/", "//127.0.0.1/",
	)
}

// newFortress returns an HTTPCall that is guarded as the real one, asks the given name server, and reaches a service called
// open.example and nothing else. What passes the guard is an error.
func newFortress(t *testing.T, n *names, open http.HandlerFunc) *handlers.HTTPCall {
	t.Helper()
	srv := newService(t, open)
	guarded := handlers.GuardedDial(n.resolver(t), func(address string) error {
		return fmt.Errorf("%w: %s passed the guard", errNoNetwork, address)
	})
	h := handlers.NewGuardedHTTPCall(handlers.HTTPOptions{}, func(ctx context.Context, network, addr string) (net.Conn, error) {
		if addr == "open.example:80" {
			return new(net.Dialer).DialContext(ctx, network, srv.Listener.Addr().String())
		}
		return guarded(ctx, network, addr)
	}, noNetwork)
	t.Cleanup(h.CloseIdleConnections)
	return h
}

func TestHostileURLsAreRefused(t *testing.T) {
	t.Parallel()
	urls := hostileURLs()
	if len(urls) < 60 {
		t.Fatalf("only %d of them", len(urls))
	}
	h := newFortress(t, newNames(hostileNames), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", r.URL.Query().Get("to"))
		w.WriteHeader(http.StatusTemporaryRedirect)
	})
	for _, url := range urls {
		for _, settings := range []string{
			"", `{}`, `{"allow_private":false}`, `{"allow_private":null,"hosts":null}`, `{"hosts":["127.0.0.1"]}`, `{"redirects":3}`,
		} {
			err := h.ProcessTask(t.Context(), taskIn(t, object{"url": url}, settings))
			if !errors.Is(err, asynq.SkipRetry) || errors.Is(err, errNoNetwork) {
				t.Errorf("%s with settings %q: got %v, want a permanent error", url, settings, err)
			}
		}
		if strings.HasPrefix(url, "//") {
			continue // relative to open.example it has a scheme
		}
		redirect := strings.NewReplacer("%", "%25", "#", "%23", "\\", "%5C").Replace(url)
		err := h.ProcessTask(t.Context(), taskIn(t, object{"url": "http://open.example/?to=" + redirect}, `{"redirects":3}`))
		if !errors.Is(err, asynq.SkipRetry) || errors.Is(err, errNoNetwork) {
			t.Errorf("redirected to %s: got %v, want a permanent error", url, err)
		}
	}
	if err := h.ProcessTask(t.Context(), taskIn(t, object{"url": "http://open.example/?to=//127.0.0.1/"}, `{"redirects":3}`)); !errors.Is(err, handlers.ErrRefused) {
		t.Errorf("redirected without a scheme: %v", err)
	}
}

// TestRebinding: a name that resolves to something public first is refused when it does not any more, and of several
// addresses only those are called that may be.
func TestRebinding(t *testing.T) {
	t.Parallel()
	h := newFortress(t, newNames(map[string][]string{"rebind.example": {"8.8.8.8", "127.0.0.1"}}), ok)
	job := taskIn(t, object{"url": "http://rebind.example/"}, "")
	if err := h.ProcessTask(t.Context(), job); !errors.Is(err, errNoNetwork) {
		t.Errorf("public: %v; want it to pass the guard", err)
	}
	if err := h.ProcessTask(t.Context(), job); !errors.Is(err, handlers.ErrRefused) {
		t.Errorf("private: %v; want ErrRefused", err)
	}
}

// TestNothingOfTheInnerNetwork: what a name resolved to, which name server said so and which address this machine has are
// in no error text; what the job itself named is.
func TestNothingOfTheInnerNetwork(t *testing.T) {
	t.Parallel()
	h := newFortress(t, newNames(hostileNames), ok)
	for name, addresses := range hostileNames {
		err := h.ProcessTask(t.Context(), taskIn(t, object{"url": "http://" + name + "/"}, ""))
		if err == nil || strings.Contains(err.Error(), addresses[0]) || !strings.Contains(err.Error(), "it has no address that is publicly routable") {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := h.ProcessTask(t.Context(), taskIn(t, object{"url": "http://none.example/"}, "")); err == nil ||
		!strings.Contains(err.Error(), "no such host") || handlers.HideAddresses(err.Error(), "") != err.Error() {
		t.Errorf("a name that does not exist: %v", err)
	}
	if err := h.ProcessTask(t.Context(), taskIn(t, object{"url": "http://10.0.0.1/"}, "")); err == nil || strings.Count(err.Error(), "10.0.0.1") != 2 {
		t.Errorf("an address of the job's own: %v", err)
	}
	for text, want := range map[string]string{
		"dial tcp 10.1.2.3:443: connect: connection refused":            "dial tcp [address]:443: connect: connection refused",
		"lookup a.example on 10.0.0.2:53: no such host":                 "lookup a.example on [address]:53: no such host",
		"read tcp 10.0.0.5:43210->10.1.2.3:443: connection reset":       "read tcp [address]:43210->[address]:443: connection reset",
		"read tcp [fe80::1%eth0]:43210->[fd00::1]:443: broken pipe":     "read tcp [[address]]:43210->[[address]]:443: broken pipe",
		"x509: certificate is valid for 10.0.0.5, ::1, not a.example":   "x509: certificate is valid for [address], [address], not a.example",
		"dial tcp 8.8.4.4:443: refused, not [8.8.4.4]:443 nor 8.8.4.40": "dial tcp 8.8.4.4:443: refused, not [8.8.4.4]:443 nor [address]",
		"at 12:00:30 of 1.5 or face:b00c: dead beef":                    "at 12:00:30 of 1.5 or face:b00c: dead beef",
	} {
		if got := handlers.HideAddresses(text, "8.8.4.4"); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
