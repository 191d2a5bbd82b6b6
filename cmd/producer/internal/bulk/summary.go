package bulk

import (
	"maps"
	"slices"

	"github.com/spout-queue/spout/queue"
)

// badMost is how many bad lines are listed; more are only counted.
const badMost = 20

// BadLine is a line that waiting does not help: it is wrong, or its bucket admits no more.
type BadLine struct {
	Number int
	Err    error
}

// Summary is what became of the lines.
type Summary struct {
	Admitted, Duplicate int
	// Rejected counts lines by reason: skipped ones, bad ones and those of a closed bucket.
	Rejected map[queue.Reason]int
	// Skipped counts lines that were left out for lack of room, Bad those that are wrong, Closed those whose bucket is
	// draining. BadLines are the first of the latter two to be found, in the order of the input.
	Skipped, Bad, Closed int
	BadLines             []BadLine
	// Unanswered counts lines that were read and have no answer, because the run ended early.
	Unanswered int
	// Bytes of the input that are answered.
	Bytes int64
}

func newSummary() Summary { return Summary{Rejected: map[queue.Reason]int{}} }

// Answered counts the lines that have a final answer.
func (s *Summary) Answered() int { return s.Admitted + s.Duplicate + s.Skipped + s.Bad + s.Closed }

// Reasons of the rejections, in alphabetical order.
func (s *Summary) Reasons() []queue.Reason { return slices.Sorted(maps.Keys(s.Rejected)) }

func (s *Summary) add(l line, receipt queue.Receipt, err error) {
	s.Bytes += int64(l.size)
	if err == nil {
		if receipt.Status == queue.Duplicate {
			s.Duplicate++
		} else {
			s.Admitted++
		}
		return
	}
	reason := queue.ReasonOf(err)
	s.Rejected[reason]++
	if noRoom(reason) {
		s.Skipped++
		return
	}
	if draining(reason) {
		s.Closed++
	} else {
		s.Bad++
	}
	if len(s.BadLines) < badMost {
		at, _ := slices.BinarySearchFunc(s.BadLines, l.number, func(b BadLine, n int) int { return b.Number - n })
		s.BadLines = slices.Insert(s.BadLines, at, BadLine{l.number, err})
	}
}

// noRoom tells a reason that time heals from a mistake.
func noRoom(reason queue.Reason) bool {
	return slices.Contains([]queue.Reason{
		queue.ReasonFull, queue.ReasonClassFull, queue.ReasonStoreFull, queue.ReasonWouldExpire,
	}, reason)
}

// draining tells a bucket that admits no more until somebody resumes it.
func draining(reason queue.Reason) bool { return reason == queue.ReasonDraining }
