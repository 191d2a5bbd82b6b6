package httpmeter

import "time"

// PolicyField is the item of RateLimit-Policy.
func PolicyField(q Quota) string { return policyField(q) }

// LimitField is an item of RateLimit.
func LimitField(name string, remaining int64, window time.Duration) string {
	return limitField(name, remaining, window)
}

// HeldKeys is how many keys the transport remembers.
func (t *Transport) HeldKeys() int {
	t.holds.mu.Lock()
	defer t.holds.mu.Unlock()
	return len(t.holds.until)
}
