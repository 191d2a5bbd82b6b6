// Package jobstream is what all commands agree on about NATS: the subjects, how a key becomes a subject token, and the
// JetStream stream that keeps jobs on their way into their buckets.
package jobstream

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// DefaultPrefix begins all subjects unless told otherwise.
const DefaultPrefix = "spout.v1"

// Subjects are the subjects under a prefix: one or more tokens.
type Subjects string

var validPrefix = regexp.MustCompile(`^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*$`)

// Validate reports a prefix that cannot begin a subject.
func (s Subjects) Validate() error {
	if len(s) > 64 || !validPrefix.MatchString(string(s)) {
		return fmt.Errorf("%q is not one or more tokens of A-Z a-z 0-9 _ - with dots between, at most 64 bytes in all", string(s))
	}
	return nil
}

// Submit is where jobs of a class are submitted for an answer.
func (s Subjects) Submit(class string) string { return string(s) + ".submit." + class }

// Jobs is where a job is published to wait in the stream.
func (s Subjects) Jobs(class, key string) string {
	return string(s) + ".jobs." + class + "." + Token(key)
}

// ofClass are the subjects of all jobs of a class, by the token it has in them.
func (s Subjects) ofClass(token string) string { return string(s) + ".jobs." + token + ".*" }

// Rejected is where copies of messages go that are no jobs.
func (s Subjects) Rejected(class string) string { return string(s) + ".rejected." + orNone(class) }

// Event is where it is told what happened to a job.
func (s Subjects) Event(class, what string) string {
	return string(s) + ".event." + orNone(class) + "." + what
}

// Result is where the end of a job is told to who waits for it.
func (s Subjects) Result(id string) string { return string(s) + ".result." + Token(id) }

// NoClass stands for the class where a message names none.
const NoClass = "_"

func orNone(class string) string {
	if class == "" {
		return NoClass
	}
	return class
}

// ErrSubject marks a subject of the stream that has not exactly a class and a key token.
var ErrSubject = errors.New("the subject is not <prefix>.jobs.<class>.<key token>")

// ReadJobs takes a subject of the stream apart: the class and the key token. The class is what there is of it when the
// error is ErrSubject.
func (s Subjects) ReadJobs(subject string) (class, token string, err error) {
	rest, ok := strings.CutPrefix(subject, string(s)+".jobs")
	if !ok {
		return "", "", ErrSubject
	}
	tokens := strings.Split(strings.TrimPrefix(rest, "."), ".")
	if len(tokens) != 2 {
		return tokens[0], "", ErrSubject
	}
	return tokens[0], tokens[1], nil
}

// Token writes a key, or any text, as one token of a subject: bytes other than A-Z a-z 0-9 _ - become %XX, as in a URL. The
// empty text has no token.
func Token(text string) string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; plain(c) {
			b.WriteByte(c)
		} else {
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	return b.String()
}

func plain(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_' || c == '-'
}

// ReadToken is the inverse of Token.
func ReadToken(token string) (string, error) {
	text, err := url.PathUnescape(token)
	if err != nil {
		return "", fmt.Errorf("key token %q is not percent-encoded", token)
	}
	return text, nil
}
