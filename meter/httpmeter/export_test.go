package httpmeter

import (
	"net/http"
	"time"
)

// HoldOf is what an answer asks to wait.
func HoldOf(status int, h http.Header, now time.Time) time.Duration { return holdOf(status, h, now) }

// PolicyField is the item of RateLimit-Policy.
func PolicyField(q Quota) string { return policyField(q) }

// LimitField is an item of RateLimit.
func LimitField(name string, remaining int64, window time.Duration) string {
	return limitField(name, remaining, window)
}

// FirstLimit reads a RateLimit field and returns its first item: name, r, t or -1, and how many items there are, 0 when it is malformed.
func FirstLimit(lines ...string) (name string, remaining, window int64, n int) {
	items, ok := parseRateLimit(lines)
	if !ok {
		return "", 0, 0, 0
	}
	return items[0].name, items[0].remaining, items[0].window, len(items)
}

// Longest is what a hold is at most before MaxHold.
const Longest = longest

// HeldKeys is how many keys the transport remembers.
func (t *Transport) HeldKeys() int {
	t.holds.mu.Lock()
	defer t.holds.mu.Unlock()
	return len(t.holds.until)
}
