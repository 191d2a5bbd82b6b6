package ratelimit

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// pair is two fields of one limit: what is left of it, and when it is whole again.
type pair struct{ remaining, reset string }

// pairs are the names that are known, as net/http writes them. X-RateLimit-* is what most services have; with Reset-After it is
// Discord's, with -Requests and -Tokens OpenAI's, and X-Rate-Limit-* Twitter's. Without X- they are of the IETF's drafts up
// to 06.
func pairs() [10]pair {
	return [...]pair{
		{"Ratelimit-Remaining", "Ratelimit-Reset"},
		{"X-Ratelimit-Remaining", resetAfter},
		{"X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
		{"X-Rate-Limit-Remaining", "X-Rate-Limit-Reset"},
		{"X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
		{"X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
		{"Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
		{"Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"},
		{"Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset"},
		{"Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset"},
	}
}

// resetAfter is the same time as X-RateLimit-Reset, more exactly and without a clock to agree on.
const resetAfter = "X-Ratelimit-Reset-After"

// older reads the fields from before RateLimit. Of several limits that are used up, the longest wait counts.
func older(status int, h http.Header, date time.Time) (wait time.Duration, field string) {
	for _, p := range pairs() {
		reset := h.Get(p.reset)
		switch {
		case reset == "", !usedUp(status, h.Get(p.remaining)):
			continue
		case p.reset == "X-Ratelimit-Reset" && h.Get(resetAfter) != "":
			continue
		}
		if after := untilReset(reset, date); after > wait {
			wait, field = after, p.reset
		}
	}
	return wait, field
}

// usedUp: nothing is left, or nothing is said about it by an answer that refuses for just that.
func usedUp(status int, remaining string) bool {
	left, err := strconv.ParseFloat(strings.TrimSpace(remaining), 64)
	return err == nil && left <= 0 || remaining == "" && status == http.StatusTooManyRequests
}

// untilReset reads a reset in any of the forms that services send: seconds from now, seconds or milliseconds since 1970, a
// date of RFC 3339 (Atlassian's has no seconds), or a duration such as 6m0s.
func untilReset(s string, date time.Time) time.Duration {
	const epoch, epochMillis = 1e9, 1e11 // no window is that long; 2001 in seconds, 1973 in milliseconds
	s = strings.TrimSpace(s)
	n, ok := parseNumber(s)
	switch {
	case ok && n >= epochMillis:
		return duration(n/1e3 - float64(date.UnixMilli())/1e3)
	case ok && n >= epoch:
		return duration(n - float64(date.UnixMilli())/1e3)
	case ok:
		return duration(n)
	}
	if d, err := time.ParseDuration(s); err == nil {
		return min(max(d, 0), Longest)
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00"} {
		if at, err := time.Parse(layout, s); err == nil {
			return min(max(at.Sub(date), 0), Longest)
		}
	}
	return 0
}
