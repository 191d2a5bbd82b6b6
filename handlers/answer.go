package handlers

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spout-queue/spout/internal/ratelimit"
)

// What is kept of an answer, in bytes. The queue keeps 64 KiB of a result, and 40 KiB are 54 in base64.
const (
	keptBody    = 40 << 10
	keptHeaders = 8 << 10
)

// answer is what is kept of a response, with the secrets of its call masked.
type answer struct {
	status int
	header http.Header
	body   string // its beginning
	cut    bool   // there was more
	read   int64  // bytes of the body, after decompression
	err    error  // why the body broke off

	wait  time.Duration // how long the service asks to be left alone
	field string        // by which header
}

// readAnswer reads at most maxBody bytes of the body and closes it.
func readAnswer(c *call, resp *http.Response, maxBody int64) *answer {
	a := &answer{status: resp.StatusCode, header: resp.Header}
	a.wait, a.field = ratelimit.Wait(resp.StatusCode, resp.Header, time.Now())
	var head []byte
	if resp.StatusCode >= 200 { // a connection switched to another protocol has no end to read
		head, a.read, a.err = readHead(io.LimitReader(resp.Body, maxBody+1), int64(keptBody+c.longestHidden))
	}
	_ = resp.Body.Close() // what could not be read is known by now
	a.body = c.hideSecrets(string(head))
	if a.read > int64(len(head)) {
		// A secret may begin in what was kept and end in what was not.
		a.body, a.cut = a.body[:max(len(a.body)-c.longestHidden, 0)], true
	}
	if len(a.body) > keptBody {
		a.body, a.cut = a.body[:keptBody], true
	}
	a.cut = a.cut || a.read > maxBody
	return a
}

// result is what is kept of an answer for whoever submitted the job.
type result struct {
	Status     int         `json:"status"`
	Headers    http.Header `json:"headers,omitempty"`
	Body       *string     `json:"body,omitempty"`
	BodyBase64 string      `json:"body_base64,omitempty"`
	Truncated  bool        `json:"truncated,omitempty"`
}

// result writes the answer as JSON of at most 64 KiB.
func (a *answer) result(c *call) []byte {
	r := result{Status: a.status, Headers: a.keptHeader(c), Truncated: a.cut}
	if text := a.text(); utf8.ValidString(text) && jsonLength(text) <= base64.StdEncoding.EncodedLen(keptBody) {
		r.Body = &text
	} else {
		r.BodyBase64 = base64.StdEncoding.EncodeToString([]byte(a.body))
	}
	return marshal(r)
}

// text is the body without the piece of a character that cutting it may have left at its end.
func (a *answer) text() string {
	s := a.body
	for range utf8.UTFMax - 1 {
		if r, size := utf8.DecodeLastRuneInString(s); !a.cut || r != utf8.RuneError || size != 1 {
			break
		}
		s = s[:len(s)-1]
	}
	return s
}

// keptHeader leaves out what was meant for the connection or for a browser, and what there is no room for.
func (a *answer) keptHeader(c *call) http.Header {
	kept, room := http.Header{}, keptHeaders
	gone := strings.Split(strings.Join(a.header.Values("Connection"), ","), ",")
	for _, name := range slices.Sorted(maps.Keys(a.header)) {
		named := func(s string) bool { return strings.EqualFold(strings.TrimSpace(s), name) }
		if ownedByConnection(name) && name != "Content-Length" || strings.HasPrefix(name, "Set-Cookie") || slices.ContainsFunc(gone, named) {
			continue
		}
		values, size := make([]string, len(a.header[name])), jsonLength(name)+4
		for i, v := range a.header[name] {
			values[i] = strings.ToValidUTF8(c.hideSecrets(v), "\uFFFD")
			size += jsonLength(values[i]) + 1
		}
		if size <= room {
			kept[name], room = values, room-size
		}
	}
	return kept
}

// jsonLength is how many bytes s has as JSON.
func jsonLength(s string) int {
	if strings.IndexFunc(s, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }) < 0 {
		return len(s) + 2
	}
	return len(marshal(s))
}

// marshal writes v without escaping what only HTML needs escaped.
func marshal(v any) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(v) // strings and numbers
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// statusError is the error of an answer that is not what the job wants.
func (a *answer) statusError(c *call) *StatusError {
	snippet := c.mask(a.body[:min(len(a.body), maxSnippet+len(c.url.RawQuery))])
	return &StatusError{
		Method:   c.method,
		URL:      c.shown(),
		Status:   a.status,
		Location: a.location(c),
		Body:     clip(printable(clip(snippet, maxSnippet)), maxSnippet),
	}
}

// location is the host that a 3xx answer points to.
func (a *answer) location(c *call) string {
	if a.status < 300 || a.status > 399 || a.header.Get("Location") == "" {
		return ""
	}
	to, err := c.url.Parse(a.header.Get("Location"))
	if err != nil {
		return ""
	}
	return clip(printable(c.mask(to.Host)), maxURL)
}

// broken is the error of an answer whose body broke off.
func (a *answer) broken() error {
	return fmt.Errorf("answered %d, but the body broke off after %d bytes: %w", a.status, a.read, a.err)
}

// readHead reads all there is and returns the first most bytes of it.
func readHead(r io.Reader, most int64) (head []byte, n int64, err error) {
	head, err = io.ReadAll(io.LimitReader(r, most))
	n = int64(len(head))
	if err == nil && n == most {
		var rest int64
		rest, err = io.Copy(io.Discard, r)
		n += rest
	}
	return head, n, err
}
