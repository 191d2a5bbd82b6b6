package wire

import (
	"time"

	"github.com/spout-queue/spout/queue"
)

// Bucket is the state of one bucket at one moment.
type Bucket struct {
	Class      string     `json:"class" example:"github-api"`
	Key        string     `json:"key" example:"tenant-42"`
	Level      int        `json:"level" doc:"Jobs that hold a place: line and later."`
	Capacity   int        `json:"capacity"`
	Line       int        `json:"line"`
	Later      int        `json:"later" doc:"Delayed and parked jobs."`
	Rate       queue.Rate `json:"rate" doc:"Departures: limit/period." example:"30/60s"`
	Due        *Time      `json:"due,omitempty" format:"date-time" doc:"Earliest time of the next departure; missing when any time will do."`
	Hold       *Time      `json:"hold,omitempty" format:"date-time" doc:"Until when the bucket is closed."`
	HoldReason string     `json:"hold_reason,omitempty"`
	Adapted    *Adapted   `json:"adapted,omitempty" doc:"How the rate follows what the called service bears."`
	Paused     bool       `json:"paused"`
	Draining   bool       `json:"draining,omitempty"`
	Out        *int       `json:"out,omitempty" doc:"Jobs that are out, where the class bounds them."`
	Sick       string     `json:"sick,omitempty" doc:"Why workers set the bucket aside."`
	Overflowed int64      `json:"overflowed,omitempty" doc:"Submissions that found it full, since it was last empty and forgotten."`
}

// Adapted is how a bucket follows what its service bears.
type Adapted struct {
	Now       float64   `json:"now" doc:"Part of the rate at which jobs leave, above 0 and at most 1."`
	Sustained float64   `json:"sustained" doc:"Part that the service bore before it refused."`
	At        time.Time `json:"at" doc:"When it was last cut."`
}

// FromBucket writes a bucket down.
func FromBucket(b queue.Bucket) Bucket {
	w := Bucket{
		Class: b.Class, Key: b.Key, Level: b.Level, Capacity: b.Capacity, Line: b.Line, Later: b.Later, Rate: b.Rate,
		Due: timeOf(b.Due), Hold: timeOf(b.Hold), HoldReason: b.HoldReason, Paused: b.Paused, Draining: b.Draining, Sick: b.Sick, Overflowed: b.Overflowed,
	}
	if b.Adapted != nil {
		w.Adapted = new(Adapted(*b.Adapted))
	}
	if b.Out >= 0 {
		w.Out = &b.Out
	}
	return w
}

// ToQueue is the inverse of FromBucket, without At and Interval, which are not told.
func (w Bucket) ToQueue() queue.Bucket {
	b := queue.Bucket{
		Class: w.Class, Key: w.Key, Level: w.Level, Capacity: w.Capacity, Line: w.Line, Later: w.Later, Rate: w.Rate,
		Due: goTime(w.Due), Hold: goTime(w.Hold), HoldReason: w.HoldReason, Paused: w.Paused, Draining: w.Draining, Sick: w.Sick, Overflowed: w.Overflowed, Out: -1,
	}
	if w.Adapted != nil {
		b.Adapted = new(queue.Adapted(*w.Adapted))
	}
	if w.Out != nil {
		b.Out = *w.Out
	}
	return b
}

// Hold says until when a bucket, or a class, is to be held: one of the two.
type Hold struct {
	For   Duration `json:"for,omitempty" doc:"From now on, by the clock of Redis: a Go duration of at least 1ms." example:"90s"`
	Until *Time    `json:"until,omitempty" format:"date-time"`
}

// BucketNow is a bucket after something was done to it.
type BucketNow struct {
	Bucket
	Unchanged bool `json:"unchanged,omitempty" doc:"It was so already."`
}

// Purged is the answer to a purge.
type Purged struct {
	Class  string `json:"class" example:"github-api"`
	Key    string `json:"key,omitempty" example:"tenant-42"`
	Purged int    `json:"purged" doc:"Jobs that were dropped."`
}

// Cancelled is the answer to a cancel.
type Cancelled struct {
	Ref        string      `json:"ref"`
	State      queue.State `json:"state" enum:"cancelled,out"`
	Cancelling bool        `json:"cancelling,omitempty" doc:"It is out, and was told to end."`
}

// Revived is the answer to a retry of dead jobs, and with many of them a step on the way.
type Revived struct {
	Class        string `json:"class" example:"github-api"`
	Key          string `json:"key,omitempty"`
	Retried      int    `json:"retried" doc:"Jobs that went round again."`
	Left         *int   `json:"left,omitempty" doc:"Jobs that are still dead, for want of room, in lines on the way of those seen so far; missing when it was stopped before it had seen all."`
	RetryAfterMS *int64 `json:"retry_after_ms,omitempty" doc:"When there should be room for the next of those that are left."`
	Before       *Time  `json:"before,omitempty" format:"date-time" doc:"Only those that died by then are sent round; send it back with the next call."`
	// Of the last line of many.
	Ended   bool     `json:"ended,omitempty" doc:"In the last line of an answer in lines, when nothing went wrong. Without such a line, some more may have gone round than the last one tells."`
	Problem *Problem `json:"problem,omitempty" doc:"In the last line of an answer in lines: why it stopped."`
}

// FromRevival writes down what one pass over the dead jobs did. before is the time by which they had died.
func FromRevival(class, key string, r queue.Revival, before time.Time) Revived {
	w := Revived{Class: class, Key: key, Retried: r.Retried, Left: &r.Left, Before: timeOf(before)}
	if r.Left > 0 {
		w.RetryAfterMS = new(queue.Millis(r.RetryAfter))
	}
	return w
}

// ToQueue is the inverse of FromRevival.
func (w Revived) ToQueue() queue.Revival {
	return queue.Revival{
		Retried: w.Retried, Left: orZero(w.Left), RetryAfter: time.Duration(orZero(w.RetryAfterMS)) * time.Millisecond,
	}
}
