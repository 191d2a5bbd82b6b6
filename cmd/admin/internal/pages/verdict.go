package pages

import (
	"fmt"
	"time"

	"github.com/spout-queue/spout/queue"
)

// verdict is what a person on call wants to know of a bucket first.
type verdict struct {
	Kind  string // good, warn or bad
	State string // a word
	Title string // what is wrong, or that nothing is
	Text  string // what it means, and what to do
}

// judgeVessel is judge, with what was seen of the bucket over the last seconds.
func judgeVessel(class queue.Class, b queue.Bucket, seen vessel) verdict {
	v := judge(class, b)
	if v.Kind == "good" && seen.Known && seen.Overflow > 0 {
		return verdict{
			"bad", "rejecting", "Rejecting, on and off: " + perSecond(seen.Overflow) + " find it full",
			"More comes than its rate lets go. Slow the producers down, or raise the rate or the capacity of the class.",
		}
	}
	if v.Kind == "good" && seen.Known && seen.Departed > 0 && time.Duration(b.Line)*b.Interval < keptUp {
		return verdict{"good", "keeping up", "It keeps up", "What comes waits for its slot, and no longer."}
	}
	return v
}

// keptUp is a line so short that a bucket in use goes from it to empty and back all the time.
const keptUp = time.Second

// overdueLeast is how late a departure must be before nobody seems to drain a bucket.
const overdueLeast = 2 * time.Second

// judge says how a bucket stands: the worst first.
func judge(class queue.Class, b queue.Bucket) verdict {
	switch {
	case b.Sick != "":
		return verdict{"bad", "sick", "Sick: workers set this bucket aside", b.Sick + ". Nothing leaves it. Mend that, then resume it."}
	case class.Paused:
		return verdict{"warn", "paused", "Paused, with its whole class", "Nothing leaves until the class is resumed; submissions go on until it is full."}
	case b.Paused:
		return verdict{"warn", "paused", "Paused by an operator", "Nothing leaves until it is resumed; submissions go on until it is full."}
	case !b.Hold.IsZero():
		return verdict{"warn", "held", "Held until " + date(b.Hold), fmt.Sprintf("Why: %s. Nothing leaves before then; it opens by itself.", b.HoldReason)}
	case b.Draining:
		return verdict{"warn", "draining", "Draining: nothing is admitted", "What is there leaves at its rate. Resume it to admit again."}
	case overdue(b) > 0:
		return verdict{
			"bad", "stalled", "Nobody drains it: its head is due for " + shortDuration(overdue(b)),
			"Is a worker running that serves this class, with a free slot? See the page Workers.",
		}
	case b.Level >= b.Capacity && class.Overflow == queue.DropOldest:
		return verdict{"warn", "full", "Full: each submission drops the oldest job", "More comes than its rate lets go."}
	case b.Level >= b.Capacity:
		return verdict{"bad", "full", "Full: submissions are rejected", "More comes than its rate lets go. Slow the producers down, or raise the rate or the capacity of the class."}
	case b.Adapted != nil && b.Adapted.Now < 1:
		return verdict{"warn", "slowed", "Slower than its class's rate", "Its service refused calls for the rate; it rises again by itself."}
	case b.Line > 0:
		return verdict{"good", "draining down", "It leaves at its rate", ""}
	}
	return verdict{"good", "empty", "Empty", "The next submission leaves as soon as its slot is due."}
}

// overdue is for how long a bucket should have let a job go that did not, where that is longer than can happen in passing.
func overdue(b queue.Bucket) time.Duration {
	if b.Line == 0 || b.Due.IsZero() || b.At.IsZero() {
		return 0
	}
	if late := b.At.Sub(b.Due); late > max(overdueLeast, 2*b.Interval) && (b.Out <= 0) {
		return late
	}
	return 0
}

// retryAfter is how long a submission would be told to wait now; false when nobody can tell.
func retryAfter(b queue.Bucket) (time.Duration, bool) {
	next := b.StartOf(1)
	if next.IsZero() {
		return 0, false
	}
	return max(0, next.Sub(b.At)+time.Duration(b.Level-b.Capacity)*b.Interval), true
}
