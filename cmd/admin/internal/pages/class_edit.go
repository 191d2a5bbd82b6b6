package pages

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/profiles"
	"github.com/spout-queue/spout/cmd/internal/classfile"
	"github.com/spout-queue/spout/queue"
)

// classMost bounds the form of a class, in bytes.
const classMost = 256 << 10

func (p *Pages) classEditRoutes() {
	p.get("/class/new", p.newClass)
	p.get("/class/edit", p.editClass)
	p.post("/class/edit", p.changeClass)
}

// classView is the page on which a class is made or changed.
type classView struct {
	Name    string
	New     bool
	Version int64
	// Base is the class as somebody began to change it, as a file: what others change meanwhile is told from it.
	Base     string
	Groups   []classGroup
	Profiles []profiles.Profile
	Profile  string
	// Problem is about the class as a whole; WrongName about its name.
	Problem, WrongName string
	Preview            *classPreview
	Meanwhile          *meanwhile
	YAML               string
	Changes            []changeRow
}

// newClass begins with the defaults, or with a profile.
func (p *Pages) newClass(w http.ResponseWriter, r *http.Request) error {
	if err := access.From(r.Context()).Check(access.Admin); err != nil {
		return err
	}
	class := queue.NewClass("", 500, queue.Rate{Limit: 1, Period: 1e9})
	if name := r.URL.Query().Get("profile"); name != "" {
		profile, err := profiles.Get(name)
		if err != nil {
			return fmt.Errorf("%w: %w", queue.ErrNotFound, err)
		}
		class = profile.Class
	}
	view := classView{Name: class.Name, New: true, Profile: r.URL.Query().Get("profile"), Groups: classGroups(formValues(class), class, nil)}
	return p.showClassForm(w, r, http.StatusOK, view)
}

func (p *Pages) editClass(w http.ResponseWriter, r *http.Request) error {
	if err := access.From(r.Context()).Check(access.Admin); err != nil {
		return err
	}
	class, err := p.Desk.Class(r.Context(), r.URL.Query().Get("name"))
	if err != nil {
		return err
	}
	view := classView{Name: class.Name, Version: class.Version, Base: classfile.Write(class), Groups: classGroups(formValues(class), class, nil)}
	view.YAML = view.Base
	return p.showClassForm(w, r, http.StatusOK, view)
}

func (p *Pages) showClassForm(w http.ResponseWriter, r *http.Request, status int, view classView) error {
	title, here := "New class", "classes"
	if !view.New {
		title = "Settings of " + view.Name
		var err error
		if view.Changes, err = p.changesOf(r.Context(), view.Name); err != nil {
			return err
		}
	} else {
		var err error
		if view.Profiles, err = profiles.List(); err != nil {
			return err
		}
	}
	return p.show(w, r, partial(r, status), "class_edit", page{Title: title, Here: here, Styles: []string{"changes.css", "class_edit.css"}, Content: view})
}

// changeClass shows what the form would change or, when that was seen and is wanted, stores it.
func (p *Pages) changeClass(w http.ResponseWriter, r *http.Request) error {
	if err := access.From(r.Context()).Check(access.Admin); err != nil {
		return err
	}
	r.Body = http.MaxBytesReader(w, r.Body, classMost)
	if err := r.ParseForm(); err != nil {
		return errBadForm
	}
	written := map[string]string{}
	for _, s := range classfile.Settings(queue.Class{}) {
		written[s.Name] = r.PostForm.Get(s.Name)
	}
	version, _ := strconv.ParseInt(r.PostForm.Get("version"), 10, 64) // 0, for a class that must not exist
	view := classView{Name: r.PostForm.Get("name"), New: version == 0, Version: version, Base: r.PostForm.Get("base")}
	class, wrong := readClass(view.Name, written)
	view.Problem, view.WrongName = wrong[""], wrong["name"]
	base := baseOf(view, class)
	view.Groups = classGroups(written, base, wrong)
	if len(wrong) > 0 {
		return p.showClassForm(w, r, http.StatusBadRequest, view)
	}
	if r.PostForm.Get("do") == "save" {
		return p.saveClass(w, r, view, class)
	}
	return p.previewClass(w, r, http.StatusOK, view, class)
}

