package playground

import (
	"context"
	"slices"
	"time"

	"github.com/spout-queue/spout/meter"
)

// Look is the table at one moment. Times are durations since Begin.
type Look struct {
	Settings
	Now   time.Duration
	Begin time.Time
	// Last click, below zero when there was none.
	Last  time.Duration
	Lanes []Lane
}

// Lane is one meter at that moment.
type Lane struct {
	Algorithm meter.Algorithm
	// Clicked: there was a click, and Last is what it was told.
	Clicked bool
	Last    meter.Decision
	// RetryAt is when the refused cost of the last click conforms; zero when it was not refused, or never will.
	RetryAt time.Duration
	// Remaining of Limit units now, and ResetAfter until all are there again.
	Remaining, Limit int64
	ResetAfter       time.Duration
	// Conformed and Refused count all clicks since Begin.
	Conformed, Refused int
	// Marks are the clicks of the last span, Levels what of the limit was in use at its turning points.
	Marks  []Mark
	Levels []Level
}

// Mark is one click.
type Mark struct {
	At      time.Duration
	Cost    int64
	Conform bool
}

// Level is how many units were in use at a time, before and after what happened then. Between two of them a bucket drains evenly.
type Level struct {
	At            time.Duration
	Before, After int64
	// Empty is when nothing would be in use any more if nothing else happened.
	Empty time.Duration
}

// mostMarks bounds what one lane remembers, however fast somebody clicks.
const mostMarks = 500

// everybody is the key of all clicks: each visitor has meters of their own.
const everybody = "everybody"

// lane is one meter and what it was asked.
type lane struct {
	meter              *meter.Meter
	limit              meter.Limit
	clicked            bool
	last               meter.Decision
	retryAt            time.Duration
	conformed, refused int
	marks              []Mark
	levels             []Level
}

func newLane(a meter.Algorithm, s Settings) *lane {
	limit := meter.Limit{Algorithm: a, Count: s.Count, Period: s.Period}
	if isBucket(a) {
		limit.Capacity = s.Capacity
	}
	m, err := meter.New(meter.MemoryOf(1), limit, meter.Options{})
	if err != nil {
		panic(err) // the settings were validated, and are far inside of what a meter takes
	}
	return &lane{meter: m, limit: limit}
}

// isBucket tells the algorithms that have a capacity and drain evenly from those that count in windows.
func isBucket(a meter.Algorithm) bool {
	return slices.Contains([]meter.Algorithm{meter.GCRA, meter.TokenBucket, meter.LeakyBucket}, a)
}

// Evenly tells whether what is in use drains evenly, as in a bucket, and not in steps.
func (l Lane) Evenly() bool { return isBucket(l.Algorithm) }

func (l *lane) click(ctx context.Context, at time.Duration, cost int64) error {
	before, err := l.meter.Peek(ctx, everybody, 0)
	if err != nil {
		return err
	}
	d, err := l.meter.Check(ctx, everybody, cost)
	if err != nil {
		return err
	}
	l.clicked, l.last, l.retryAt = true, d, 0
	if d.Conform {
		l.conformed++
	} else {
		l.refused++
		if !d.Never {
			l.retryAt = at + d.RetryAfter
		}
	}
	l.marks = append(l.marks, Mark{at, cost, d.Conform})
	l.levels = append(l.levels, Level{at, before.Limit - before.Remaining, d.Limit - d.Remaining, at + d.ResetAfter})
	return nil
}

func (l *lane) look(ctx context.Context, now time.Duration) (Lane, error) {
	d, err := l.meter.Peek(ctx, everybody, 0)
	if err != nil {
		return Lane{}, err
	}
	l.step(now, d)
	return Lane{
		Algorithm: l.limit.Algorithm, Clicked: l.clicked, Last: l.last, RetryAt: l.retryAt,
		Remaining: d.Remaining, Limit: d.Limit, ResetAfter: d.ResetAfter, Conformed: l.conformed, Refused: l.refused,
		Marks: slices.Clone(l.marks), Levels: slices.Clone(l.levels),
	}, nil
}

// step notes that a window has less in use than before: it empties in steps, and nothing else tells of them.
func (l *lane) step(now time.Duration, d meter.Decision) {
	if isBucket(l.limit.Algorithm) || len(l.levels) == 0 {
		return
	}
	before, used := l.levels[len(l.levels)-1], d.Limit-d.Remaining
	if used < before.After && now < before.Empty {
		l.levels = append(l.levels, Level{now, before.After, used, now + d.ResetAfter})
	}
}

// trim forgets what was before a time, and what is too much. One level before it stays: the drawing begins there.
func (l *lane) trim(from time.Duration) {
	first := 0
	for first < len(l.marks) && (l.marks[first].At < from || len(l.marks)-first > mostMarks) {
		first++
	}
	l.marks = slices.Delete(l.marks, 0, first)
	first = 0
	for first+1 < len(l.levels) && (l.levels[first+1].At < from || len(l.levels)-first > 2*mostMarks) {
		first++
	}
	l.levels = slices.Delete(l.levels, 0, first)
}
