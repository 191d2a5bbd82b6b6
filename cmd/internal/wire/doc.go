// Package wire has the JSON shapes of the HTTP API as Go structs, and turns them into the types of package queue and back.
// They are the shapes that the commands print and that the queue's types marshal to; a test holds them against those. The
// tags doc, example, enum and so on are for the API's description.
package wire

import (
	"strings"
	"time"

	"github.com/spout-queue/spout/queue"
)

// Page is a part of a list. Next, sent back as cursor, asks for what comes behind it; without a Next this was the last part. A
// part may have fewer items than were asked for, or none, and still have a Next.
type Page[T any] struct {
	Items []T    `json:"items" nullable:"false"`
	Next  string `json:"next,omitempty" doc:"Cursor of the next page; missing on the last one."`
}

// Time is written in RFC 3339, in UTC and with microseconds; no time is an empty text.
type Time time.Time

// MarshalText writes the time.
func (t Time) MarshalText() ([]byte, error) {
	if time.Time(t).IsZero() {
		return nil, nil
	}
	return time.Time(t).UTC().AppendFormat(nil, queue.TimeFormat), nil
}

// UnmarshalText reads any time in RFC 3339.
func (t *Time) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*t = Time{}
		return nil
	}
	read, err := time.Parse(time.RFC3339Nano, string(text))
	*t = Time(read.UTC())
	return err
}

// Duration is written as in a class file: 500ms, 10m, 720h.
type Duration time.Duration

// MarshalText leaves out the zero units that Go writes at the end.
func (d Duration) MarshalText() ([]byte, error) {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return []byte(s), nil
}

// UnmarshalText reads a Go duration.
func (d *Duration) UnmarshalText(text []byte) error {
	read, err := time.ParseDuration(string(text))
	*d = Duration(read)
	return err
}
