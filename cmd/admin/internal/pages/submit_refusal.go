package pages

import (
	"errors"
	"fmt"
	"time"

	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

// refusal says no in plain words: what is in the way, and what to do.
type refusal struct {
	Reason  queue.Reason
	Title   string
	Meaning string
	Detail  string
	// Again is when the same submission could be admitted; zero where nobody can tell, or where waiting does not help.
	Again time.Time
	// Hopeless: the same form would be refused again.
	Hopeless bool
	// Level and Capacity of the bucket, where the refusal tells them.
	Level, Capacity int
}

// Drawing is how full the bucket is.
func (r refusal) Drawing() level { return newLevel(r.Level, r.Capacity, 0) }

func refusalOf(err error, now time.Time) *refusal {
	r := &refusal{Reason: answer.Reason(err), Detail: wire.Public(err).Error()}
	r.Title, r.Meaning = words(r.Reason)
	if full, ok := errors.AsType[*queue.FullError](err); ok {
		r.Level, r.Capacity = full.Level, full.Capacity
		if full.Paused {
			r.Meaning = "It is closed: nothing leaves it until an operator resumes it, so nobody can tell when there will be room."
		} else {
			r.Again = now.Add(full.RetryAfter)
		}
		if full.Reason == queue.ReasonFull {
			r.Title = fmt.Sprintf("The bucket is full: %d of %d", full.Level, full.Capacity)
		}
	}
	switch r.Reason {
	case queue.ReasonConflict, queue.ReasonInvalid, queue.ReasonTooLarge, queue.ReasonUnknownClass:
		r.Hopeless = true
	default: // later there may be room, or Redis
	}
	return r
}

// words are what a reason means for somebody who submits.
func words(reason queue.Reason) (title, meaning string) {
	switch reason {
	case queue.ReasonFull:
		return "The bucket is full", "As many jobs wait as the capacity allows. Jobs leave at the rate of the bucket, and each makes room for one."
	case queue.ReasonClassFull:
		return "The class is full", "Over all its keys the class has as many jobs waiting as max_jobs allows."
	case queue.ReasonStoreFull:
		return "Redis is nearly full", "So that what is there can still drain, nothing more is admitted to any bucket. Workers make room; if they do not, " +
			"give Redis more memory."
	case queue.ReasonWouldExpire:
		return "It would wait too long", "The line is longer than max_wait, of the job or of the class, allows. A job that leaves too late is of no use, so it is refused at once."
	case queue.ReasonDraining:
		return "The bucket is drained", "An operator lets it empty: nothing is admitted until it is resumed."
	case queue.ReasonConflict:
		return "This id belongs to another job", "There is a job with the same class, key and id, and another type or payload. Take another id."
	case queue.ReasonTooLarge:
		return "The payload is too large", "The class allows at most its max_payload."
	case queue.ReasonUnknownClass:
		return "There is no such class", "Choose one of the list."
	case queue.ReasonInvalid:
		return "The job is not valid", "See beside the field what is wrong."
	case queue.ReasonUnknown:
		return "Nobody knows whether it was admitted", "The request was sent and no answer came. Submit it again: the same form is the same job, and is not admitted twice."
	default:
		return "It could not be submitted", "Redis cannot be reached, or refuses to work. Nothing was done."
	}
}
