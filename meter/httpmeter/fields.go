package httpmeter

import (
	"encoding/json"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxInteger is the largest integer of a structured field: RFC 9651, section 3.3.1.
const maxInteger = 999_999_999_999_999

// quotaExceeded is the problem type of section 5.1 of the draft.
const quotaExceeded = "https://iana.org/assignments/http-problem-types#quota-exceeded"

// seconds rounds up, as delay-seconds must: too early would be refused.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d%time.Second > 0 {
		s++
	}
	return max(s, 0)
}

// limitField is an item of RateLimit: r units within t seconds.
func limitField(name string, remaining int64, window time.Duration) string {
	return quoted(name) + ";r=" + integer(remaining) + ";t=" + integer(seconds(window))
}

// policyField is an item of RateLimit-Policy: q units in w seconds. For a bucket, w is the time in which it drains when full, so
// that r never exceeds q and q / w is its rate, both in whole numbers: w rounded up and q down.
func policyField(q Quota) string {
	l := q.Meter.Limit()
	burst := l.Capacity
	if !bucket(l) {
		burst = l.Count
	}
	count, period, second := big.NewInt(l.Count), big.NewInt(int64(l.Period)), big.NewInt(int64(time.Second))
	// w = ceil(burst * period / count) in seconds
	w := new(big.Int).Mul(big.NewInt(burst), period)
	per := new(big.Int).Mul(count, second)
	w.Add(w, new(big.Int).Sub(per, big.NewInt(1))).Div(w, per)
	// q = floor(count * w / period)
	quantity := new(big.Int).Mul(w, per)
	quantity.Div(quantity, period)
	field := quoted(q.Name) + ";q=" + bigInteger(quantity)
	if q.Unit != "" {
		field += ";qu=" + quoted(q.Unit)
	}
	return field + ";w=" + bigInteger(w)
}

func bigInteger(n *big.Int) string {
	if !n.IsInt64() {
		return integer(maxInteger)
	}
	return integer(n.Int64())
}

func integer(n int64) string { return strconv.FormatInt(min(max(n, 0), maxInteger), 10) }

// quoted writes a String of RFC 9651, section 4.1.6; s is printable ASCII.
func quoted(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}

// printable tells whether s is made of ASCII from space to tilde.
func printable(s string) bool {
	for i := range len(s) {
		if s[i] < ' ' || s[i] > '~' {
			return false
		}
	}
	return true
}

// xFields sets the fields that most services had before there was a draft.
func xFields(h http.Header, limit, remaining int64, reset time.Time) {
	h.Set("X-RateLimit-Limit", integer(limit))
	h.Set("X-RateLimit-Remaining", integer(remaining))
	h.Set("X-RateLimit-Reset", integer(seconds(time.Duration(reset.UnixNano()))))
}

// problem is a problem document of RFC 9457.
type problem struct {
	Type     string   `json:"type"`
	Title    string   `json:"title"`
	Status   int      `json:"status"`
	Detail   string   `json:"detail,omitempty"`
	Violated []string `json:"violated-policies,omitempty"`
}

func (p problem) write(w http.ResponseWriter) {
	body, _ := json.Marshal(p) // strings and a number
	h := w.Header()
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // a client that is gone reads nothing
}
