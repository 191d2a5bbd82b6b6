package bulk

import (
	"maps"
	"slices"

	"github.com/spout-queue/spout/queue"
)

// badMost is how many bad lines are listed; more are only counted.
const badMost = 20

// BadLine is a line that cannot be submitted, whenever one tries.
type BadLine struct {
	Number int
	Err    error
}

// Summary is what became of the lines.
type Summary struct {
	Admitted, Duplicate int
	// Rejected counts lines by reason: skipped ones and bad ones.
	Rejected map[queue.Reason]int
	// Skipped counts lines that were left out for lack of room, Bad those that are wrong; BadLines are the first
	// of these to be found, in the order of the input.
	Skipped, Bad int
	BadLines     []BadLine
	// Unanswered counts lines that were read and have no answer, because the run ended early.
	Unanswered int
	// Bytes of the input that are answered.
	Bytes int64
}

func newSummary() Summary { return Summary{Rejected: map[queue.Reason]int{}} }

// Answered counts the lines that have a final answer.
func (s *Summary) Answered() int { return s.Admitted + s.Duplicate + s.Skipped + s.Bad }

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
	s.Bad++
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
