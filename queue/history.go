package queue

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// Span is how far back a history goes.
type Span string

// The spans.
const (
	Recent Span = "15m" // a point every 5 s
	Day    Span = "24h" // a point every 5 min
)

// step between two points of a span, and how many of them it has.
func (s Span) step() (time.Duration, int) {
	if s == Day {
		return 5 * time.Minute, 288
	}
	return recordEvery, 180
}

// recordEvery is the time between two points, SLOT in record.lua.
const recordEvery = 5 * time.Second

// History is how one class fared, point by point, oldest first. There is a point for every Step of the span, whether or not
// anything was recorded.
type History struct {
	Class  string
	Span   Span
	Step   time.Duration
	Points []HistoryPoint
}

// HistoryPoint is how a class stood at one time, and what happened in the step that ended then.
type HistoryPoint struct {
	// At is when, by the server's time.
	At time.Time
	// Recorded tells whether anything was: else no program recorded then, and all is zero but At.
	Recorded bool
	// Over is the time that the counts are of, about a step; zero where they are not known, because the point before is
	// missing or the class was made anew in between.
	Over time.Duration
	// Admitted, Departed, Done, Dead, Rejected and Expired are counts of jobs over that time.
	Admitted, Departed, Done, Dead, Rejected, Expired int64
	// Waiting, Out and DeadKept are the jobs that waited in line or aside, were out, and were kept as dead; Buckets those that had
	// jobs or remembered something.
	Waiting, Out, DeadKept, Buckets int64
	// Oldest is how long the job had waited that waited longest, see [Standing].
	Oldest time.Duration
	// Starts is how many starts workers told of for this step, and Lateness and Wait what these were like: the start seen from
	// when it was due, and for first attempts from when the job joined its line.
	Starts         int64
	Lateness, Wait Percentiles
}

// Percentiles of durations, off by an eighth at most; zero where there were none.
type Percentiles struct{ P50, P99 time.Duration }

// PerSecond is a count of the point as a rate; false where it is not known.
func (p HistoryPoint) PerSecond(count int64) (float64, bool) {
	if p.Over <= 0 {
		return 0, false
	}
	return float64(count) / p.Over.Seconds(), true
}

// History reads the history of a class with one round trip. The error wraps [ErrUnknownClass], or [ErrInvalid] for another
// span.
func (c *Client) History(ctx context.Context, class string, span Span) (History, error) {
	ring := map[Span]string{Recent: "recent", Day: "day"}[span]
	if ring == "" {
		return History{}, fmt.Errorf("%w: span %q is neither %s nor %s", ErrInvalid, clip(string(span)), Recent, Day)
	}
	r, err := c.look(ctx, c.scripts.record, 0, "read the history of class "+class, "history", ring, class)
	if err != nil {
		return History{}, err
	}
	if r.int(1) == 0 {
		return History{}, fmt.Errorf("%w: %q", ErrUnknownClass, clip(class))
	}
	h := History{Class: class, Span: span}
	h.fill(time.UnixMicro(r.int(0)), r.list(2))
	return h, nil
}

// fill makes the points up to now of what was recorded. The step that has just begun is left out while its point may still come.
func (h *History) fill(now time.Time, texts reply) {
	step, n := h.Span.step()
	h.Step = step
	slot := func(t time.Time) int64 { return t.UnixMicro() / step.Microseconds() }
	last := slot(now) - 1
	found := map[int64]HistoryPoint{}
	var before record
	for i := range texts {
		if r, ok := readRecord(texts.text(i)); ok {
			found[slot(r.at)] = r.since(before, step)
			before = r
		}
	}
	if _, ok := found[last+1]; ok {
		last++
	}
	h.Points = make([]HistoryPoint, n)
	for i := range h.Points {
		at := last - int64(n-1-i)
		if p, ok := found[at]; ok {
			h.Points[i] = p
		} else {
			h.Points[i].At = time.UnixMicro(at * step.Microseconds()).UTC()
		}
	}
}

// record is a point as it is kept: totals, so that no point depends on who recorded the one before.
type record struct {
	at                                                time.Time
	admitted, departed, done, dead, rejected, expired int64
	waiting, out, kept, buckets, oldest               int64
	timings                                           Timings
}

const recordFormat = "%d %d %d %d %d %d %d %d %d %d %d %d"

// newRecord is how a class stands at a time, with the timings of its starts since the record before.
func newRecord(at time.Time, s *Standing, timings Timings) record {
	r := record{
		at: at, admitted: s.Books.Admitted, departed: s.Books.Departed, done: s.Books.Done, dead: s.Books.Dead, expired: s.Books.Expired,
		waiting: s.Books.Waiting(), out: s.Books.Out(), kept: s.Books.DeadKept(), buckets: s.Buckets, oldest: s.Oldest.Microseconds(),
		timings: timings,
	}
	for _, n := range s.Books.Rejected {
		r.rejected += n
	}
	return r
}

func (r *record) String() string {
	return fmt.Sprintf(recordFormat+" %v %v", r.at.UnixMicro(), r.admitted, r.departed, r.done, r.dead, r.rejected, r.expired,
		r.waiting, r.out, r.kept, r.buckets, r.oldest, &r.timings.Lateness, &r.timings.Wait)
}

func readRecord(text string) (r record, ok bool) {
	var at int64
	var late, wait string
	n, _ := fmt.Sscanf(text, recordFormat+" %s %s", &at, &r.admitted, &r.departed, &r.done, &r.dead, &r.rejected, &r.expired,
		&r.waiting, &r.out, &r.kept, &r.buckets, &r.oldest, &late, &wait) // what cannot be read is left out
	r.at = time.UnixMicro(at).UTC()
	r.timings.Lateness.read(late)
	r.timings.Wait.read(wait)
	return r, n == 1+strings.Count(recordFormat, " ")+2
}

// since is the point that follows another one. The counts are known when nothing is missing between them and no total is
// lower than it was.
func (r *record) since(before record, step time.Duration) HistoryPoint {
	t := &r.timings
	p := HistoryPoint{
		At: r.at, Recorded: true, Waiting: r.waiting, Out: r.out, DeadKept: r.kept, Buckets: r.buckets,
		Oldest: time.Duration(r.oldest) * time.Microsecond, Starts: t.Lateness.Count(),
		Lateness: Percentiles{t.Lateness.Quantile(0.5), t.Lateness.Quantile(0.99)},
		Wait:     Percentiles{t.Wait.Quantile(0.5), t.Wait.Quantile(0.99)},
	}
	over := r.at.Sub(before.at)
	counts := []int64{
		r.admitted - before.admitted, r.departed - before.departed, r.done - before.done, r.dead - before.dead,
		r.rejected - before.rejected, r.expired - before.expired,
	}
	for _, n := range counts {
		if n < 0 {
			return p
		}
	}
	if over > 0 && over < step*3/2 {
		p.Over = over
		p.Admitted, p.Departed, p.Done, p.Dead, p.Rejected, p.Expired = counts[0], counts[1], counts[2], counts[3], counts[4], counts[5]
	}
	return p
}
