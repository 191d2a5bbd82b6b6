package httpmeter

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// longest is what a number of seconds counts at most; far above any MaxHold that makes sense.
const longest = 10 * 366 * 24 * time.Hour

// holdOf is how long an answer asks to wait, 0 when it does not.
func holdOf(status int, h http.Header, now time.Time) time.Duration {
	date, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		date = now
	}
	if obeysRetryAfter(status) {
		if after, ok := retryAfter(h.Values("Retry-After"), date); ok {
			return after
		}
	}
	if age, ok := parseSeconds(h.Get("Age")); ok && age > 0 {
		return 0 // out of a cache: what it says is not of now
	}
	if limits, ok := parseRateLimit(h.Values("RateLimit")); ok {
		return limitHold(limits, parsePolicy(h.Values("RateLimit-Policy")))
	}
	for _, prefix := range []string{"RateLimit-", "X-RateLimit-", "X-Rate-Limit-"} {
		if after := olderHold(status, h.Get(prefix+"Remaining"), h.Get(prefix+"Reset"), date); after > 0 {
			return after
		}
	}
	return 0
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

// retryAfter reads Retry-After: seconds or a date. Of several the longest counts.
func retryAfter(values []string, date time.Time) (longestOf time.Duration, ok bool) {
	for _, v := range values {
		after, good := parseSeconds(v)
		if !good {
			at, err := http.ParseTime(strings.TrimSpace(v))
			if err != nil {
				continue
			}
			after = min(max(at.Sub(date), 0), longest)
		}
		longestOf, ok = max(longestOf, after), true
	}
	return longestOf, ok
}

// limitHold is the longest window of the limits that have nothing left.
func limitHold(limits []limitItem, policies map[string]policyItem) time.Duration {
	var hold time.Duration
	for _, l := range limits {
		if l.remaining > 0 {
			continue
		}
		window := l.window
		if p := policies[l.name]; window < 0 && p.unit != "concurrent-requests" {
			window = p.window
		}
		hold = max(hold, duration(float64(window)))
	}
	return hold
}

// olderHold reads the fields from before RateLimit.
func olderHold(status int, remaining, reset string, date time.Time) time.Duration {
	left, err := strconv.ParseFloat(strings.TrimSpace(remaining), 64)
	if spent := err == nil && left <= 0; !spent && (remaining != "" || status != http.StatusTooManyRequests) {
		return 0
	}
	const epoch, epochMillis = 1e9, 1e11 // no window is that long; 2001 in seconds, 1973 in milliseconds
	n, ok := parseNumber(reset)
	switch {
	case !ok:
		return 0
	case n >= epochMillis:
		return max(duration(n/1e3-float64(date.UnixMilli())/1e3), 0)
	case n >= epoch:
		return max(duration(n-float64(date.UnixMilli())/1e3), 0)
	default:
		return duration(n)
	}
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

// duration of so many seconds, rounded up to milliseconds, between 0 and longest.
func duration(seconds float64) time.Duration {
	if seconds >= longest.Seconds() {
		return longest
	}
	return max(time.Duration(math.Ceil(seconds*1e3))*time.Millisecond, 0)
}
