package httpmeter_test

import (
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/spout-queue/spout/meter/httpmeter"
)

func TestClientAddr(t *testing.T) {
	t.Parallel()
	proxies := []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8")}
	for _, c := range []struct {
		what, peer string
		forwarded  []string
		trusted    []netip.Prefix
		want       string
	}{
		{"the peer", "203.0.113.7:4711", nil, nil, "203.0.113.7"},
		{"a peer that nobody trusts", "203.0.113.7:4711", []string{"1.1.1.1"}, proxies, "203.0.113.7"},
		{"no proxies are trusted", "10.0.0.1:80", []string{"1.1.1.1"}, nil, "10.0.0.1"},
		{"one proxy", "10.0.0.1:80", []string{"203.0.113.7"}, proxies, "203.0.113.7"},
		{"two proxies", "10.0.0.1:80", []string{"203.0.113.7, 10.2.2.2"}, proxies, "203.0.113.7"},
		{"what the client has made up", "10.0.0.1:80", []string{"1.1.1.1, 10.9.9.9, 203.0.113.7, 10.2.2.2"}, proxies, "203.0.113.7"},
		{"several lines", "10.0.0.1:80", []string{"1.1.1.1", "203.0.113.7", "10.2.2.2"}, proxies, "203.0.113.7"},
		{"ports", "10.0.0.1:80", []string{"203.0.113.7:1234"}, proxies, "203.0.113.7"},
		{"rubbish ends the way", "10.0.0.1:80", []string{"203.0.113.7, unknown, 10.2.2.2"}, proxies, "10.2.2.2"},
		{"nothing forwarded", "10.0.0.1:80", nil, proxies, "10.0.0.1"},
		{"all trusted", "10.0.0.1:80", []string{"10.1.1.1"}, proxies, "10.1.1.1"},
		{"a network of IPv6", "[2001:db8:0:1:a:b:c:d]:80", nil, nil, "2001:db8:0:1::/64"},
		{"IPv6 in brackets", "[fd00::1]:80", []string{"[2001:db8::7]:99"}, proxies, "2001:db8::/64"},
		{"a zone", "[fe80::1%eth0]:80", nil, nil, "fe80::/64"},
		{"IPv4 in IPv6", "[::ffff:203.0.113.7]:80", nil, nil, "203.0.113.7"},
		{"IPv4 in IPv6 is trusted", "[::ffff:10.0.0.1]:80", []string{"203.0.113.7"}, proxies, "203.0.113.7"},
		{"a Unix socket", "@", []string{"203.0.113.7"}, proxies, "@"},
	} {
		r := &http.Request{RemoteAddr: c.peer, Header: http.Header{"X-Forwarded-For": c.forwarded}}
		if got := httpmeter.ClientAddr(c.trusted...)(r); got != "address:"+c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}

// A client behind a trusted proxy cannot become somebody else, whatever it sends.
func FuzzClientAddr(f *testing.F) {
	for _, s := range []string{"", "1.1.1.1", "a, b", "10.0.0.1,,", "[::1]:80", ", ", "10.1.1.1, 10.1.1.1"} {
		f.Add(s)
	}
	key := httpmeter.ClientAddr(netip.MustParsePrefix("10.0.0.0/8"))
	f.Fuzz(func(t *testing.T, madeUp string) {
		if strings.ContainsAny(madeUp, "\r\n") {
			return
		}
		r := &http.Request{RemoteAddr: "10.0.0.1:80", Header: http.Header{"X-Forwarded-For": {madeUp, "203.0.113.7"}}}
		if got := key(r); got != "address:203.0.113.7" {
			t.Errorf("%q: %s", madeUp, got)
		}
	})
}
