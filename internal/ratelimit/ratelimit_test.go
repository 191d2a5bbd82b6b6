package ratelimit_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/internal/ratelimit"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestWait(t *testing.T) {
	t.Parallel()
	const s = time.Second
	later := now.Add(30 * s).Format(http.TimeFormat)
	for _, c := range []struct {
		what   string
		status int
		fields []string
		want   time.Duration
	}{
		{"nothing", 429, nil, 0},
		{"seconds", 429, []string{"Retry-After", " 12 "}, 12 * s},
		{"zero", 429, []string{"Retry-After", "0", "RateLimit", `"a";r=0;t=9`}, 0},
		{"decimals", 429, []string{"Retry-After", "1.2345"}, 1235 * time.Millisecond},
		{"503", 503, []string{"Retry-After", "12"}, 12 * s},
		{"403", 403, []string{"Retry-After", "12"}, 12 * s},
		{"a redirect", 301, []string{"Retry-After", "12"}, 12 * s},
		{"a 202 says when to ask again", 202, []string{"Retry-After", "12"}, 0},
		{"a 200", 200, []string{"Retry-After", "12"}, 0},
		{"a date", 429, []string{"Retry-After", later}, 30 * s},
		{"a date and the server's clock", 429, []string{"Retry-After", later, "Date", now.Add(20 * s).Format(http.TimeFormat)}, 10 * s},
		{"an RFC 850 date", 429, []string{"Retry-After", "Sunday, 01-Mar-26 12:00:30 GMT"}, 30 * s},
		{"a date gone by", 429, []string{"Retry-After", "Sun, 06 Nov 1994 08:49:37 GMT"}, 0},
		{"the longer of two", 429, []string{"Retry-After", "12", "Retry-After", "13"}, 13 * s},
		{"rubbish, then the others count", 429, []string{"Retry-After", "soon", "RateLimit", `"a";r=0;t=9`}, 9 * s},
		{"negative", 429, []string{"Retry-After", "-5"}, 0},
		{"hexadecimal", 429, []string{"Retry-After", "0x10"}, 0},
		{"huge", 429, []string{"Retry-After", strings.Repeat("9", 300)}, ratelimit.Longest},
		{"Retry-After goes first", 429, []string{"Retry-After", "3", "RateLimit", `"a";r=0;t=9`}, 3 * s},

		{"something is left", 200, []string{"RateLimit", `"a";r=1;t=9`}, 0},
		{"used up", 200, []string{"RateLimit", `"a";r=0;t=9`}, 9 * s},
		{"a token", 200, []string{"RateLimit", `a;r=0;t=9`}, 9 * s},
		{"the longest of several", 200, []string{"RateLimit", `"a";r=0;t=9, "b";r=0;t=11`, "RateLimit", `"c";r=1;t=99`}, 11 * s},
		{"no window", 200, []string{"RateLimit", `"a";r=0`}, 0},
		{"the window of the policy", 200, []string{"RateLimit", `"a";r=0`, "RateLimit-Policy", `"b";q=1;w=5, "a";q=10;w=60`}, time.Minute},
		{"concurrent requests", 200, []string{"RateLimit", `"a";r=0`, "RateLimit-Policy", `"a";q=10;qu="concurrent-requests";w=60`}, 0},
		{"a bad policy", 200, []string{"RateLimit", `"a";r=0`, "RateLimit-Policy", `"a";q=10;w=-60`}, 0},
		{"malformed is ignored", 200, []string{"RateLimit", `"a";r=0;t=9,`}, 0},
		{"draft 07", 200, []string{"RateLimit", `limit=10, remaining=0, reset=9`}, 9 * s},
		{"draft 07 with something left", 200, []string{"RateLimit", `limit=10, remaining=1, reset=9`}, 0},
		{"draft 07 without remaining", 429, []string{"RateLimit", `limit=10, reset=9`}, 0},
		{"draft 07, negative", 429, []string{"RateLimit", `limit=10, remaining=0, reset=-9`}, 0},
		{"draft 07 of another type", 429, []string{"RateLimit", `limit=10, remaining="0", reset=9`}, 0},
		{"a negative r", 200, []string{"RateLimit", `"a";r=-1;t=9`}, 0},
		{"a negative t", 200, []string{"RateLimit", `"a";r=0;t=-9`}, 0},
		{"an r of another type", 200, []string{"RateLimit", `"a";r="0";t=9`}, 0},
		{"out of a cache", 200, []string{"RateLimit", `"a";r=0;t=9`, "Age", "5"}, 0},
		{"fresh out of it", 200, []string{"RateLimit", `"a";r=0;t=9`, "Age", "0"}, 9 * s},

		{"older", 200, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "9"}, 9 * s},
		{"older with something left", 200, []string{"X-RateLimit-Remaining", "3", "X-RateLimit-Reset", "9"}, 0},
		{"older in epoch seconds", 403, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1772366430"}, 30 * s},
		{"older in epoch decimals", 403, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1772366430.25"}, 30250 * time.Millisecond},
		{"older in epoch milliseconds", 429, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1772366430000"}, 30 * s},
		{"older by the server's clock", 200, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1772366430", "Date", now.Add(-10 * s).Format(http.TimeFormat)}, 40 * s},
		{"older and gone by", 200, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1600000000"}, 0},
		{"older without remaining", 200, []string{"X-RateLimit-Reset", "9"}, 0},
		{"older without remaining, but refused", 429, []string{"X-RateLimit-Reset", "9"}, 9 * s},
		{"older and something left, but refused", 429, []string{"X-RateLimit-Remaining", "3", "X-RateLimit-Reset", "9"}, 0},
		{"drafts up to 06", 200, []string{"RateLimit-Remaining", "0", "RateLimit-Reset", "9"}, 9 * s},
		{"X-Rate-Limit", 200, []string{"X-Rate-Limit-Remaining", "0", "X-Rate-Limit-Reset", "9"}, 9 * s},
		{"NaN", 429, []string{"X-RateLimit-Remaining", "NaN", "X-RateLimit-Reset", "9"}, 0},
		{"Retry-After in milliseconds", 429, []string{"Retry-After", "2", "Retry-After-Ms", "1250"}, 1250 * time.Millisecond},
		{"and Azure's", 429, []string{"x-ms-retry-after-ms", "31"}, 31 * time.Millisecond},
		{"Discord", 429, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1772366431.337", "X-RateLimit-Reset-After", "0.337"}, 337 * time.Millisecond},
		{"Twitter", 200, []string{"x-rate-limit-remaining", "0", "x-rate-limit-reset", "1772366430"}, 30 * s},
		{"Reddit's decimals", 200, []string{"X-Ratelimit-Remaining", "0.0", "X-Ratelimit-Reset", "9"}, 9 * s},
		{"Shopify", 429, []string{"Retry-After", "2.0", "X-Shopify-Shop-Api-Call-Limit", "40/40"}, 2 * s},
		{"OpenAI", 429, []string{"x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "6m0s", "x-ratelimit-remaining-tokens", "12", "x-ratelimit-reset-tokens", "7h"}, 6 * time.Minute},
		{"OpenAI's tokens", 429, []string{"x-ratelimit-remaining-requests", "5", "x-ratelimit-reset-requests", "6m0s", "x-ratelimit-remaining-tokens", "0", "x-ratelimit-reset-tokens", "20ms"}, 20 * time.Millisecond},
		{"Anthropic", 429, []string{"anthropic-ratelimit-requests-remaining", "0", "anthropic-ratelimit-requests-reset", "2026-03-01T12:00:30Z"}, 30 * s},
		{"the longest of two limits", 429, []string{
			"anthropic-ratelimit-requests-remaining", "0", "anthropic-ratelimit-requests-reset", "2026-03-01T12:00:30Z",
			"anthropic-ratelimit-tokens-remaining", "0", "anthropic-ratelimit-tokens-reset", "2026-03-01T12:00:40Z",
		}, 40 * s},
		{"Atlassian", 429, []string{"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "2026-03-01T12:01Z"}, time.Minute},
		{"a date with a zone", 429, []string{"X-RateLimit-Reset", "2026-03-01T14:00:30+02:00"}, 30 * s},
		{"a negative duration", 429, []string{"X-RateLimit-Reset", "-6m"}, 0},
		{"a duration beyond all measure", 429, []string{"X-RateLimit-Reset", "2000000h"}, ratelimit.Longest},
		{"a reset that is none", 429, []string{"X-RateLimit-Reset", "tomorrow"}, 0},
		{"the new field goes before", 429, []string{"RateLimit", `"a";r=1;t=9`, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "9"}, 0},
	} {
		if got, field := ratelimit.Wait(c.status, fields(c.fields), now); got != c.want || got > 0 && field == "" {
			t.Errorf("%s: %v by %q, want %v", c.what, got, field, c.want)
		}
	}
}

func TestStructuredFields(t *testing.T) {
	t.Parallel()
	for field, want := range map[string]bool{
		`"a";r=1`:                  true,
		`  "a";r=1  `:              true,
		"\"a\";r=1\t ,\t\"b\";r=2": true,
		`"a\"\\";  r=1;x;y=?0;z=:aGk=:;*k=tok/en:1;d=-1.125;e=@1659578233;f=%"f%c3%bc"`: true,
		`"a";r=5;r=1`:            true, // the last counts
		`"a";r=999999999999999`:  true,
		``:                       false,
		` `:                      false,
		`"a"`:                    false, // r is required
		`"a";r=1000000000000000`: false,
		`"a";r`:                  false,
		`"a";r=`:                 false,
		`"a";R=1`:                false,
		`"a";r=1;`:               false,
		`"a";r=1,`:               false,
		`,"a";r=1`:               false,
		`"a";r=1 "b";r=1`:        false,
		`"a;r=1`:                 false,
		`"\a";r=1`:               false,
		"\"\x7f\";r=1":           false,
		`"ä";r=1`:                false,
		`"a" ;r=1`:               false,
		`1;r=1`:                  false, // a name is no number
		`("a");r=1`:              false,
		`"a";r=1;x=1.`:           false,
		`"a";r=1;x=1.1234`:       false,
		`"a";r=1;x=?2`:           false,
		`"a";r=1;x=:aGk`:         false,
		`"a";r=1;x=@1.5`:         false,
		`"a";r=1;x=%"%C3"`:       false,
		`"a";r=1;x=-`:            false,
		`"a";r=1` + strings.Repeat(" ", 9000) + `,"b";r=1`: false,
	} {
		_, r, _, n := ratelimit.FirstLimit(field)
		if (n > 0) != want || want && r != 1 && r != 999999999999999 {
			t.Errorf("%.60q: %d items, r=%d; want ok %v", field, n, r, want)
		}
	}
}

// Whatever a server sends, the hold is within its bounds.
func FuzzWait(f *testing.F) {
	f.Add(429, "7", `"a";r=0;t=9`, `"a";q=1;w=60`, "0", "1772366430", "Sun, 01 Mar 2026 12:00:00 GMT", "0")
	f.Add(200, "Sun, 06 Nov 1994 08:49:37 GMT", `"a\\";r=0;x=%"a%20";y=:aa=:`, "", "1e3", "-1", "rubbish", "")
	f.Add(429, "", `limit=1, remaining=0, reset=9`, "", "", "6m0s", "", "")
	f.Add(429, "", "", "", "0", "2026-03-01T12:01Z", "", "")
	f.Add(503, "9999999999999999999999", `a;r=0;t=999999999999999`, "", "", "9.9.9", "", "1")
	f.Fuzz(func(t *testing.T, status int, after, limit, policy, remaining, reset, date, age string) {
		h := http.Header{
			"Retry-After": {after}, "Ratelimit": {limit}, "Ratelimit-Policy": {policy}, "X-Ratelimit-Remaining": {remaining},
			"X-Ratelimit-Reset": {reset}, "Date": {date}, "Age": {age},
		}
		if hold, _ := ratelimit.Wait(status, h, now); hold < 0 || hold > ratelimit.Longest {
			t.Errorf("held for %v", hold)
		}
	})
}

// A field that is read can be cut into its lines anywhere between items.
func FuzzStructuredList(f *testing.F) {
	f.Add(`"a";r=1`, `b;r=0;t=7;pk=:aa==:`)
	f.Fuzz(func(t *testing.T, a, b string) {
		_, _, _, first := ratelimit.FirstLimit(a)
		_, _, _, second := ratelimit.FirstLimit(b)
		_, _, _, both := ratelimit.FirstLimit(a, b)
		if first > 0 && second > 0 && len(a)+len(b) < 8000 && both != first+second {
			t.Errorf("%q and %q: %d, %d and together %d", a, b, first, second, both)
		}
	})
}

// fields makes a header of names and values.
func fields(list []string) http.Header {
	h := http.Header{}
	for i := 0; i < len(list); i += 2 {
		h.Add(list[i], list[i+1])
	}
	return h
}
