package pages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/live"
	"github.com/spout-queue/spout/cmd/internal/classfile"
	"github.com/spout-queue/spout/queue"
)

func (p *Pages) classesRoutes() {
	p.get("/classes", p.classes)
	p.get("/class/delete", p.askDeleteClass)
	p.post("/class/delete", p.deleteClass)
	p.live["classes"] = p.liveClasses
}

// listedClass is a class in the list.
type listedClass struct {
	queue.Class
	ID    string // of its patches
	Now   live.Class
	Known bool
}

// State is what is in the way of its jobs, in a word; empty when nothing is.
func (c listedClass) State() string {
	switch {
	case c.Paused:
		return "paused"
	case !c.Hold.IsZero():
		return "held"
	case c.Draining:
		return "draining"
	}
	return ""
}

// alsoMost is how many unusual settings the list shows of a class.
const alsoMost = 4

// Also is settings that are not the usual ones.
func (c listedClass) Also() []classfile.Setting {
	var list []classfile.Setting
	for _, change := range classfile.Diff(queue.NewClass(c.Name, c.Capacity, c.Rate), c.Class) {
		if len(list) < alsoMost {
			list = append(list, classfile.Setting{Name: change.Field, Value: change.New})
		}
	}
	return list
}

// patch is the numbers of the row.
func (c listedClass) patch(p patch) {
	for name, n := range map[string]int64{"level": c.Now.Level, "out": c.Now.Out, "dead": c.Now.Dead, "keys": c.Now.Buckets} {
		p[c.ID+"-"+name] = map[string]string{"": c.count(n)}
	}
}

func (c listedClass) count(n int64) string {
	if !c.Known {
		return "–"
	}
	return number(n)
}

// Count is a number of the row, or a dash while it is not known.
func (c listedClass) Count(n int64) string { return c.count(n) }

func (p *Pages) listedClasses(ctx context.Context) ([]listedClass, error) {
	classes, err := p.Desk.Classes(ctx)
	if err != nil {
		return nil, err
	}
	now := p.Live.Now(ctx)
	rows := make([]listedClass, len(classes))
	for i, class := range classes {
		rows[i] = listedClass{Class: class, ID: safeID("class", class.Name)}
		rows[i].Now, rows[i].Known = now.Class(class.Name)
	}
	return rows, nil
}

// classesView is the list, and what was done last.
type classesView struct {
	Rows    []listedClass
	Removed string
}

func (p *Pages) classes(w http.ResponseWriter, r *http.Request) error {
	rows, err := p.listedClasses(r.Context())
	if err != nil {
		return err
	}
	return p.show(w, r, http.StatusOK, "classes", page{
		Title: "Classes", Here: "classes", Live: liveQuery("classes", map[string]string{"classes": listVersion(rows)}), Styles: []string{"classes.css"},
		Content: classesView{rows, r.URL.Query().Get("removed")},
	})
}

// liveClasses keeps the numbers; when the classes are others, or other than they were, the tab fetches the list again.
func (p *Pages) liveClasses(*http.Request) (func(context.Context) (frame, error), error) {
	return slowly(time.Second, func(ctx context.Context) (frame, error) {
		rows, err := p.listedClasses(ctx)
		if err != nil {
			return frame{}, err
		}
		f := frame{Patch: patch{}, Parts: map[string]string{"classes": listVersion(rows)}}
		for _, row := range rows {
			row.patch(f.Patch)
		}
		return f, nil
	}), nil
}

// listVersion changes when the list looks different, apart from its numbers.
func listVersion(rows []listedClass) string {
	var b strings.Builder
	for _, c := range rows {
		fmt.Fprintln(&b, c.Name, c.Version, c.Paused, c.Hold, c.HoldReason, c.Draining)
	}
	return b.String()
}

// removal is the question before a class is deleted.
type removal struct {
	Class queue.Class
	Now   live.Class
	Known bool
	// Problem is why it was not deleted.
	Problem string
}

// InTheWay tells whether the class has jobs.
func (r removal) InTheWay() bool { return r.Now.Level+r.Now.Out+r.Now.Dead > 0 }

func (p *Pages) askDeleteClass(w http.ResponseWriter, r *http.Request) error {
	if err := access.From(r.Context()).Check(access.Admin); err != nil {
		return err
	}
	return p.showRemoval(w, r, http.StatusOK, r.URL.Query().Get("name"), "")
}

func (p *Pages) showRemoval(w http.ResponseWriter, r *http.Request, status int, name, problem string) error {
	class, err := p.Desk.Class(r.Context(), name)
	if err != nil {
		return err
	}
	view := removal{Class: class, Problem: problem}
	view.Now, view.Known = p.Live.Now(r.Context()).Class(name)
	return p.show(w, r, partial(r, status), "class_delete", page{Title: "Delete " + name, Here: "classes", Content: view})
}

// deleteClass wants the name once more, and a word of its own for dropping jobs.
func (p *Pages) deleteClass(w http.ResponseWriter, r *http.Request) error {
	if err := access.From(r.Context()).Check(access.Admin); err != nil {
		return err
	}
	r.Body = http.MaxBytesReader(w, r.Body, classMost)
	if err := r.ParseForm(); err != nil {
		return errBadForm
	}
	name := r.PostForm.Get("name")
	if r.PostForm.Get("confirm") != name {
		return p.showRemoval(w, r, http.StatusBadRequest, name, "That is not the name of the class. Nothing was deleted.")
	}
	_, err := p.Desk.RemoveClass(r.Context(), name, r.PostForm.Get("purge") == "yes")
	if busy, ok := errors.AsType[*queue.BusyError](err); ok {
		return p.showRemoval(w, r, http.StatusConflict, name, busy.Error()+".")
	}
	if err != nil {
		return err
	}
	http.Redirect(w, r, p.url("/classes", "removed", name), http.StatusSeeOther)
	return nil
}
