package pages

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/queue"
)

// bucketActs are the buttons of a bucket: those that its state and the person's role leave.
type bucketActs struct {
	Deeds []deed
	Hold  *holdForm
	Purge *ask
}

// holdForm asks for how long to hold, or until when.
type holdForm struct {
	URL        string
	Fields     []field
	For, Until string
}

// typed keeps what somebody wrote that was not taken.
func (h *holdForm) typed(r *http.Request) {
	if h == nil || r.Method != http.MethodPost {
		return
	}
	h.For, h.Until = cmp.Or(r.PostFormValue("for"), h.For), r.PostFormValue("until")
}

// holdUsual is for how long a hold is that somebody only presses.
const holdUsual = "10m"

func (p *Pages) bucketDeeds() {
	p.post("/bucket/pause", p.bucketDeed("paused", (*desk.Desk).Pause))
	p.post("/bucket/resume", p.bucketDeed("resumed", (*desk.Desk).Resume))
	p.post("/bucket/drain", p.bucketDeed("draining", (*desk.Desk).Drain))
	p.post("/bucket/unhold", p.bucketDeed("unheld", (*desk.Desk).Unhold))
	p.post("/bucket/hold", p.holdBucket)
	p.get("/bucket/purge", p.askPurge)
	p.post("/bucket/purge", p.purgeBucket)
}

// actsOn are what the person may do to a bucket as it stands.
func (p *Pages) actsOn(who access.Person, class queue.Class, b queue.Bucket) bucketActs {
	var acts bucketActs
	if !who.May(access.Operator) {
		return acts
	}
	t := targetFields(desk.Target{Class: b.Class, Key: b.Key})
	add := func(action, label, kind string) {
		acts.Deeds = append(acts.Deeds, deed{"bucket-" + action, p.url("/bucket/" + action), label, kind, t})
	}
	// What the class closes is opened at the class.
	own := b.Paused && !class.Paused || b.Draining && !class.Draining || b.Sick != ""
	if own {
		add("resume", "Resume", "main")
	}
	if !b.Hold.IsZero() && !b.Hold.Equal(class.Hold) {
		add("unhold", "Unhold: open it now", "main")
	}
	if !b.Paused {
		add("pause", "Pause", "")
	}
	if !b.Draining {
		add("drain", "Drain: admit no more", "")
	}
	acts.Hold = &holdForm{URL: p.url("/bucket/hold"), Fields: t, For: holdUsual}
	if who.May(access.Admin) && b.Level > 0 {
		purge := p.ask("Purge…", "bad", "/bucket/purge", "class", b.Class, "key", b.Key)
		acts.Purge = &purge
	}
	return acts
}

// bucketDeed does one thing to a bucket and shows it.
func (p *Pages) bucketDeed(what string, do func(*desk.Desk, context.Context, desk.Target) (bool, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		t, err := bucketOf(r)
		if err != nil {
			return err
		}
		if _, err := do(p.Desk, r.Context(), t); err != nil {
			return p.bucketRefusal(w, r, t, err)
		}
		return p.done(w, r, what, "/bucket", "class", t.Class, "key", t.Key)
	}
}

// bucketOf is the target of a request that must name a bucket: without a key it would be the whole class.
func bucketOf(r *http.Request) (desk.Target, error) {
	t := targetOf(r)
	if t.Key == "" {
		return t, fmt.Errorf("%w: no key: which bucket of class %q?", queue.ErrInvalid, t.Class)
	}
	return t, nil
}

// bucketRefusal shows the bucket again, with why that was not done.
func (p *Pages) bucketRefusal(w http.ResponseWriter, r *http.Request, t desk.Target, err error) error {
	return refused(err, func(status int, why []notice) error { return p.showBucket(w, r, t, status, why) })
}

// holdBucket holds for a time, or until one.
func (p *Pages) holdBucket(w http.ResponseWriter, r *http.Request) error {
	t, err := bucketOf(r)
	if err != nil {
		return err
	}
	until, err := p.holdUntil(r)
	if err == nil {
		_, err = p.Desk.Hold(r.Context(), t, until)
	}
	if err != nil {
		return p.bucketRefusal(w, r, t, err)
	}
	return p.done(w, r, "held", "/bucket", "class", t.Class, "key", t.Key)
}

// holdUntil reads when a hold is over: a duration from now by Redis's clock, or a time.
func (p *Pages) holdUntil(r *http.Request) (time.Time, error) {
	if at := r.PostFormValue("until"); at != "" {
		for _, format := range []string{time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02T15:04"} { // the last two as a browser writes them: UTC, as the page says
			if until, err := time.Parse(format, at); err == nil {
				return until, nil
			}
		}
		return time.Time{}, fmt.Errorf("%w: until %.40q is no time such as 2026-01-31T15:04:05Z", queue.ErrInvalid, at)
	}
	d, err := time.ParseDuration(r.PostFormValue("for"))
	if err != nil || d <= 0 {
		return time.Time{}, fmt.Errorf("%w: hold for %.40q is no duration such as 90s or 10m", queue.ErrInvalid, r.PostFormValue("for"))
	}
	now, err := p.Desk.Client().Now(r.Context())
	return now.Add(d), err
}

// question is asked before something is dropped.
type question struct {
	Title, Text, Label string
	URL, Back          string
	Fields             []field
}

// askPurge says what a purge would drop.
func (p *Pages) askPurge(w http.ResponseWriter, r *http.Request) error {
	t, err := bucketOf(r)
	if err != nil {
		return err
	}
	if err := access.From(r.Context()).Check(access.Admin); err != nil {
		return err
	}
	_, b, err := p.bucketNow(r.Context(), t)
	if err != nil {
		return err
	}
	return p.show(w, r, http.StatusOK, "ask", page{Title: "Purge " + t.String(), Styles: []string{"jobs.css"}, Content: question{
		Title: "Purge bucket " + t.String() + "?",
		Text: fmt.Sprintf("%s jobs wait in it now: %s in line and %s delayed or parked. They are dropped and never start; nobody can bring them back. What is out goes on.",
			number(b.Level), number(b.Line), number(b.Later)),
		Label: "Drop " + number(b.Level) + " jobs", URL: p.url("/bucket/purge"), Back: p.url("/bucket", "class", t.Class, "key", t.Key),
		Fields: append(targetFields(t), field{"sure", "yes"}),
	}})
}

func (p *Pages) purgeBucket(w http.ResponseWriter, r *http.Request) error {
	t, err := bucketOf(r)
	if err != nil {
		return err
	}
	if r.PostFormValue("sure") != "yes" {
		return p.askPurge(w, r)
	}
	if _, err := p.Desk.Purge(r.Context(), t); err != nil {
		return p.bucketRefusal(w, r, t, err)
	}
	return p.done(w, r, "purged", "/bucket", "class", t.Class, "key", t.Key)
}
