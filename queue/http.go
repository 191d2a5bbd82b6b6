package queue

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// HTTP is what http:call jobs of a class may reach, and how the services they call are heard.
type HTTP struct {
	// AllowPrivate lets them call loopback, private and link-local addresses.
	AllowPrivate bool
	// Hosts, when not empty, are the only hosts they may call: host names or host:port.
	Hosts []string
	// Schemes, when not empty, are the only ones: http, https.
	Schemes []string
	// Ports, when not empty, are the only ones, 1 to 65535.
	Ports []int
	// Redirects is how many of them a call follows, 0 to 10. Each target is checked like the first one.
	Redirects int
	// Secrets are the names of those that headers may hold, as {{secret:name}}: [a-z0-9][a-z0-9_-]{0,63}. They need Hosts,
	// so that a producer cannot have them sent elsewhere, and https, unless Schemes has http.
	Secrets []string
	// Hold is what a service closes that asks to be left alone: the bucket of the call, or the class. Empty means
	// [HoldBucket].
	Hold HoldScope
	// MaxHold is the longest that it can close it at a time, 1 s to 24 h. Zero means 1 h.
	MaxHold time.Duration
	// Anonymous leaves out the headers Idempotency-Key and Spout-Attempt.
	Anonymous bool
}

// HoldScope is what a service closes that asks to be left alone.
type HoldScope string

// The scopes.
const (
	HoldBucket HoldScope = "bucket"
	HoldClass  HoldScope = "class"
)

const defaultMaxHold = time.Hour

// httpJSON is HTTP in the words of the class file. What has its default is left out.
type httpJSON struct {
	AllowPrivate bool      `json:"allow_private"`
	Hosts        []string  `json:"hosts,omitempty"`
	Schemes      []string  `json:"schemes,omitempty"`
	Ports        []int     `json:"ports,omitempty"`
	Redirects    int       `json:"redirects,omitempty"`
	Secrets      []string  `json:"secrets,omitempty"`
	Hold         HoldScope `json:"hold,omitempty"`
	MaxHold      string    `json:"max_hold,omitempty"`
	Anonymous    bool      `json:"anonymous,omitempty"`
}

// MarshalJSON writes the settings in the words of the class file.
func (h HTTP) MarshalJSON() ([]byte, error) {
	j := httpJSON{h.AllowPrivate, h.Hosts, h.Schemes, h.Ports, h.Redirects, h.Secrets, h.Hold, "", h.Anonymous}
	if j.Hold == HoldBucket {
		j.Hold = ""
	}
	if h.MaxHold != 0 && h.MaxHold != defaultMaxHold {
		j.MaxHold = duration(h.MaxHold)
	}
	return json.Marshal(j)
}

// UnmarshalJSON is the inverse of MarshalJSON.
func (h *HTTP) UnmarshalJSON(data []byte) error {
	j := httpJSON{Hold: HoldBucket, MaxHold: defaultMaxHold.String()}
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	longest, err := time.ParseDuration(j.MaxHold)
	if err != nil {
		return fmt.Errorf("max_hold: %w", err)
	}
	*h = HTTP{j.AllowPrivate, j.Hosts, j.Schemes, j.Ports, j.Redirects, j.Secrets, j.Hold, longest, j.Anonymous}
	return nil
}

// setting is what Redis and handlers get: nothing when all is as usual.
func (h HTTP) setting() string {
	b, _ := json.Marshal(h) //nolint:errchkjson // strings, numbers and bools always marshal
	if string(b) == `{"allow_private":false}` {
		return ""
	}
	return string(b)
}

var secretName = regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{0,63}$`)

// isHost refuses what no url of a job could ever match: an entry that only looks as if it let something through.
func isHost(s string) bool {
	odd := func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune("/@*?", r) }
	return s != "" && s[0] != '.' && !strings.ContainsFunc(s, odd)
}

// validate reports what is out of its range to check.
func (h HTTP) validate(check func(ok bool, format string, args ...any)) {
	for _, host := range h.Hosts {
		check(isHost(host), "http.hosts: %q is not a host or host:port; there are no wildcards, and other than ASCII is written as xn--", clip(host))
	}
	for _, scheme := range h.Schemes {
		check(scheme == "http" || scheme == "https", "http.schemes: %q is neither http nor https", clip(scheme))
	}
	for _, port := range h.Ports {
		check(port >= 1 && port <= 65535, "http.ports: %d is not between 1 and 65535", port)
	}
	check(h.Redirects >= 0 && h.Redirects <= 10, "http.redirects %d is not between 0 and 10", h.Redirects)
	for _, name := range h.Secrets {
		check(secretName.MatchString(name), "http.secrets: %q is not [a-z0-9][a-z0-9_-]{0,63}", clip(name))
	}
	check(len(h.Secrets) == 0 || len(h.Hosts) > 0, "http.secrets need hosts: without them a job could send a secret anywhere")
	check(slices.Contains([]HoldScope{"", HoldBucket, HoldClass}, h.Hold), "http.hold %q is neither bucket nor class", clip(string(h.Hold)))
	check(h.MaxHold == 0 || h.MaxHold >= time.Second && h.MaxHold <= 24*time.Hour, "http.max_hold %v is not between 1s and 24h0m0s", h.MaxHold)
}
