package pages

import (
	"context"
	"fmt"
	"net/http"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/queue"
)

// classActs are the buttons of a class: those that its state and the person's role leave.
type classActs struct {
	Deeds []deed
	Hold  *holdForm
	Purge *ask
}

func (p *Pages) classDeeds() {
	p.post("/class/pause", p.classDeed("paused", (*desk.Desk).Pause))
	p.post("/class/resume", p.classDeed("resumed", (*desk.Desk).Resume))
	p.post("/class/drain", p.classDeed("draining", (*desk.Desk).Drain))
	p.post("/class/unhold", p.classDeed("unheld", (*desk.Desk).Unhold))
	p.post("/class/hold", p.holdClass)
	p.get("/class/purge", p.askPurgeClass)
	p.post("/class/purge", p.purgeClass)
}

// actsOnClass are what the person may do to a class as it stands.
func (p *Pages) actsOnClass(who access.Person, class queue.Class, row classRow) classActs {
	var acts classActs
	if !who.May(access.Operator) {
		return acts
	}
	t := targetFields(desk.Target{Class: class.Name})
	add := func(is bool, action, label, kind string) {
		if is {
			acts.Deeds = append(acts.Deeds, deed{"class-" + action, p.url("/class/" + action), label, kind, t})
		}
	}
	add(class.Paused || class.Draining, "resume", "Resume all", "main")
	add(!class.Hold.IsZero(), "unhold", "Unhold: open it now", "main")
	add(!class.Paused, "pause", "Pause all", "")
	add(!class.Draining, "drain", "Drain: admit no more", "")
	acts.Hold = &holdForm{URL: p.url("/class/hold"), Fields: t, For: holdUsual}
	if who.May(access.Admin) && row.Level > 0 {
		purge := p.ask("Purge…", "bad", "/class/purge", "class", class.Name)
		acts.Purge = &purge
	}
	return acts
}

// classOf is the target of a request about a whole class.
func classOf(r *http.Request) desk.Target { return desk.Target{Class: targetOf(r).Class} }

// classDeed does one thing to a class and shows it.
func (p *Pages) classDeed(what string, do func(*desk.Desk, context.Context, desk.Target) (bool, error)) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		t := classOf(r)
		if _, err := do(p.Desk, r.Context(), t); err != nil {
			return p.classRefusal(w, r, t, err)
		}
		return p.done(w, r, what, "/class", "name", t.Class)
	}
}

// classRefusal shows the class again, with why that was not done.
func (p *Pages) classRefusal(w http.ResponseWriter, r *http.Request, t desk.Target, err error) error {
	return refused(err, func(status int, why []notice) error { return p.showClass(w, r, status, t.Class, why) })
}

func (p *Pages) holdClass(w http.ResponseWriter, r *http.Request) error {
	t := classOf(r)
	until, err := p.holdUntil(r)
	if err == nil {
		_, err = p.Desk.Hold(r.Context(), t, until)
	}
	if err != nil {
		return p.classRefusal(w, r, t, err)
	}
	return p.done(w, r, "held", "/class", "name", t.Class)
}

// askPurgeClass says what a purge would drop.
func (p *Pages) askPurgeClass(w http.ResponseWriter, r *http.Request) error {
	t := classOf(r)
	if err := access.From(r.Context()).Check(access.Admin); err != nil {
		return err
	}
	if _, err := p.Desk.Class(r.Context(), t.Class); err != nil {
		return err
	}
	books, err := p.Desk.Client().Books(r.Context(), t.Class)
	if err != nil {
		return err
	}
	return p.show(w, r, http.StatusOK, "ask", page{Title: "Purge " + t.Class, Here: "classes", Styles: []string{"jobs.css"}, Content: question{
		Title: "Purge all buckets of class " + t.Class + "?",
		Text: fmt.Sprintf("%s jobs wait in them now. They are dropped and never start; nobody can bring them back. What is out goes on, and dead jobs stay.",
			number(books.Waiting())),
		Label: "Drop " + number(books.Waiting()) + " jobs", URL: p.url("/class/purge"), Back: p.url("/class", "name", t.Class),
		Fields: append(targetFields(t), field{"sure", "yes"}),
	}})
}

func (p *Pages) purgeClass(w http.ResponseWriter, r *http.Request) error {
	t := classOf(r)
	if r.PostFormValue("sure") != "yes" {
		return p.askPurgeClass(w, r)
	}
	if _, err := p.Desk.Purge(r.Context(), t); err != nil {
		return p.classRefusal(w, r, t, err)
	}
	return p.done(w, r, "purged", "/class", "name", t.Class)
}
