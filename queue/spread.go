package queue

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// Spread counts durations in steps that grow with them, four to an octave, so that what it tells of them is off by an eighth at
// most. The zero value is empty. Not safe for concurrent use.
type Spread struct {
	counts [spreadSteps]uint32
}

// spreadSteps reach up to 2^44 us, half a year; what is longer counts as that.
const spreadSteps = 4 * 43

// Add counts a duration; a negative one as none.
func (s *Spread) Add(d time.Duration) { s.counts[spreadStep(d)]++ }

// spreadStep is the number of a duration's step: below 4 us its microseconds, above that its highest bit and the two behind it.
func spreadStep(d time.Duration) int {
	us := uint64(max(0, d.Microseconds()))
	if us < 4 {
		return int(us)
	}
	octave := bits.Len64(us) - 3
	return min(4*octave+int(us>>octave), spreadSteps-1) //nolint:gosec // below 4 * 64 + 8
}

// spreadMiddle is the middle of a step.
func spreadMiddle(step int) time.Duration {
	if step < 4 {
		return time.Duration(step) * time.Microsecond
	}
	octave := step/4 - 1
	low := uint64(step%4+4) << octave
	return time.Duration(low+uint64(1)<<octave/2) * time.Microsecond //nolint:gosec // at most 2^45
}

// Count is how many durations were added.
func (s *Spread) Count() int64 {
	var n int64
	for _, c := range s.counts {
		n += int64(c)
	}
	return n
}

// Quantile is the duration that a part q of those added, 0 to 1, do not exceed; zero when there are none.
func (s *Spread) Quantile(q float64) time.Duration {
	n := s.Count()
	rank := max(1, int64(q*float64(n)+0.999999))
	for step, c := range s.counts {
		if rank -= int64(c); rank <= 0 {
			return spreadMiddle(step)
		}
	}
	return 0
}

// String writes the spread in the way it is kept in Redis: step and count, a comma between them; - for none.
func (s *Spread) String() string {
	var b []byte
	for step, c := range s.counts {
		if c > 0 {
			b = fmt.Appendf(b, ",%dx%d", step, c)
		}
	}
	if b == nil {
		return "-"
	}
	return string(b[1:])
}

// read adds what String wrote; anything else counts nothing.
func (s *Spread) read(text string) {
	for part := range strings.SplitSeq(text, ",") {
		left, right, _ := strings.Cut(part, "x")
		step, err := strconv.Atoi(left)
		n, nerr := strconv.ParseUint(right, 10, 32)
		if err == nil && nerr == nil && step >= 0 && step < spreadSteps {
			s.counts[step] += uint32(n)
		}
	}
}
