package pages

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/queue"
)

func (p *Pages) deadDeeds() {
	p.post("/dead/retry", p.retryTicked)
	p.post("/dead/retry-all", p.retryAll)
	p.post("/dead/stop", p.stopRetry)
	p.get("/dead/purge", p.askPurgeDead)
	p.post("/dead/purge", p.purgeDead)
}

// deadRefusal shows the dead jobs again, with why that was not done.
func (p *Pages) deadRefusal(w http.ResponseWriter, r *http.Request, t desk.Target, err error) error {
	return refused(err, func(status int, why []notice) error { return p.showDead(w, r, t, status, why) })
}

// retryTicked sends the jobs that were ticked round again, one by one: each is answered on its own.
func (p *Pages) retryTicked(w http.ResponseWriter, r *http.Request) error {
	t := targetOf(r)
	refs := r.PostForm["ref"]
	switch {
	case len(refs) == 0:
		return p.deadRefusal(w, r, t, fmt.Errorf("%w: no job is ticked", queue.ErrInvalid))
	case len(refs) > 2*deadPage:
		return p.deadRefusal(w, r, t, fmt.Errorf("%w: %d jobs are ticked; at most %d at once", queue.ErrInvalid, len(refs), 2*deadPage))
	}
	var retried, gone int
	var last error
	for _, ref := range refs {
		switch _, err := p.Desk.Retry(r.Context(), ref); {
		case err == nil:
			retried++
		case errors.Is(err, queue.ErrNotFound): // somebody else was quicker
			gone++
		case errors.Is(err, access.ErrDenied), errors.Is(err, queue.ErrUnavailable):
			return err
		default:
			last = err
		}
	}
	return p.showDead(w, r, t, http.StatusOK, ticked(retried, gone, len(refs)-retried-gone, last))
}

// ticked says what became of the jobs that were ticked.
func ticked(retried, gone, left int, last error) []notice {
	var notices []notice
	if retried > 0 {
		notices = append(notices, notice{"good", fmt.Sprintf("Sent round again, each to the tail of its bucket: %s.", jobs(retried))})
	}
	if gone > 0 {
		notices = append(notices, notice{"warn", fmt.Sprintf("Not dead any more: %s.", jobs(gone))})
	}
	if left > 0 {
		notices = append(notices, notice{"bad", fmt.Sprintf("Still dead: %s. %v", jobs(left), last)})
	}
	return notices
}

func jobs(n int) string {
	if n == 1 {
		return "1 job"
	}
	return number(n) + " jobs"
}

// retryAll begins to send all dead jobs of a class or bucket round again, as there is room.
func (p *Pages) retryAll(w http.ResponseWriter, r *http.Request) error {
	t := targetOf(r)
	if err := access.From(r.Context()).Check(access.Operator); err != nil {
		return err
	}
	if _, err := p.Desk.Class(r.Context(), t.Class); err != nil {
		return err
	}
	total := 0
	if t.Key == "" {
		var err error
		if total, err = p.Desk.Client().Dead().Count(r.Context(), t.Class); err != nil {
			return err
		}
	}
	if err := p.revivals.begin(r.Context(), p.Desk, t, total); err != nil {
		return p.deadRefusal(w, r, t, err)
	}
	return p.done(w, r, "begun", "/dead", "class", t.Class, "key", t.Key)
}

// stopRetry ends it early.
func (p *Pages) stopRetry(w http.ResponseWriter, r *http.Request) error {
	t := targetOf(r)
	if err := access.From(r.Context()).Check(access.Operator); err != nil {
		return err
	}
	if _, err := p.Desk.Class(r.Context(), t.Class); err != nil {
		return err
	}
	p.revivals.halt(t.Class)
	return p.done(w, r, "stopped", "/dead", "class", t.Class, "key", t.Key)
}

// askPurgeDead says what would be dropped.
func (p *Pages) askPurgeDead(w http.ResponseWriter, r *http.Request) error {
	t := targetOf(r)
	if err := access.From(r.Context()).Check(access.Admin); err != nil {
		return err
	}
	if _, err := p.Desk.Class(r.Context(), t.Class); err != nil {
		return err
	}
	count, err := p.countDead(r, t)
	if err != nil {
		return err
	}
	return p.show(w, r, http.StatusOK, "ask", page{Title: "Purge the dead of " + t.String(), Here: "dead", Styles: []string{"jobs.css"}, Content: question{
		Title: "Purge the dead jobs of " + t.String() + "?",
		Text:  count + " are kept now. They are dropped with their payloads and errors; nobody can bring them back. What waits and what is out goes on.",
		Label: "Drop " + count, URL: p.url("/dead/purge"), Back: p.url("/dead", "class", t.Class, "key", t.Key),
		Fields: append(targetFields(t), field{"sure", "yes"}),
	}})
}

// countDead is how many dead jobs a question is about. Those of one bucket are counted up to a bound: to count is to read them.
func (p *Pages) countDead(r *http.Request, t desk.Target) (string, error) {
	if t.Key == "" {
		n, err := p.Desk.Client().Dead().Count(r.Context(), t.Class)
		return jobs(n), err
	}
	list, err := p.Desk.Client().Dead().List(r.Context(), queue.DeadQuery{Class: t.Class, Key: t.Key, Limit: deadStep})
	if len(list) == deadStep {
		return fmt.Sprintf("%d or more jobs", deadStep), err
	}
	return jobs(len(list)), err
}

func (p *Pages) purgeDead(w http.ResponseWriter, r *http.Request) error {
	t := targetOf(r)
	if r.PostFormValue("sure") != "yes" {
		return p.askPurgeDead(w, r)
	}
	if _, err := p.Desk.PurgeDead(r.Context(), t); err != nil {
		return p.deadRefusal(w, r, t, err)
	}
	return p.done(w, r, "dropped", "/dead", "class", t.Class, "key", t.Key)
}
