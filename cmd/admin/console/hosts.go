package console

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// hosts are the names that the console is asked by. A page of another site can have its own name resolve to this
// machine, and then passes for ours in the eyes of the browser; but it cannot change that name.
type hosts map[string]bool

func newHosts(names []string) (hosts, error) {
	h := hosts{}
	for _, name := range names {
		bare := bareHost(name)
		if bare == "" || strings.ContainsAny(bare, "/*@ ") {
			return nil, fmt.Errorf("console: %q is no name of a host; write it like ops.example.com", name)
		}
		h[bare] = true
	}
	return h, nil
}

// allow tells whether a request names one of them, a loopback host, or the very address that it came to.
func (h hosts) allow(r *http.Request) bool {
	name := bareHost(r.Host)
	if h[name] || name == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(name)
	if err != nil {
		return false
	}
	if ip.Unmap().IsLoopback() {
		return true
	}
	local, _ := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if local == nil {
		return false
	}
	at, err := netip.ParseAddrPort(local.String())
	return err == nil && at.Addr().Unmap().WithZone("") == ip.Unmap().WithZone("")
}

// bareHost is a host without port, brackets and the last dot, in lower case.
func bareHost(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}
