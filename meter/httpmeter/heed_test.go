package httpmeter_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/meter/httpmeter"
)

var now = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestHoldOf(t *testing.T) {
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
		{"huge", 429, []string{"Retry-After", strings.Repeat("9", 300)}, httpmeter.Longest},
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
		{"draft 07 is ignored", 200, []string{"RateLimit", `limit=10, remaining=0, reset=9`}, 0},
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
		{"the new field goes before", 429, []string{"RateLimit", `"a";r=1;t=9`, "X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "9"}, 0},
	} {
		if got := httpmeter.HoldOf(c.status, answered(c.status, c.fields...).header(), now); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
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
		_, r, _, n := httpmeter.FirstLimit(field)
		if (n > 0) != want || want && r != 1 && r != 999999999999999 {
			t.Errorf("%.60q: %d items, r=%d; want ok %v", field, n, r, want)
		}
	}
}

// Whatever a server sends, the hold is within its bounds.
func FuzzHoldOf(f *testing.F) {
	f.Add(429, "7", `"a";r=0;t=9`, `"a";q=1;w=60`, "0", "1772366430", "Sun, 01 Mar 2026 12:00:00 GMT", "0")
	f.Add(200, "Sun, 06 Nov 1994 08:49:37 GMT", `"a\\";r=0;x=%"a%20";y=:aa=:`, "", "1e3", "-1", "rubbish", "")
	f.Add(503, "9999999999999999999999", `a;r=0;t=999999999999999`, "", "", "9.9.9", "", "1")
	f.Fuzz(func(t *testing.T, status int, after, limit, policy, remaining, reset, date, age string) {
		h := http.Header{
			"Retry-After": {after}, "Ratelimit": {limit}, "Ratelimit-Policy": {policy}, "X-Ratelimit-Remaining": {remaining},
			"X-Ratelimit-Reset": {reset}, "Date": {date}, "Age": {age},
		}
		if hold := httpmeter.HoldOf(status, h, now); hold < 0 || hold > httpmeter.Longest {
			t.Errorf("held for %v", hold)
		}
	})
}

// What the middleware writes, the transport reads.
func FuzzLimitField(f *testing.F) {
	f.Add("default", int64(1), int64(time.Second))
	f.Add(`a"b\c`, int64(-1), int64(1))
	f.Fuzz(func(t *testing.T, name string, remaining, window int64) {
		for i := range len(name) {
			if name[i] < ' ' || name[i] > '~' {
				return
			}
		}
		if len(name) > 64 {
			return
		}
		field := httpmeter.LimitField(name, remaining, time.Duration(window))
		gotName, r, w, n := httpmeter.FirstLimit(field, field)
		if n != 2 || gotName != name || r != min(max(remaining, 0), 999_999_999_999_999) || time.Duration(w)*time.Second < time.Duration(window) {
			t.Errorf("%s: read %q r=%d t=%d, %d items", field, gotName, r, w, n)
		}
	})
}

// A field that is read can be cut into its lines anywhere between items.
func FuzzStructuredList(f *testing.F) {
	f.Add(`"a";r=1`, `b;r=0;t=7;pk=:aa==:`)
	f.Fuzz(func(t *testing.T, a, b string) {
		_, _, _, first := httpmeter.FirstLimit(a)
		_, _, _, second := httpmeter.FirstLimit(b)
		_, _, _, both := httpmeter.FirstLimit(a, b)
		if first > 0 && second > 0 && len(a)+len(b) < 8000 && both != first+second {
			t.Errorf("%q and %q: %d, %d and together %d", a, b, first, second, both)
		}
	})
}
