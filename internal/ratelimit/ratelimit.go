// Package ratelimit reads what the answer of an HTTP service says about its limits: how long its caller should leave it
// alone. It knows Retry-After, the RateLimit fields of the IETF (draft-ietf-httpapi-ratelimit-headers, and what its drafts 06
// and 07 had), and the older fields that services made up on their own.
package ratelimit

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Longest is what an answer can ask for at most.
const Longest = 10 * 366 * 24 * time.Hour

// Wait is how long an answer asks its caller to wait, between 0 and [Longest], and the field that says so. Without such a
// field it is 0 and "". Dates are compared with the Date of the answer, so that the clocks need not agree; now stands for
// it where there is none.
func Wait(status int, h http.Header, now time.Time) (wait time.Duration, field string) {
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		date = now
	}
	if obeysRetryAfter(status) {
		if after, field := retryAfter(h, date); field != "" {
			return after, field
		}
	}
	if age, ok := parseSeconds(h.Get("Age")); ok && age > 0 {
		return 0, "" // out of a cache: what it says is not of now
	}
	if limits, ok := parseRateLimit(h.Values("Ratelimit")); ok {
		return spent(limits, parsePolicy(h.Values("Ratelimit-Policy")))
	}
	return older(status, h, date)
}

// obeysRetryAfter: of other answers it says when to ask for the same thing again, as of a 202, and nothing about a limit. 403 is how
// GitHub answers.
func obeysRetryAfter(status int) bool {
	switch status {
	case http.StatusForbidden, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		return true
	default:
		return status >= 300 && status <= 399
	}
}

// retryAfter reads Retry-After, seconds or a date; of several the longest counts. Where there is one in milliseconds too,
// it is the same time, more exactly.
func retryAfter(h http.Header, date time.Time) (wait time.Duration, field string) {
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if ms, ok := parseNumber(h.Get(name)); ok {
			return duration(ms / 1e3), name
		}
	}
	for _, v := range h.Values("Retry-After") {
		after, good := parseSeconds(v)
		if !good {
			at, err := http.ParseTime(strings.TrimSpace(v))
			if err != nil {
				continue
			}
			after = min(max(at.Sub(date), 0), Longest)
		}
		wait, field = max(wait, after), "Retry-After"
	}
	return wait, field
}

// parseSeconds reads a number of seconds. The standard has whole ones; some servers send decimals.
func parseSeconds(s string) (time.Duration, bool) {
	n, ok := parseNumber(s)
	return duration(n), ok
}

// parseNumber reads digits, perhaps with a point and more of them.
func parseNumber(s string) (float64, bool) {
	s = strings.TrimSpace(s)
	if s == "" || s[0] == '.' || strings.Trim(s, "0123456789.") != "" {
		return 0, false
	}
	n, err := strconv.ParseFloat(s, 64)
	return n, err == nil
}

// duration of so many seconds, rounded up to milliseconds, between 0 and Longest.
func duration(seconds float64) time.Duration {
	if seconds >= Longest.Seconds() {
		return Longest
	}
	return max(time.Duration(math.Ceil(seconds*1e3))*time.Millisecond, 0)
}
