package wire

import "github.com/spout-queue/spout/queue"

// Event is one thing that happened to one job.
type Event struct {
	What    string       `json:"what" enum:"admitted,duplicate,rejected,started,done,failed,held,dead,expired,cancelled,dropped,purged"`
	At      Time         `json:"at" format:"date-time"`
	Class   string       `json:"class" example:"github-api"`
	Key     string       `json:"key,omitempty" example:"tenant-42"`
	ID      string       `json:"id,omitempty"`
	Ref     string       `json:"ref,omitempty"`
	Reason  queue.Reason `json:"reason,omitempty" doc:"Why it was rejected."`
	Attempt int          `json:"attempt,omitempty" doc:"Which attempt it is about, 1 for the first."`
	Error   string       `json:"error,omitempty" doc:"Of an attempt, or why it is held; shortened."`
	Until   *Time        `json:"until,omitempty" format:"date-time" doc:"When a hold ends."`

	WholeClass bool `json:"whole_class,omitempty" doc:"The hold is for all buckets of the class."`
}

// FromEvent writes an event down.
func FromEvent(e queue.Event) Event {
	return Event{
		What: e.What, At: Time(e.At), Class: e.Class, Key: e.Key, ID: e.ID, Ref: e.Ref, Attempt: e.Attempt, Error: e.Error, Until: timeOf(e.Until), WholeClass: e.WholeClass,
	}
}

// Missed says that events are not told, which happened.
type Missed struct {
	Dropped int    `json:"dropped,omitempty" doc:"At most how many; missing where nobody knows."`
	Detail  string `json:"detail"`
}
