// Package jobline reads a job as every door of the service takes it: one JSON object,
//
//	{"class","key","id"?,"type"?,"payload","max_wait"?,"not_before"?}
//
// with max_wait as a Go duration and not_before in RFC 3339. It is strict, because a misspelt max_wait that is skipped in
// silence is found out too late: unknown, repeated and misspelt fields, nulls, and anything behind the object are errors.
package jobline

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spout-queue/spout/cmd/internal/strictjson"
	"github.com/spout-queue/spout/queue"
)

// Parse reads one job. What the queue itself checks (names, the payload's size) is left to it. The error wraps
// [queue.ErrInvalid].
func Parse(line []byte) (queue.Job, error) { return ParseWith(line, queue.Job{}) }

// ParseWith reads one job of which the way that it came by told some: its class, key or id. The line may leave out what is
// told, or must say the same.
func ParseWith(line []byte, told queue.Job) (queue.Job, error) {
	job, err := parse(line, told)
	if err != nil {
		return queue.Job{}, fmt.Errorf("%w: %w", queue.ErrInvalid, err)
	}
	return job, nil
}

func parse(line []byte, told queue.Job) (queue.Job, error) {
	var job queue.Job
	if !utf8.Valid(line) {
		return job, errors.New("it is not valid UTF-8")
	}
	if deep(line, deepest) {
		return job, errDeep
	}
	seen := make([]string, 0, 8) // as many as there are fields
	err := strictjson.Fields(line, func(name string, value json.RawMessage) error {
		if slices.Contains(seen, name) {
			return fmt.Errorf("field %q is there twice", name)
		}
		seen = append(seen, name)
		return set(&job, name, value)
	})
	if err != nil {
		return job, err
	}
	return job, complete(&job, told, seen)
}

// complete fills in what was told, and wants the rest to be there.
func complete(job *queue.Job, told queue.Job, seen []string) error {
	for _, f := range []struct {
		name     string
		is       *string
		told     string
		optional bool
	}{
		{"class", &job.Class, told.Class, false},
		{"key", &job.Key, told.Key, false},
		{"id", &job.ID, told.ID, true},
	} {
		switch {
		case *f.is == "" && f.told == "" && !f.optional:
			return fmt.Errorf("field %q is missing", f.name)
		case *f.is != "" && f.told != "" && *f.is != f.told:
			return fmt.Errorf("%s is %q in the job, and %q where it was sent", f.name, clip(*f.is), clip(f.told))
		case *f.is == "":
			*f.is = f.told
		}
	}
	if !slices.Contains(seen, "payload") {
		return errors.New(`field "payload" is missing`)
	}
	return nil
}

func set(job *queue.Job, name string, value json.RawMessage) error {
	switch name {
	case "payload":
		job.Payload = value
		return nil
	case "class":
		return setText(&job.Class, name, value)
	case "key":
		return setText(&job.Key, name, value)
	case "id":
		return setText(&job.ID, name, value)
	case "type":
		return setText(&job.Type, name, value)
	case "max_wait":
		return setMaxWait(&job.MaxWait, value)
	case "not_before":
		return setNotBefore(&job.NotBefore, value)
	}
	return fmt.Errorf("unknown field %q; known are class, key, id, type, payload, max_wait, not_before", clip(name))
}

// setText takes a string that is not empty: an empty id or type would silently stand for the default.
func setText(to *string, name string, value json.RawMessage) error {
	if value[0] != '"' {
		return fmt.Errorf("%s is not a string", name)
	}
	*to = strictjson.Text(value)
	if *to == "" {
		return fmt.Errorf("%s is empty", name)
	}
	if !strictjson.IsWhole(value) {
		return fmt.Errorf("%s has half of a surrogate pair, which is no character", name)
	}
	return nil
}

func setMaxWait(to *time.Duration, value json.RawMessage) error {
	var s string
	if err := setText(&s, "max_wait", value); err != nil {
		return err
	}
	d, err := ParseMaxWait(s)
	*to = d
	return err
}

// ParseMaxWait reads a max_wait: a Go duration of at least a millisecond.
func ParseMaxWait(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("max_wait %q is not a duration; write it like 500ms, 30s or 10m", clip(s))
	case d < time.Millisecond:
		return 0, fmt.Errorf("max_wait %s is below 1ms; leave it out for no limit", s)
	}
	return d, nil
}

func setNotBefore(to *time.Time, value json.RawMessage) error {
	var s string
	if err := setText(&s, "not_before", value); err != nil {
		return err
	}
	t, err := ParseNotBefore(s)
	*to = t
	return err
}

// ParseNotBefore reads a not_before: a time in RFC 3339.
func ParseNotBefore(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}, fmt.Errorf("not_before %q is not a time in RFC 3339, like 2026-01-31T18:00:00Z", clip(s))
	}
	return t, nil
}

// clip shortens what somebody sent for an error text.
func clip(s string) string {
	if len(s) <= 64 {
		return s
	}
	return strings.ToValidUTF8(s[:64], "") + "…"
}

// Trace is the traceparent that came with a job, as W3C Trace Context has it: 55 characters. What is none is left out, since a
// trace must not keep a job from being admitted.
func Trace(traceparent string) string {
	if len(traceparent) != 55 || strings.ContainsFunc(traceparent, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return traceparent
}