// baseOf is the class that somebody began to change. Of a new one there is none: then it is what the form says.
func baseOf(view classView, class queue.Class) queue.Class {
	if read, err := classfile.Parse("base", []byte(view.Base)); err == nil && len(read) == 1 && !view.New {
		return read[0]
	}
	return class
}

func (p *Pages) previewClass(w http.ResponseWriter, r *http.Request, status int, view classView, class queue.Class) error {
	view.YAML = classfile.Write(class)
	if !view.New {
		stored, err := p.Desk.Class(r.Context(), view.Name)
		if err != nil {
			return err
		}
		if stored.Version != view.Version {
			return p.changedMeanwhile(w, r, view, class, stored)
		}
		if view.Preview, err = p.previewOf(r.Context(), stored, class); err != nil {
			return err
		}
	} else {
		switch _, err := p.Desk.Client().Classes().Get(r.Context(), view.Name); {
		case err == nil:
			view.WrongName = "there is a class of this name"
			return p.showClassForm(w, r, http.StatusConflict, view)
		case !errors.Is(err, queue.ErrUnknownClass):
			return err
		}
		view.Preview = &classPreview{New: true, Rate: class.Rate, Capacity: class.Capacity}
	}
	return p.showClassForm(w, r, status, view)
}

func (p *Pages) saveClass(w http.ResponseWriter, r *http.Request, view classView, class queue.Class) error {
	_, err := p.Desk.PutClassIf(r.Context(), class, view.Version)
	if errors.Is(err, queue.ErrConflict) {
		stored, found := p.Desk.Class(r.Context(), view.Name)
		if found != nil {
			return cmp.Or(found, err)
		}
		if view.New {
			view.WrongName = "there is a class of this name"
			return p.showClassForm(w, r, http.StatusConflict, view)
		}
		return p.changedMeanwhile(w, r, view, class, stored)
	}
	if err != nil {
		return err
	}
	to := p.url("/class", "name", class.Name)
	if r.Header.Get("HX-Request") != "" {
		w.Header().Set("HX-Redirect", to)
		return nil
	}
	http.Redirect(w, r, to, http.StatusSeeOther)
	return nil
}

// meanwhile is what somebody else changed while the form was open.
type meanwhile struct {
	From, To int64
	Rows     []meanwhileRow
	// Both: at least one setting was changed by both.
	Both bool
}

// meanwhileRow is a setting that is not what it was: theirs is stored, and ours is in the form.
type meanwhileRow struct {
	Field, Was, Theirs, Ours string
	Both                     bool
}

// changedMeanwhile puts what the form changed on top of what is stored by now, and shows both. Nothing is saved.
func (p *Pages) changedMeanwhile(w http.ResponseWriter, r *http.Request, view classView, class, stored queue.Class) error {
	base := baseOf(view, class)
	was, ours, theirs := formValues(base), formValues(class), formValues(stored)
	m := &meanwhile{From: view.Version, To: stored.Version}
	merged := map[string]string{}
	for _, s := range classfile.Settings(stored) {
		name := s.Name
		merged[name] = theirs[name]
		if ours[name] != was[name] {
			merged[name] = ours[name]
		}
		if theirs[name] != was[name] {
			row := meanwhileRow{name, was[name], theirs[name], merged[name], ours[name] != was[name] && ours[name] != theirs[name]}
			m.Rows, m.Both = append(m.Rows, row), m.Both || row.Both
		}
	}
	view.Meanwhile, view.Version, view.Base = m, stored.Version, classfile.Write(stored)
	view.Groups = classGroups(merged, stored, nil)
	after, wrong := readClass(view.Name, merged)
	if len(wrong) > 0 {
		view.Groups, view.Problem = classGroups(merged, stored, wrong), wrong[""]
		return p.showClassForm(w, r, http.StatusConflict, view)
	}
	var err error
	if view.Preview, err = p.previewOf(r.Context(), stored, after); err != nil {
		return err
	}
	view.YAML = classfile.Write(after)
	return p.showClassForm(w, r, http.StatusConflict, view)
}
