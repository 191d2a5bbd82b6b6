package queue

import (
	"encoding/json"
	"time"
)

// Status tells a first admission from a repeated one.
type Status string

// The two ways a submission is admitted.
const (
	Admitted  Status = "admitted"
	Duplicate Status = "duplicate"
)

// Receipt is the answer to an admitted submission. A repeated submission gets the first one's answer, as [Duplicate].
type Receipt struct {
	// Ref names the job in one word: for [Client.Job] and for operators.
	Ref string
	// ID is the job's id, the caller's or the one the SDK made.
	ID     string
	Status Status
	// Position in the line, 1 for the next to leave.
	Position int
	// Level of the bucket after the admission, and its Capacity.
	Level, Capacity int
	// EstimatedStart is when the job leaves if the bucket is drained at its rate.
	EstimatedStart time.Time
	// Wait is EstimatedStart seen from the admission.
	Wait time.Duration
	// Ack is what the receipt vouches for.
	Ack Ack
	// Dropped is the ref of the job that a class with [DropOldest] dropped to make room for this one.
	Dropped string
}

// TimeFormat is RFC 3339 with microseconds, the format of all times in JSON.
const TimeFormat = "2006-01-02T15:04:05.000000Z07:00"

// shownTime writes a time for JSON, nothing for none.
func shownTime(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(TimeFormat)
}

// MarshalJSON writes the receipt in the shape that every door of the service uses. Times are UTC with microseconds,
// fields in _ms whole milliseconds, rounded up.
func (r Receipt) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Ref            string `json:"ref"`
		ID             string `json:"id"`
		Status         Status `json:"status"`
		Position       int    `json:"position"`
		Level          int    `json:"level"`
		Capacity       int    `json:"capacity"`
		EstimatedStart string `json:"estimated_start"`
		WaitMS         int64  `json:"wait_ms"`
		Ack            Ack    `json:"ack,omitempty"`
		Dropped        string `json:"dropped,omitempty"`
	}{
		r.Ref, r.ID, r.Status, r.Position, r.Level, r.Capacity,
		r.EstimatedStart.UTC().Format(TimeFormat), Millis(r.Wait), r.shownAck(), r.Dropped,
	})
}

// Millis is d in whole milliseconds, rounded up; never negative.
func Millis(d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64((d + time.Millisecond - 1) / time.Millisecond)
}

// shownAck leaves out what is the least that every receipt vouches for.
func (r Receipt) shownAck() Ack {
	if r.Ack == AckMemory {
		return ""
	}
	return r.Ack
}
