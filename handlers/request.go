package handlers

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode/utf8"
)

const userAgent = "spout/1"

// call is a validated http:call payload, and then the request that is made of it.
type call struct {
	method string
	url    *url.URL
	header http.Header
	body   []byte
	any    bool // any complete answer is the result, not only a 2xx
	back   bool // somebody is to hear of the end: see Callbacks

	secretHeaders []string // names of headers with a secret in them
	hidden        []string // secrets in the forms they may be echoed in, each followed by its mask
	longestHidden int      // bytes
}

// what names the call in error texts.
func (c *call) what() string { return c.method + " " + c.shown() }

// shown is the url of the call in error texts. That of a redirect is the service's word, which may hold a secret.
func (c *call) shown() string { return clip(c.hideSecrets(shownURL(c.url)), maxURL) }

// addr is the host:port that the call connects to.
func (c *call) addr() string {
	port := c.url.Port()
	if port == "" {
		port = defaultPort(c.url.Scheme)
	}
	return net.JoinHostPort(strings.ToLower(c.url.Hostname()), port)
}

// mask returns s without the secrets and the query of the call, which a service or a
// library may have quoted. A query of a few characters is no secret, and masking it
// would make s unreadable.
func (c *call) mask(s string) string {
	if len(c.url.RawQuery) >= minSecret {
		s = strings.ReplaceAll(s, c.url.RawQuery, "[query]")
	}
	return c.hideSecrets(s)
}

// identify adds what a service may know the job by: the same key on every attempt, unless the job has one of its own.
func (c *call) identify(t target) {
	if t.anonymous || t.ref == "" {
		return
	}
	if _, own := c.header["Idempotency-Key"]; !own {
		c.header["Idempotency-Key"] = []string{t.ref}
	}
	c.header[headerAttempt] = []string{t.attempt}
}

// request builds the request of one attempt.
func (c *call) request(ctx context.Context) (*http.Request, error) {
	var body io.Reader = http.NoBody
	if len(c.body) > 0 {
		body = bytes.NewReader(c.body)
	}
	req, err := http.NewRequestWithContext(ctx, c.method, c.url.String(), body)
	if err != nil {
		return nil, badPayload(errors.New("no request can be made of it"))
	}
	req.Header = c.header.Clone() // net/http may go on reading it after the attempt has ended
	return req, nil
}

// parseCall reads an http:call payload. It is strict, since a job runs unattended
// and long after it was written: what it does not know it refuses, by exact field
// name, and a field given twice is an error. No error text holds anything of the
// url that may be secret.
func parseCall(payload []byte) (*call, error) {
	var f struct{ method, url, body, bodyBase64, accept *string }
	c := &call{header: http.Header{"User-Agent": {userAgent}}}
	err := eachField(payload, func(name string, value json.RawMessage) error {
		switch name {
		case "method":
			return decode(value, &f.method)
		case "url":
			return decode(value, &f.url)
		case "body":
			return decode(value, &f.body)
		case "body_base64":
			return decode(value, &f.bodyBase64)
		case "accept":
			return decode(value, &f.accept)
		case "headers":
			return parseHeaders(value, c.header)
		case "callback":
			back, err := parseCallback(value)
			c.back = back != nil
			return err
		}
		return errUnknownField
	})
	if err != nil {
		return nil, badPayload(err)
	}
	if c.method, err = parseMethod(f.method); err != nil {
		return nil, badPayload(err)
	}
	if c.url, err = parseURL(f.url); err != nil {
		return nil, badPayload(err)
	}
	if c.body, err = parseBody(f.body, f.bodyBase64); err != nil {
		return nil, badPayload(err)
	}
	if c.any, err = parseAccept(f.accept); err != nil {
		return nil, badPayload(err)
	}
	return c, nil
}

var (
	errUnknownField = errors.New("no such field")
	errNotUTF8      = errors.New("not valid UTF-8")
	errNoObject     = errors.New("not a JSON object")
)

// eachField calls f for every field of the JSON object data, which must be the
// only thing in data. Unlike json.Unmarshal into a struct it tells the exact name
// of a field and refuses one that comes twice. An error of f is wrapped with that
// name.
func eachField(data []byte, f func(name string, value json.RawMessage) error) error {
	if !utf8.Valid(data) {
		return errNotUTF8
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	if tok, err := dec.Token(); err != nil || tok != json.Delim('{') {
		return errNoObject
	}
	seen := make(map[string]bool)
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return errNoObject
		}
		name, ok := tok.(string)
		if !ok {
			return errNoObject
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return errNoObject
		}
		if seen[name] {
			return fmt.Errorf("field %q: given twice", clip(name, maxName))
		}
		seen[name] = true
		if err := f(name, value); err != nil {
			return fmt.Errorf("field %q: %w", clip(name, maxName), err)
		}
	}
	if _, err := dec.Token(); err != nil {
		return errNoObject
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows the JSON object")
	}
	return nil
}

// decode reads value into into; null leaves it as it is. The error names the kind
// of value that was expected and nothing of what was found.
func decode[T bool | int | string | *string | []string | []int](value json.RawMessage, into *T) error {
	if err := json.Unmarshal(value, into); err != nil {
		switch any(*into).(type) {
		case bool:
			return errors.New("must be true or false")
		case int:
			return errors.New("must be a whole number")
		case []string:
			return errors.New("must be a list of strings")
		case []int:
			return errors.New("must be a list of whole numbers")
		}
		return errors.New("must be a string")
	}
	return nil
}

