package pages

import (
	"fmt"
	"strings"

	"github.com/spout-queue/spout/cmd/admin/internal/playground"
	"github.com/spout-queue/spout/meter"
)

// algorithm says in a few words what one is and whom it fits.
type algorithm struct{ is, fits string }

func algorithms(a meter.Algorithm) algorithm {
	return map[meter.Algorithm]algorithm{
		meter.GCRA:        {"keeps one time: when the next unit is due", "a rate with a burst. If you do not know, take this one"},
		meter.TokenBucket: {"full of tokens at first, refilled at the rate", "the same law as gcra, for who thinks in tokens"},
		meter.LeakyBucket: {"empty at first, leaks at the rate, each unit must fit in", "the same law as gcra, for who thinks of water"},
		meter.FixedWindow: {
			"counts in windows one after the other (their edges are drawn)",
			"“1000 a day”, easy to tell to users. Around an edge up to twice the limit passes",
		},
		meter.SlidingLog:     {"remembers the time of each unit", "never more than the limit in any period, exactly. It costs a time per unit"},
		meter.SlidingCounter: {"weighs the last window against this one", "nearly the log, in one small key. An estimate that errs both ways"},
	}[a]
}

// compared says in a sentence what the meters made of the clicks that are drawn.
func compared(look playground.Look) string {
	clicks := len(look.Lanes[0].Marks)
	if clicks == 0 {
		return "Click, and each of the six meters is asked at the same moment."
	}
	passed := map[int][]string{}
	var counts []int
	for _, l := range look.Lanes {
		n := recent(l)
		if passed[n] == nil {
			counts = append(counts, n)
		}
		passed[n] = append(passed[n], string(l.Algorithm))
	}
	over := fmt.Sprintf("Of the %d clicks of the last %s, ", clicks, shortDuration(look.Span()))
	if len(counts) == 1 {
		return over + fmt.Sprintf("all six let %d pass. They differ when a burst comes after a pause, or across the edge of a window.", counts[0])
	}
	parts := make([]string, len(counts))
	for i, n := range counts {
		parts[i] = fmt.Sprintf("%d passed %s", n, list(passed[n]))
	}
	return over + strings.Join(parts, "; ") + "." + because(look)
}

// because explains the largest difference that is to be seen.
func because(look playground.Look) string {
	passed := map[meter.Algorithm]int{}
	for _, l := range look.Lanes {
		passed[l.Algorithm] = recent(l)
	}
	switch {
	case passed[meter.FixedWindow] > passed[meter.SlidingLog]:
		return " The fixed window began anew at its edge; the log remembers each unit for a whole period."
	case passed[meter.GCRA] > passed[meter.SlidingLog]:
		return " A bucket passes its capacity at once and what drains meanwhile; the log never more than the limit in any period."
	case passed[meter.GCRA] < passed[meter.SlidingLog]:
		return " The buckets take no more at once than their capacity; a window takes its whole limit at once."
	}
	return " The counter takes the units of the last window for evenly spread, and they were not."
}

// list is names with commas and an and.
func list(names []string) string {
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}
