// Package preview estimates what a change of a class would do: how long its lines would take to empty, and how many of the
// last arrivals it would have refused.
package preview

import (
	"math"
	"slices"
	"time"

	"github.com/spout-queue/spout/queue"
)

// Preview is what a changed class would do, beside what it does now.
type Preview struct {
	Now, Then Estimate
	// Overfull is how many of the buckets have a higher level than the new capacity: they refuse until it fits.
	Overfull int
	// Arrived is how many submissions there were in the time that is Covered by the history, and Refused how many of them
	// were refused, for whatever reason.
	Arrived, Refused int64
	Covered          time.Duration
}

// Estimate is what one set of settings gives.
type Estimate struct {
	// Empty is the time that the fullest of the buckets takes to empty, if nothing comes meanwhile.
	Empty time.Duration
	// Refused is how many of those that arrived would have found their bucket full, and Fullest the highest level. It is a
	// fluid that flows into leaky buckets: all keys are taken to get the same, evenly over each point of the history. Keys
	// that get more, and bursts within a point, overflow sooner; so where this is above zero it is rather too low.
	Refused int64
	Fullest int
}

// Of compares a class with what it is to become. points are the history of what arrived, oldest first, such as the last hour of
// [queue.Day]; those whose counts are not known are left out. levels are those of its buckets now. Nothing is read or kept.
func Of(now, then queue.Class, points []queue.HistoryPoint, levels []int) Preview {
	p := Preview{Now: estimate(now, points, levels), Then: estimate(then, points, levels)}
	for _, level := range levels {
		if level > then.Capacity {
			p.Overfull++
		}
	}
	for _, point := range points {
		if point.Over > 0 {
			p.Arrived += point.Admitted + point.Rejected
			p.Refused += point.Rejected
			p.Covered += point.Over
		}
	}
	return p
}

func estimate(class queue.Class, points []queue.HistoryPoint, levels []int) Estimate {
	var e Estimate
	if len(levels) > 0 {
		e.Empty = emptying(class.Rate, slices.Max(levels))
	}
	var refused, highest float64
	level, begun := 0.0, false
	capacity := float64(class.Capacity)
	for _, p := range points {
		keys := float64(max(1, p.Buckets))
		if p.Over <= 0 { // not known: begin again with the next one
			begun = false
			continue
		}
		if !begun {
			level, begun = math.Min(capacity, before(p)/keys), true
		}
		level += float64(p.Admitted+p.Rejected)/keys - perSecond(class.Rate)*p.Over.Seconds()
		if level > capacity {
			refused += (level - capacity) * keys
		}
		level = math.Max(0, math.Min(capacity, level))
		highest = math.Max(highest, level)
	}
	e.Refused, e.Fullest = int64(math.Round(refused)), int(math.Ceil(highest))
	return e
}

// before is how many jobs waited when the time of a point began, as far as its counts tell.
func before(p queue.HistoryPoint) float64 {
	return math.Max(0, float64(p.Waiting-p.Admitted+p.Departed+p.Expired))
}

func perSecond(r queue.Rate) float64 {
	if r.Period <= 0 {
		return 0
	}
	return float64(r.Limit) / r.Period.Seconds()
}

// emptying is how long a line takes to empty at a rate.
func emptying(r queue.Rate, level int) time.Duration {
	if r.Limit <= 0 {
		return 0
	}
	d := float64(level) * float64(r.Period) / float64(r.Limit)
	return time.Duration(math.Min(d, math.MaxInt64/2))
}
