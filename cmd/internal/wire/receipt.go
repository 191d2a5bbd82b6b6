package wire

import (
	"errors"
	"time"

	"github.com/spout-queue/spout/queue"
)

// Receipt is the answer to an admitted submission.
type Receipt struct {
	Ref            string       `json:"ref" doc:"Names the job in one word." example:"0-7mVXhJkUQpDZ6v5YbX1m0w"`
	ID             string       `json:"id" doc:"The job's id, the caller's or the one that was made." example:"invoice-7"`
	Status         queue.Status `json:"status" enum:"admitted,duplicate" doc:"duplicate: it was submitted before; this is the first answer."`
	Position       int          `json:"position" doc:"Place in the line, 1 for the next to leave." example:"3"`
	Level          int          `json:"level" doc:"Jobs that hold a place in the bucket." example:"3"`
	Capacity       int          `json:"capacity" doc:"The most jobs that may wait in the bucket." example:"500"`
	EstimatedStart Time         `json:"estimated_start" format:"date-time" doc:"When the job leaves if the bucket is drained at its rate."`
	WaitMS         int64        `json:"wait_ms" doc:"The estimated start seen from the admission, in milliseconds." example:"4000"`
	Ack            queue.Ack    `json:"ack,omitempty" doc:"What the receipt vouches for beyond the memory of Redis: fsynced or replicated(n)."`
	Dropped        string       `json:"dropped,omitempty" doc:"Ref of the job that was dropped to make room."`
	Ending         *Ending      `json:"ending,omitempty" doc:"How the job ended, when its end was waited for."`
}

// FromReceipt writes a receipt down.
func FromReceipt(r queue.Receipt) Receipt {
	w := Receipt{
		Ref: r.Ref, ID: r.ID, Status: r.Status, Position: r.Position, Level: r.Level, Capacity: r.Capacity,
		EstimatedStart: Time(r.EstimatedStart), WaitMS: queue.Millis(r.Wait), Dropped: r.Dropped,
	}
	if r.Ack != queue.AckMemory { // the least that every receipt vouches for
		w.Ack = r.Ack
	}
	return w
}

// ToQueue is the inverse of FromReceipt. The wait is in whole milliseconds.
func (w Receipt) ToQueue() queue.Receipt {
	r := queue.Receipt{
		Ref: w.Ref, ID: w.ID, Status: w.Status, Position: w.Position, Level: w.Level, Capacity: w.Capacity,
		EstimatedStart: time.Time(w.EstimatedStart), Wait: time.Duration(w.WaitMS) * time.Millisecond, Ack: w.Ack, Dropped: w.Dropped,
	}
	if r.Ack == "" {
		r.Ack = queue.AckMemory
	}
	return r
}

// Rejection says no to one of many submissions. A refusal for lack of room has the time to come back, 0 included, unless the
// bucket is paused: then nobody can tell.
type Rejection struct {
	Status       string       `json:"status" enum:"rejected"`
	Reason       queue.Reason `json:"reason" doc:"The word for it, see the table of problems." example:"full"`
	RetryAfterMS *int64       `json:"retry_after_ms,omitempty" doc:"Time until the same submission could be admitted, in milliseconds."`
	Level        *int         `json:"level,omitempty"`
	Capacity     *int         `json:"capacity,omitempty"`
	Detail       string       `json:"detail"`
}

// FromError is the rejection that an error stands for.
func FromError(err error) Rejection {
	w := Rejection{Status: "rejected", Reason: reasonOf(err), Detail: err.Error()}
	if full, ok := errors.AsType[*queue.FullError](err); ok {
		w.Level, w.Capacity = &full.Level, &full.Capacity
		if !full.Paused {
			w.RetryAfterMS = new(queue.Millis(full.RetryAfter))
		}
	}
	return w
}

// Answer is what a batch answers to one of its jobs: the fields of a [Receipt] or those of a [Rejection], told apart by the
// status.
type Answer struct {
	Status         string       `json:"status" enum:"admitted,duplicate,rejected"`
	Ref            string       `json:"ref,omitempty" doc:"Names the job in one word; also where the outcome is unknown."`
	ID             string       `json:"id,omitempty"`
	Position       *int         `json:"position,omitempty"`
	Level          *int         `json:"level,omitempty"`
	Capacity       *int         `json:"capacity,omitempty"`
	EstimatedStart *Time        `json:"estimated_start,omitempty" format:"date-time"`
	WaitMS         *int64       `json:"wait_ms,omitempty"`
	Ack            queue.Ack    `json:"ack,omitempty"`
	Dropped        string       `json:"dropped,omitempty"`
	Reason         queue.Reason `json:"reason,omitempty" doc:"Why it was rejected."`
	RetryAfterMS   *int64       `json:"retry_after_ms,omitempty"`
	Detail         string       `json:"detail,omitempty"`
}

// FromResult is the answer to one job of a batch.
func FromResult(r queue.Result) Answer {
	if r.Err != nil {
		no := FromError(r.Err)
		return Answer{
			Status: no.Status, Ref: r.Receipt.Ref, ID: r.Receipt.ID, Reason: no.Reason, RetryAfterMS: no.RetryAfterMS,
			Level: no.Level, Capacity: no.Capacity, Detail: no.Detail,
		}
	}
	yes := FromReceipt(r.Receipt)
	return Answer{
		Status: string(yes.Status), Ref: yes.Ref, ID: yes.ID, Position: &yes.Position, Level: &yes.Level, Capacity: &yes.Capacity,
		EstimatedStart: &yes.EstimatedStart, WaitMS: &yes.WaitMS, Ack: yes.Ack, Dropped: yes.Dropped,
	}
}

// Receipt is the receipt of a job that was not rejected.
func (w Answer) Receipt() Receipt {
	return Receipt{
		Ref: w.Ref, ID: w.ID, Status: queue.Status(w.Status), Position: orZero(w.Position), Level: orZero(w.Level),
		Capacity: orZero(w.Capacity), EstimatedStart: orZero(w.EstimatedStart), WaitMS: orZero(w.WaitMS), Ack: w.Ack, Dropped: w.Dropped,
	}
}

// Problem is the problem of a job that was rejected, as a request with that job alone would have been answered.
func (w Answer) Problem() Problem {
	return Problem{Reason: w.Reason, Detail: w.Detail, RetryAfterMS: w.RetryAfterMS, Level: w.Level, Capacity: w.Capacity}
}

func orZero[T any](v *T) T {
	if v == nil {
		var zero T
		return zero
	}
	return *v
}