// parseHeaders reads the headers of a payload into header.
func parseHeaders(value json.RawMessage, header http.Header) error {
	if string(value) == "null" {
		return nil
	}
	seen := make(map[string]bool)
	return eachField(value, func(name string, value json.RawMessage) error {
		var v *string
		if err := decode(value, &v); err != nil {
			return err
		}
		canonical := http.CanonicalHeaderKey(name)
		switch {
		case v == nil:
			return errors.New("must be a string")
		case !isToken(name):
			return errors.New("not a valid header name")
		case ownedByConnection(canonical):
			return errors.New("not for a job to set: it belongs to the connection")
		case seen[canonical]:
			return errors.New("given twice, in different case")
		case !isHeaderValue(*v):
			return errors.New("its value has a control character")
		}
		if err := checkPlaceholders(*v); err != nil {
			return err
		}
		seen[canonical] = true
		header[canonical] = []string{*v}
		return nil
	})
}

// ownedByConnection tells whether a header is the business of the connection, not
// of the job: what frames the message, what is meant for the next hop only, and
// Host, which would call another site than the url and the class's hosts say.
func ownedByConnection(canonical string) bool {
	switch canonical {
	case "Connection", "Content-Length", "Expect", "Host", "Http2-Settings", "Keep-Alive",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return strings.HasPrefix(canonical, "Proxy-")
}

// isToken tells whether s is a token of RFC 9110: what a method or a header name
// may be.
func isToken(s string) bool {
	if s == "" {
		return false
	}
	return strings.IndexFunc(s, func(r rune) bool {
		return !isAlphaNum(r) && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	}) < 0
}

func isAlphaNum(r rune) bool {
	return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9'
}

func isHeaderValue(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) < 0
}

// parseMethod returns the method in upper case, GET when none is given. CONNECT
// asks for a tunnel, which is no call.
func parseMethod(method *string) (string, error) {
	if method == nil || *method == "" {
		return http.MethodGet, nil
	}
	m := strings.ToUpper(*method)
	if !isToken(m) || len(m) > maxName {
		return "", errors.New(`field "method": not a valid method`)
	}
	if m == http.MethodConnect {
		return "", errors.New(`field "method": CONNECT cannot be called`)
	}
	return m, nil
}

// parseAccept tells whether any complete answer will do.
func parseAccept(accept *string) (bool, error) {
	switch {
	case accept == nil || *accept == "" || *accept == "2xx":
		return false, nil
	case *accept == "any":
		return true, nil
	}
	return false, errors.New(`field "accept": neither "2xx" nor "any"`)
}

func parseBody(body, bodyBase64 *string) ([]byte, error) {
	switch {
	case body != nil && bodyBase64 != nil:
		return nil, errors.New(`fields "body" and "body_base64": give one of them, not both`)
	case body != nil:
		return []byte(*body), nil
	case bodyBase64 != nil:
		b, err := base64.StdEncoding.Strict().DecodeString(*bodyBase64)
		if err != nil {
			return nil, errors.New(`field "body_base64": not valid base64 (standard alphabet, padded)`)
		}
		return b, nil
	}
	return nil, nil
}

// parseURL checks that raw is something that can be called in only one way. Its
// errors never quote raw, whose wrong parts may be a password.
func parseURL(raw *string) (*url.URL, error) {
	if raw == nil || *raw == "" {
		return nil, errors.New(`field "url": missing`)
	}
	u, err := url.Parse(*raw)
	if err != nil {
		return nil, errors.New(`field "url": not a valid url`)
	}
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New(`field "url": must begin with http:// or https://`)
	case u.User != nil:
		return nil, errors.New(`field "url": must not hold a user or password; use the header Authorization`)
	case u.Opaque != "" || u.Hostname() == "":
		return nil, errors.New(`field "url": no host`)
	case strings.ContainsAny(u.RawQuery, " \t"):
		return nil, errors.New(`field "url": a space in its query; write it as %20`)
	}
	if err := checkHost(u.Hostname()); err != nil {
		return nil, err
	}
	if p := u.Port(); p != "" {
		if n, err := strconv.ParseUint(p, 10, 16); err != nil || n == 0 {
			return nil, errors.New(`field "url": its port is not in 1 to 65535`)
		}
	}
	u.Fragment, u.RawFragment = "", "" // never sent
	return u, nil
}

// checkHost accepts IP addresses in their usual form and DNS names. A name that
// ends in a number (2130706433, 0x7f.1, 127.1) is refused: some resolvers take it
// for an IPv4 address and others look it up, so nobody could say what it calls.
func checkHost(host string) error {
	if _, err := netip.ParseAddr(host); err == nil {
		return nil
	}
	labels := strings.Split(strings.TrimSuffix(host, "."), ".")
	for _, l := range labels {
		if l == "" || len(l) > 63 || strings.IndexFunc(l, func(r rune) bool {
			return !isAlphaNum(r) && r != '-' && r != '_'
		}) >= 0 {
			return errors.New(`field "url": not a valid host; use a DNS name (punycode for other alphabets) or an IP address`)
		}
	}
	if len(host) > 253 || isNumber(labels[len(labels)-1]) {
		return errors.New(`field "url": not a valid host; it is no IP address in the usual form, and no DNS name ends in a number`)
	}
	return nil
}

// isNumber tells whether a label reads as a decimal, octal or hexadecimal number.
func isNumber(label string) bool {
	digits, set := strings.ToLower(label), "0123456789"
	if rest, ok := strings.CutPrefix(digits, "0x"); ok {
		digits, set = rest, "0123456789abcdef"
	}
	return strings.Trim(digits, set) == ""
}

func defaultPort(scheme string) string {
	if scheme == "https" {
		return "443"
	}
	return "80"
}
