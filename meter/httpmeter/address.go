package httpmeter

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// ClientAddr returns a [Quota] Key that is the address of the client: "address:203.0.113.7" or, since one client has as many as
// it likes of them, the network of an IPv6 address, "address:2001:db8:0:1::/64".
//
// A client can write any X-Forwarded-For itself. So it is read from its end, and only as far as each hop is one of the
// trusted proxies, beginning with the peer of the connection: the first address that is not one of them is the client. With no
// trusted proxies that is the peer. Each trusted proxy must append its own peer to the field, as proxies do by default; a peer
// that is no address, as on a Unix socket, is the key as it is.
func ClientAddr(trusted ...netip.Prefix) func(*http.Request) string {
	trusted = slices.Clone(trusted)
	return func(r *http.Request) string {
		client, ok := parseAddr(r.RemoteAddr)
		if !ok {
			return "address:" + r.RemoteAddr
		}
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		for _, hop := range slices.Backward(hops) {
			if !slices.ContainsFunc(trusted, func(p netip.Prefix) bool { return p.Contains(client) }) {
				break
			}
			before, ok := parseAddr(strings.TrimSpace(hop))
			if !ok {
				break // nobody knows further
			}
			client = before
		}
		if client.Is4() {
			return "address:" + client.String()
		}
		network, _ := client.Prefix(64) // no error: it is an IPv6 address
		return "address:" + network.String()
	}
}

// parseAddr reads an address with or without a port.
func parseAddr(s string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(s, "["), "]"))
	if err != nil {
		both, err := netip.ParseAddrPort(s)
		if err != nil {
			return netip.Addr{}, false
		}
		addr = both.Addr()
	}
	return addr.Unmap().WithZone(""), true
}
