package wire

import (
	"time"

	"github.com/spout-queue/spout/queue"
)

// Worker is one worker as it stands. What it has not told of itself is missing.
type Worker struct {
	Name        string   `json:"name"`
	Reported    *Time    `json:"reported,omitempty" format:"date-time" doc:"When it last told of itself, which it does every 5 s; what follows up to since is from then. Missing when that is 15 s ago."`
	AgeMS       *int64   `json:"age_ms,omitempty" doc:"Time since then."`
	Host        string   `json:"host,omitempty"`
	Process     int      `json:"process,omitempty"`
	Version     string   `json:"version,omitempty"`
	Classes     []string `json:"classes,omitempty" nullable:"false" doc:"Classes that it serves; all when missing."`
	Concurrency int      `json:"concurrency,omitempty" doc:"Its slots."`
	Busy        int      `json:"busy,omitempty" doc:"Slots that run a job."`
	Since       *Time    `json:"since,omitempty" format:"date-time"`
	Shards      []int    `json:"shards,omitempty" nullable:"false" doc:"Shards that it has called for departures."`
	Out         int      `json:"out" doc:"Jobs that it has out."`
	Calls       int64    `json:"calls" doc:"Calls for departures: it grows as long as the worker lives."`
}

// FromWorker writes a worker down.
func FromWorker(w queue.Worker) Worker {
	told := Worker{
		Name: w.Name, Reported: timeOf(w.Reported), Host: w.Host, Process: w.Process, Version: w.Version, Classes: w.Classes,
		Concurrency: w.Concurrency, Busy: w.Busy, Since: timeOf(w.Since), Shards: w.Shards, Out: w.Out, Calls: w.Calls,
	}
	if told.Reported != nil {
		told.AgeMS = new(queue.Millis(w.Age))
	}
	return told
}

// ToQueue is the inverse of FromWorker. The age is in whole milliseconds.
func (w Worker) ToQueue() queue.Worker {
	return queue.Worker{
		Name: w.Name, Reported: goTime(w.Reported), Age: time.Duration(orZero(w.AgeMS)) * time.Millisecond, Host: w.Host, Process: w.Process,
		Version: w.Version, Classes: w.Classes, Concurrency: w.Concurrency, Busy: w.Busy, Since: goTime(w.Since), Shards: w.Shards,
		Out: w.Out, Calls: w.Calls,
	}
}

// History is how a class fared, point by point, the oldest first. There is a point for every step.
type History struct {
	Class  string     `json:"class" example:"github-api"`
	Span   queue.Span `json:"span" enum:"15m,24h"`
	StepMS int64      `json:"step_ms" example:"5000"`
	Points []Point    `json:"points" nullable:"false"`
}

// Point is how a class stood at one time, and what happened in the step that ended then.
type Point struct {
	At       Time    `json:"at" format:"date-time"`
	Recorded bool    `json:"recorded" doc:"False where nothing was recorded: then all else is missing."`
	Counts   *Counts `json:"counts,omitempty" doc:"Missing where they are not known, since the point before is missing."`
	Levels   *Levels `json:"levels,omitempty"`
	Starts   *Starts `json:"starts,omitempty" doc:"Missing where there were none."`
}

// Counts are jobs over some time.
type Counts struct {
	OverMS   int64 `json:"over_ms" doc:"The time, about a step."`
	Admitted int64 `json:"admitted"`
	Departed int64 `json:"departed"`
	Done     int64 `json:"done"`
	Dead     int64 `json:"dead"`
	Rejected int64 `json:"rejected"`
	Expired  int64 `json:"expired"`
}

// Levels are jobs at one time.
type Levels struct {
	Waiting  int64 `json:"waiting"`
	Out      int64 `json:"out"`
	DeadKept int64 `json:"dead_kept"`
	Buckets  int64 `json:"buckets" doc:"Those that had jobs or remembered something."`
	OldestMS int64 `json:"oldest_ms" doc:"How long the job had waited that waited longest."`
}

// Starts are what starts of handlers were like.
type Starts struct {
	Count       int64   `json:"count"`
	LatenessP50 float64 `json:"lateness_p50_ms" doc:"The start seen from when it was due; off by an eighth at most."`
	LatenessP99 float64 `json:"lateness_p99_ms"`
	WaitP50     float64 `json:"wait_p50_ms" doc:"Of first attempts, the start seen from when the job joined its line."`
	WaitP99     float64 `json:"wait_p99_ms"`
}

// FromHistory writes a history down.
func FromHistory(h queue.History) History {
	w := History{Class: h.Class, Span: h.Span, StepMS: h.Step.Milliseconds(), Points: make([]Point, len(h.Points))}
	for i, p := range h.Points {
		w.Points[i] = fromPoint(p)
	}
	return w
}

func fromPoint(p queue.HistoryPoint) Point {
	w := Point{At: Time(p.At), Recorded: p.Recorded}
	if !p.Recorded {
		return w
	}
	w.Levels = &Levels{p.Waiting, p.Out, p.DeadKept, p.Buckets, queue.Millis(p.Oldest)}
	if p.Over > 0 {
		w.Counts = &Counts{p.Over.Milliseconds(), p.Admitted, p.Departed, p.Done, p.Dead, p.Rejected, p.Expired}
	}
	if p.Starts > 0 {
		w.Starts = &Starts{p.Starts, floatMillis(p.Lateness.P50), floatMillis(p.Lateness.P99), floatMillis(p.Wait.P50), floatMillis(p.Wait.P99)}
	}
	return w
}

func floatMillis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func fromFloat(ms float64) time.Duration { return time.Duration(ms*1000) * time.Microsecond }

// ToQueue is the inverse of FromHistory. Durations are in whole milliseconds, those of starts in microseconds.
func (w History) ToQueue() queue.History {
	h := queue.History{Class: w.Class, Span: w.Span, Step: time.Duration(w.StepMS) * time.Millisecond, Points: make([]queue.HistoryPoint, len(w.Points))}
	for i, p := range w.Points {
		h.Points[i] = p.toQueue()
	}
	return h
}

func (w Point) toQueue() queue.HistoryPoint {
	p := queue.HistoryPoint{At: time.Time(w.At), Recorded: w.Recorded}
	if l := w.Levels; l != nil {
		p.Waiting, p.Out, p.DeadKept, p.Buckets, p.Oldest = l.Waiting, l.Out, l.DeadKept, l.Buckets, time.Duration(l.OldestMS)*time.Millisecond
	}
	if c := w.Counts; c != nil {
		p.Over = time.Duration(c.OverMS) * time.Millisecond
		p.Admitted, p.Departed, p.Done, p.Dead, p.Rejected, p.Expired = c.Admitted, c.Departed, c.Done, c.Dead, c.Rejected, c.Expired
	}
	if s := w.Starts; s != nil {
		p.Starts = s.Count
		p.Lateness = queue.Percentiles{P50: fromFloat(s.LatenessP50), P99: fromFloat(s.LatenessP99)}
		p.Wait = queue.Percentiles{P50: fromFloat(s.WaitP50), P99: fromFloat(s.WaitP99)}
	}
	return p
}
