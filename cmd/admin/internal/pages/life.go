package pages

import (
	"fmt"
	"strings"
	"time"

	"github.com/spout-queue/spout/cmd/admin/internal/draw"
	"github.com/spout-queue/spout/cmd/admin/internal/redact"
	"github.com/spout-queue/spout/queue"
)

// happening is one line of a job's life.
type happening struct {
	At    time.Time
	What  string // what happened, in a word or two
	Kind  string // good, warn, bad, or nothing
	Text  string // the rest of the sentence
	Error string
}

// life tells what became of a job until now, oldest first.
func life(j queue.JobState, now time.Time) []happening {
	events := []happening{admission(j)}
	if len(j.History) > 0 && j.History[0].Number > 1 {
		events = append(events, happening{What: "earlier attempts", Text: fmt.Sprintf("The first %d are not kept.", j.History[0].Number-1)})
	}
	for _, a := range j.History {
		events = append(events, attempt(a))
	}
	return append(events, present(j, now))
}

func admission(j queue.JobState) happening {
	e := happening{At: j.AdmittedAt, What: "admitted"}
	if !j.EstimatedStart.IsZero() {
		e.Text = fmt.Sprintf("Its receipt told a start %s later.", shortDuration(j.EstimatedStart.Sub(j.AdmittedAt)))
	}
	if len(j.History) == 0 && j.NotBefore.After(j.AdmittedAt) {
		e.Text = fmt.Sprintf("Delayed until %s. ", date(j.NotBefore)) + e.Text
	}
	return e
}

// attempt tells of one that ended.
func attempt(a queue.Attempt) happening {
	e := happening{At: a.Departed, What: fmt.Sprintf("attempt %d %s", a.Number, a.Outcome), Kind: kindOf(a.Outcome)}
	var b strings.Builder
	if late, known := a.Lateness(); known {
		fmt.Fprintf(&b, "Started %s, %s after it was due, and ran for %s", clock(a.Started), exactDuration(late), exactDuration(a.Ended.Sub(a.Started)))
	} else {
		fmt.Fprintf(&b, "Departed, and ended %s later; nobody knows when it started", exactDuration(a.Ended.Sub(a.Departed)))
	}
	fmt.Fprintf(&b, ", on worker %s.", a.Worker)
	e.Text = b.String()
	e.Error, _ = redact.Text(a.Error)
	return e
}

func kindOf(outcome string) string {
	switch outcome {
	case "done":
		return "good"
	case "failed", "crashed":
		return "bad"
	}
	return "warn"
}

// present tells where the job is now, or how it ended.
func present(j queue.JobState, now time.Time) happening {
	e := happening{At: now, What: string(j.State)}
	switch j.State {
	case queue.Line, queue.Waiting: // a job is never in the latter, which only asks for both
		e.What, e.Text = "waits", fmt.Sprintf("It waits in line, position %s.", number(j.Position))
	case queue.Later:
		e.What, e.Text = "parked", "It joins the line again at "+date(j.NotBefore)+"."
		if j.Attempts == 0 {
			e.What, e.Text = "delayed", "It joins the line at "+date(j.NotBefore)+"."
		}
	case queue.Out:
		e.What, e.Text = "out", fmt.Sprintf("Departed %s, %s ago; worker %s has it.", clock(j.DepartedAt), shortDuration(now.Sub(j.DepartedAt)), j.Worker)
		if j.Cancelling {
			e.What, e.Kind, e.Text = "cancelling", "warn", "It was told to end. "+e.Text
		}
	case queue.Kept:
		e.At, e.Kind, e.Text = j.EndedAt, "bad", "It is kept until it goes round again or is dropped."
		e.Error, _ = redact.Text(j.Error)
	case queue.Completed:
		e.At, e.Kind, e.Text = j.EndedAt, "good", fmt.Sprintf("It took %s from its admission.", shortDuration(j.EndedAt.Sub(j.AdmittedAt)))
	case queue.Expired:
		e.At, e.Kind, e.Text = j.EndedAt, "warn", "It waited longer than it may, and never costs a departure."
	case queue.Cancelled, queue.Dropped:
		e.At, e.Kind = j.EndedAt, "warn"
	case queue.Gone:
		e.Text = "It has ended. Only its identity is remembered."
	}
	return e
}

// ended tells whether nothing more becomes of a job by itself.
func ended(s queue.State) bool { return s != queue.Line && s != queue.Later && s != queue.Out }

// timeline draws the same.
func timeline(j queue.JobState, events []happening, now time.Time) draw.Timeline {
	t := draw.Timeline{ID: "life", Until: now, Open: !ended(j.State), Text: inWords(events)}
	if !t.Open && !j.EndedAt.IsZero() {
		t.Until = j.EndedAt
	}
	at := j.AdmittedAt
	add := func(kind string, to time.Time, end string) {
		if to.After(at) {
			t.Spans = append(t.Spans, draw.Span{Kind: kind, From: at, To: to, End: end})
			at = to
		}
	}
	if j.Attempts == 0 && j.NotBefore.After(at) {
		add("later", earlier(j.NotBefore, t.Until), "")
	}
	for _, a := range j.History {
		add("wait", a.Departed, "")
		add("out", a.Started, "")
		add("run", a.Ended, kindOf(a.Outcome))
	}
	switch j.State {
	case queue.Later:
		add("later", t.Until, "")
	case queue.Out:
		add("wait", j.DepartedAt, "")
		add("run", t.Until, "")
	default:
		add("wait", t.Until, "")
	}
	return t
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// inWords is what the drawing tells, for who does not see it.
func inWords(events []happening) string {
	var parts []string
	for _, e := range events {
		parts = append(parts, e.What)
	}
	return "The life of the job: " + strings.Join(parts, ", then ") + ". The list below says when."
}

// clock is a time of day; the list says the day where it is another one.
func clock(t time.Time) string { return t.UTC().Format("15:04:05.000") }

// date is a time that may be another day, to the second.
func date(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }

// exactDuration is shortDuration with the parts of a millisecond that lateness is about.
func exactDuration(d time.Duration) string {
	if d > -100*time.Millisecond && d < 100*time.Millisecond {
		return fmt.Sprintf("%.1fms", float64(d.Microseconds())/1000)
	}
	return shortDuration(d)
}
