package handlers

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Headers of a task that this package reads; doc.go has the whole list.
const (
	headerClass   = "Spout-Class"
	headerKey     = "Spout-Key"
	headerRef     = "Spout-Ref"
	headerAttempt = "Spout-Attempt"
	headerHTTP    = "Spout-Http"
)

// defaultMaxHold bounds a hold where the class says nothing.
const defaultMaxHold = time.Hour

// target is what the class of a job says about what may be called and how the answer is heard.
type target struct {
	class, key   string
	ref, attempt string // of the job; empty when the task has none

	allowPrivate   bool
	hosts, schemes []string // when not empty, only these
	ports          []int    // when not empty, only these
	redirects      int      // how many are followed
	secrets        []string // that a header may hold
	holdClass      bool     // a hold closes the class, not the bucket
	maxHold        time.Duration
	anonymous      bool // sends no ids of the job
}

// targetOf reads the settings out of the headers of a task. It fails closed.
func targetOf(headers map[string]string) (target, error) {
	t := target{
		class: headers[headerClass], key: headers[headerKey], ref: headers[headerRef], attempt: headers[headerAttempt],
		maxHold: defaultMaxHold,
	}
	settings, ok := headers[headerHTTP]
	if !ok {
		return t, nil
	}
	if err := eachField([]byte(settings), t.set); err != nil {
		return t, permanent(nil, "header %s of the task cannot be read, nothing is called without it: %s; "+
			"check the http settings of class %q and that scheduler and worker are of one version", headerHTTP, err, t.class)
	}
	return t, nil
}

func (t *target) set(name string, value json.RawMessage) error {
	switch name {
	case "allow_private":
		return decode(value, &t.allowPrivate)
	case "hosts":
		return decode(value, &t.hosts)
	case "schemes":
		return decode(value, &t.schemes)
	case "ports":
		return decode(value, &t.ports)
	case "redirects":
		return decode(value, &t.redirects)
	case "secrets":
		return decode(value, &t.secrets)
	case "hold":
		var scope string
		err := decode(value, &scope)
		t.holdClass = scope == "class"
		return err
	case "max_hold":
		return t.setMaxHold(value)
	case "anonymous":
		return decode(value, &t.anonymous)
	}
	return errUnknownField
}

func (t *target) setMaxHold(value json.RawMessage) error {
	var text string
	if err := decode(value, &text); err != nil || text == "" {
		return err
	}
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return errors.New("must be a duration above zero")
	}
	t.maxHold = d
	return nil
}

// check refuses, before anything is looked up, a call of another scheme, host or port than the class lists, and of
// the names of this machine.
func (t target) check(c *call) error {
	refuse := func(field, format string, args ...any) error {
		return permanent(ErrRefused, "%s: target refused: %s is not in http: {%s: [...]} of class %q; add it there to allow it",
			c.what(), fmt.Sprintf(format, args...), field, t.class)
	}
	port := cmp.Or(c.url.Port(), defaultPort(c.url.Scheme))
	switch listed := func(entry string) bool { return matchHost(entry, c.url) }; {
	case len(t.schemes) > 0 && !slices.Contains(t.schemes, c.url.Scheme):
		return refuse("schemes", "scheme %q", c.url.Scheme)
	case len(t.hosts) > 0 && !slices.ContainsFunc(t.hosts, listed):
		return refuse("hosts", "host %q", clip(c.hideSecrets(c.url.Host), maxURL))
	case len(t.ports) > 0 && !slices.ContainsFunc(t.ports, func(p int) bool { return fmt.Sprint(p) == port }):
		return refuse("ports", "port %s", port)
	case !t.allowPrivate && isLocalhost(c.url.Hostname()):
		return t.refused(c, &refusal{cause: errors.New("localhost is this machine")})
	}
	return nil
}

// refused turns the refusal of an address at connect time into the attempt's error. What a name resolved to is not
// for producers to know: the text has the address only where the job named it.
func (t target) refused(c *call, r *refusal) error {
	why := "it has no address that is publicly routable"
	if host := c.url.Hostname(); isLocalhost(host) || isAddress(host) {
		why = r.cause.Error()
	}
	return permanent(ErrRefused, "%s: target refused: %s; to let class %q call loopback, private and other "+
		"special-purpose addresses set http: {allow_private: true} in it", c.what(), why, t.class)
}

func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// matchHost tells whether entry, a host or host:port, is what u calls. Names
// match in any case but otherwise exactly, addresses in any notation, and an entry
// without a port matches every port.
func matchHost(entry string, u *url.URL) bool {
	host, port, err := net.SplitHostPort(entry)
	if err != nil {
		host, port = strings.TrimSuffix(strings.TrimPrefix(entry, "["), "]"), ""
	}
	want := cmp.Or(u.Port(), defaultPort(u.Scheme))
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

// asRefusal finds the refusal that err was caused by.
func asRefusal(err error) (*refusal, bool) {
	return errors.AsType[*refusal](err)
}
