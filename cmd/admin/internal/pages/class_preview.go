package pages

import (
	"context"
	"fmt"
	"time"

	"github.com/spout-queue/spout/cmd/admin/internal/preview"
	"github.com/spout-queue/spout/cmd/internal/classfile"
	"github.com/spout-queue/spout/queue"
)

// previewBuckets is how many of the fullest buckets a preview looks at.
const previewBuckets = 5

// classPreview is what a change would do.
type classPreview struct {
	New      bool
	Rate     queue.Rate
	Capacity int
	Changes  []classfile.Change
	Warnings []string
	Buckets  []bucketForecast
	// Estimate is what became of the arrivals of the last hour, and what would.
	Estimate preview.Preview
}

// Fills is how long a full bucket takes to empty.
func (p classPreview) Fills() time.Duration { return time.Duration(p.Capacity) * p.Rate.Interval() }

// bucketForecast is one of the fullest buckets, before and after.
type bucketForecast struct {
	Key           string
	Level         int
	Before, After string // until it is empty
	OverNow       bool   // at or above the new capacity
}

func (p *Pages) previewOf(ctx context.Context, stored, class queue.Class) (*classPreview, error) {
	view := &classPreview{Rate: class.Rate, Capacity: class.Capacity, Changes: classfile.Diff(stored, class)}
	if len(view.Changes) == 0 {
		return view, nil
	}
	buckets, err := p.Desk.Client().Buckets().List(ctx, class.Name, previewBuckets)
	if err != nil {
		return nil, err
	}
	for _, b := range buckets {
		if b.Level > 0 {
			view.Buckets = append(view.Buckets, forecast(b, stored, class))
		}
	}
	view.Warnings = warnings(stored, class, view.Buckets)
	history, err := p.Desk.Client().History(ctx, class.Name, queue.Day)
	if err != nil {
		return nil, err
	}
	view.Estimate = preview.Of(stored, class, lastHour(history.Points), nil)
	return view, nil
}

func forecast(b queue.Bucket, stored, class queue.Class) bucketForecast {
	f := bucketForecast{Key: b.Key, Level: b.Level, OverNow: b.Level >= class.Capacity}
	f.Before, f.After = empties(b, stored.Rate), empties(b, class.Rate)
	return f
}

// empties tells how long a bucket takes to empty if nothing else comes.
func empties(b queue.Bucket, rate queue.Rate) string {
	if b.Paused {
		return "never: it is paused"
	}
	return shortDuration((time.Duration(b.Level) * rate.Interval()).Round(10 * time.Millisecond))
}

// lastHour is the points of the last hour.
func lastHour(points []queue.HistoryPoint) []queue.HistoryPoint {
	i := len(points)
	for i > 0 && points[len(points)-1].At.Sub(points[i-1].At) < time.Hour {
		i--
	}
	return points[i:]
}

// warnings are what somebody should have seen before they save.
func warnings(stored, class queue.Class, buckets []bucketForecast) []string {
	var list []string
	over := 0
	for _, b := range buckets {
		if b.OverNow && class.Capacity < stored.Capacity {
			over++
		}
	}
	if over > 0 {
		list = append(list, fmt.Sprintf("The capacity is at or below the level of %d of the fullest buckets: they reject until they have drained below it. "+
			"Nothing that waits is dropped.", over))
	}
	if class.Rate.Interval() > stored.Rate.Interval() {
		list = append(list, fmt.Sprintf("The rate is lower: one departure every %s instead of every %s, from the next one on, for what waits already too.",
			shortDuration(class.Rate.Interval()), shortDuration(stored.Rate.Interval())))
	}
	if class.Rate.Interval() < stored.Rate.Interval() {
		list = append(list, "The rate is higher: the called service gets more at once. Is it known to bear that?")
	}
	if class.CatchUp > stored.CatchUp {
		list = append(list, fmt.Sprintf("A longer catch_up lets departures follow each other closer than the interval, by up to %v, after a delay.", class.CatchUp))
	}
	if class.Pace != stored.Pace && class.Pace == queue.PaceStrict {
		list = append(list, "pace: strict costs one more round trip to Redis at the start of each attempt.")
	}
	if class.Overflow != stored.Overflow && class.Overflow == queue.DropOldest {
		list = append(list, "drop-oldest: a full bucket drops the job that would leave next, and tells nobody but its counters.")
	}
	if class.MaxWait > 0 && (stored.MaxWait == 0 || class.MaxWait < stored.MaxWait) {
		list = append(list, "A shorter max_wait counts for what is submitted from now on.")
	}
	if class.HTTP.AllowPrivate && !stored.HTTP.AllowPrivate {
		list = append(list, "allow_private: whoever may submit can have workers call inner addresses.")
	}
	return list
}
