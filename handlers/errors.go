package handlers

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hibiken/asynq"
)

var (
	// ErrUnknownType is wrapped by the error of [Mux.ProcessTask] for a task whose
	// type has no handler.
	ErrUnknownType = errors.New("handlers: unknown task type")
	// ErrRefused is wrapped by the error of [HTTPCall.ProcessTask] for a target that
	// the class of the job does not allow: a loopback, private or other
	// special-purpose address, or a host that is not in its list.
	ErrRefused = errors.New("handlers: target refused")
)

// What an error text may hold, in bytes. Errors end up in Redis, logs and
// terminals, and parts of them are chosen by producers and called services.
const (
	maxName    = 64   // a name out of a payload
	maxURL     = 512  // a url
	maxSnippet = 256  // the beginning of a response's body
	maxText    = 1024 // an error of net/http, which can quote what a service sent
)

// StatusError is the error of a call that was answered with a status other than
// 2xx.
type StatusError struct {
	// Method is the method of the call.
	Method string
	// URL is the called url without its query, which may hold secrets; at most 512 bytes.
	URL string
	// Status is the status code of the answer.
	Status int
	// Location is where a 3xx answer points to that was not followed: a host, with
	// its port if it names one. Empty in all other cases.
	Location string
	// Body is the beginning of the answer's body, at most 256 bytes of valid UTF-8
	// with a space in place of each character that cannot be printed. The query of
	// the called url is masked in it.
	Body string
}

// Throttled tells, of an answer that asks to be left alone, whether it does so because of too many calls: a 503 does not.
func (e *StatusError) Throttled() bool {
	return e.Status == http.StatusTooManyRequests || e.Status == http.StatusForbidden
}

// Error names the call, the status and the beginning of the answer.
func (e *StatusError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s: answered %d", e.Method, e.URL, e.Status)
	if text := http.StatusText(e.Status); text != "" {
		b.WriteString(" " + text)
	}
	if e.Location != "" {
		fmt.Fprintf(&b, ", a redirect to host %q; redirects are not followed further, put the final url into the job or see http: {redirects: N}", e.Location)
	}
	if e.Body != "" {
		fmt.Fprintf(&b, ": %q", e.Body)
	}
	return b.String()
}

// RetryAfterError is a failed attempt that names the time before the next one, in
// place of the class's backoff: a handler wraps with it what a called service
// asked for. It counts as an attempt.
type RetryAfterError struct {
	// Err is what failed.
	Err error
	// After is the time until the next attempt may depart: not negative, and at most
	// 720 h count.
	After time.Duration
}

// RetryAfter tells the scheduler when to try again.
func (e *RetryAfterError) RetryAfter() time.Duration { return e.After }

func (e *RetryAfterError) Error() string { return fmt.Sprintf("%v; retry after %v", e.Err, e.After) }
func (e *RetryAfterError) Unwrap() error { return e.Err }

// HoldError says that a called service asked to be left alone. It is no failed attempt: the job returns to the head of its
// bucket, which is held meanwhile, and the text is the reason of that hold.
type HoldError struct {
	// Err is what the service said.
	Err error
	// For is how long, above zero.
	For time.Duration
	// Class tells that the hold is for all buckets of the class.
	Class bool
}

// Hold tells the scheduler how long to hold, and whether the whole class.
func (e *HoldError) Hold() (d time.Duration, class bool) { return e.For, e.Class }

func (e *HoldError) Error() string {
	return fmt.Sprintf("%v; held for %v", e.Err, e.For.Round(time.Millisecond))
}
func (e *HoldError) Unwrap() error { return e.Err }

// notReadyError says that an attempt did not start because its departure was no
// longer good. The scheduler knows it by its method.
type notReadyError struct {
	what string        // method and url of the call
	host string        // host:port that was dialled
	wait time.Duration // from the start of the handler to the end of the departure; not positive: none was left
}

// GiveBack tells the scheduler to return the job to the head of its bucket.
func (*notReadyError) GiveBack() bool { return true }

func (e *notReadyError) Error() string {
	if e.wait <= 0 {
		return e.what + ": the departure was no longer good when the call began; given back"
	}
	return fmt.Sprintf("%s: connection to %s was not ready within %s; given back", e.what, e.host, e.wait)
}

// wrapped is an error with a text of its own: its causes are there for errors.Is
// and errors.As but not in the text.
type wrapped struct {
	text   string
	causes []error
}

func (w *wrapped) Error() string   { return w.text }
func (w *wrapped) Unwrap() []error { return w.causes }

// permanent returns an error that fails the job for good. Its text is the
// formatted one alone; cause is what it can be recognised by, or nil.
func permanent(cause error, format string, args ...any) error {
	causes := []error{asynq.SkipRetry}
	if cause != nil {
		causes = append(causes, cause)
	}
	return &wrapped{text: fmt.Sprintf(format, args...), causes: causes}
}

// badPayload returns the permanent error of a payload that cannot be called.
func badPayload(err error) error {
	return permanent(nil, "bad %s payload: %s", HTTPCallType, err)
}

// shownURL is what error texts show of u: neither userinfo nor query nor fragment.
func shownURL(u *url.URL) string {
	bare := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	return bare.String()
}

// addressLike is what an IP address, perhaps with a port, is made of.
var addressLike = regexp.MustCompile(`[0-9A-Fa-f:.]{2,}(%[0-9A-Za-z]+)?`)

// hideAddresses returns s without IP addresses but the one that host is. Errors of the network name the addresses that names
// resolved to, of name servers and of this machine; whoever submits jobs has no business with them.
func hideAddresses(s, host string) string {
	return addressLike.ReplaceAllStringFunc(s, func(found string) string {
		text := strings.TrimRight(found, ":.")
		rest := found[len(text):]
		if at, err := netip.ParseAddrPort(text); err == nil && sameHost(at.Addr().String()) != sameHost(host) {
			return fmt.Sprintf("[address]:%d", at.Port()) + rest
		}
		if ip, err := netip.ParseAddr(text); err == nil && sameHost(ip.String()) != sameHost(host) {
			return "[address]" + rest
		}
		return found
	})
}

// printable returns s as valid UTF-8 in which a space stands for every run of
// characters that are not printable, which includes line breaks, terminal escapes
// and marks that turn the direction of text.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return strings.Join(strings.Fields(s), " ")
}

// clip returns the first n bytes of s, cut between characters and marked when
// something is missing.
func clip(s string, n int) string {
	const mark = "…"
	if len(s) <= n {
		return s
	}
	n -= len(mark)
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + mark
}
