package pages

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/internal/classfile"
	"github.com/spout-queue/spout/queue"
)

// fields of the form that changes a class.
func classForm(class queue.Class, do string, pairs ...string) []string {
	form := []string{"do", do, "name", class.Name, "version", strconv.FormatInt(class.Version, 10), "base", classfile.Write(class)}
	values := formValues(class)
	for i := 0; i+1 < len(pairs); i += 2 {
		values[pairs[i]] = pairs[i+1]
	}
	for name, value := range values {
		form = append(form, name, value)
	}
	return form
}

// Every setting of a class is in the form, once, and what the form shows is read back as the same class.
func TestClassFormHasAll(t *testing.T) {
	t.Parallel()
	var inForm, inFile []string
	for _, g := range settingGroups() {
		for _, s := range g.settings {
			inForm = append(inForm, s.name)
		}
	}
	class := queue.NewClass("a", 7, queue.Rate{Limit: 30, Period: time.Minute})
	class.Adapt.Min, class.MaxWait, class.Ack = queue.Rate{Limit: 5, Period: time.Minute}, time.Minute, queue.AckReplicated(2)
	class.HTTP.Hosts, class.HTTP.Ports = []string{"a.example.com", "b.example.com"}, []int{443, 8443}
	for _, s := range classfile.Settings(class) {
		inFile = append(inFile, s.Name)
	}
	slices.Sort(inForm)
	slices.Sort(inFile)
	if !slices.Equal(inForm, inFile) {
		t.Errorf("the form has\n%v, classes have\n%v", inForm, inFile)
	}
	read, wrong := readClass("a", formValues(class))
	if len(wrong) > 0 || !read.Equal(class) {
		t.Errorf("%+v became %+v, %v", class, read, wrong)
	}
}

// What is wrong is told beside its field, in the words of the class file.
func TestClassFormRefuses(t *testing.T) {
	t.Parallel()
	for field, value := range map[string]string{
		"capacity": "0", "rate": "10/60", "timeout": "soon", "http.hosts": "*.example.com", "retry.backoff": "2h", "max_wait": "a: b", "pace": "fast", "ack": "[",
	} {
		values := formValues(queue.NewClass("a", 7, queue.Rate{Limit: 30, Period: time.Minute}))
		values[field] = value
		_, wrong := readClass("a", values)
		told := wrong[field]
		if field == "retry.backoff" { // how it stands to another one is told beside that
			told = wrong["retry.max_backoff"]
		}
		if told == "" || wrong[""] != "" {
			t.Errorf("%s %q: %v", field, value, wrong)
		}
	}
	if _, wrong := readClass("No Name", map[string]string{}); wrong["name"] == "" || wrong["capacity"] == "" || wrong["rate"] == "" {
		t.Errorf("%v", wrong)
	}
}

// A change is previewed before it is saved, and is saved only on top of what was seen.
func TestChangeClass(t *testing.T) {
	t.Parallel()
	s := newSite(t, "/ui")
	s.class("a")
	s.submit("a", "k", 4)
	class, err := s.jobs.Classes().Get(t.Context(), "a")
	must(t, err)
	status, _, body := s.post(admin, "/ui/class/edit", classForm(class, "preview", "capacity", "3", "rate", "1/2h")...)
	for _, want := range []string{"The rate is lower", "at or below the level of 1", "<del>10</del>", "<ins>3</ins>", "4h 0m", "8h 0m", `value="save"`} {
		if status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("the preview (%d) does not say %q", status, want)
		}
	}
	if now, err := s.jobs.Classes().Get(t.Context(), "a"); err != nil || !now.Equal(class) {
		t.Errorf("a preview changed the class: %+v, %v", now, err)
	}
	status, location, _ := s.post(admin, "/ui/class/edit", classForm(class, "save", "capacity", "3")...)
	if status != http.StatusSeeOther || location != "/ui/class?name=a" {
		t.Errorf("saved: %d, %q", status, location)
	}
	// Somebody who saw the first version changes another setting: both changes are shown, and nothing is saved yet.
	status, _, body = s.post(admin, "/ui/class/edit", classForm(class, "save", "timeout", "9s")...)
	stored, err := s.jobs.Classes().Get(t.Context(), "a")
	must(t, err)
	if status != http.StatusConflict || stored.Timeout != 30*time.Second || !strings.Contains(body, "Somebody else changed the class meanwhile") {
		t.Errorf("a stale form: %d, timeout %v", status, stored.Timeout)
	}
	for _, want := range []string{`name="capacity" value="3"`, `name="timeout" value="9s"`, `name="version" value="2"`} {
		if !strings.Contains(body, want) {
			t.Errorf("the merged form has no %s", want)
		}
	}
	status, _, _ = s.post(admin, "/ui/class/edit", classForm(stored, "save", "timeout", "9s")...)
	if stored, err = s.jobs.Classes().Get(t.Context(), "a"); status != http.StatusSeeOther || err != nil || stored.Timeout != 9*time.Second || stored.Capacity != 3 {
		t.Errorf("saved again: %d, %+v, %v", status, stored, err)
	}
	log := s.ok(bob, "/ui/changes?class=a&who=ann")
	if strings.Count(log, "put class") != 2 || !strings.Contains(log, "<del>10</del>") {
		t.Errorf("the log has %d changes", strings.Count(log, "put class"))
	}
	if log := s.ok(bob, "/ui/changes?who=nobody"); strings.Contains(log, "put class") {
		t.Error("changes of somebody else")
	}
}

// A class is made from nothing or from a profile, and only where there is none.
func TestNewClass(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.class("taken")
	if page := s.ok(admin, "/class/new?profile=github-rest"); !strings.Contains(page, `value="4750/1h"`) {
		t.Error("the profile is not in the form")
	}
	class := queue.NewClass("taken", 5, queue.Rate{Limit: 1, Period: time.Second})
	for _, do := range []string{"preview", "save"} {
		if status, _, body := s.post(admin, "/class/edit", classForm(class, do)...); status != http.StatusConflict || !strings.Contains(body, "there is a class of this name") {
			t.Errorf("%s of a name that is taken: %d", do, status)
		}
	}
	class.Name = "fresh"
	if status, _, _ := s.post(admin, "/class/edit", classForm(class, "save")...); status != http.StatusSeeOther {
		t.Errorf("made: %d", status)
	}
	if _, err := s.jobs.Classes().Get(t.Context(), "fresh"); err != nil {
		t.Error(err)
	}
}

// Deleting asks for the name, and says what is in the way.
func TestDeleteClass(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.class("a")
	s.submit("a", "k", 2)
	for _, c := range []struct {
		pairs  []string
		status int
		says   string
	}{
		{[]string{"name", "a"}, http.StatusBadRequest, "not the name"},
		{[]string{"name", "a", "confirm", "b"}, http.StatusBadRequest, "not the name"},
		{[]string{"name", "a", "confirm", "a"}, http.StatusConflict, "2"},
		{[]string{"name", "gone", "confirm", "gone"}, http.StatusNotFound, ""},
	} {
		if status, _, body := s.post(admin, "/class/delete", c.pairs...); status != c.status || !strings.Contains(body, c.says) {
			t.Errorf("%v: %d", c.pairs, status)
		}
	}
	s.until(func() bool { return strings.Contains(s.ok(admin, "/class/delete?name=a"), "drop the 2 that wait") })
	if status, location, _ := s.post(admin, "/class/delete", "name", "a", "confirm", "a", "purge", "yes"); status != http.StatusSeeOther || location != "/classes?removed=a" {
		t.Errorf("deleted: %d, %q", status, location)
	}
	if page := s.ok(bob, "/classes?removed=a"); !strings.Contains(page, "There are no classes yet") {
		t.Error("the class is still there")
	}
}

// Who may not do something finds no button for it, and is refused.
func TestSettingsByRole(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.class("a")
	s.class("b")
	oli := access.Person{Name: "oli", Role: access.Operator, Classes: []string{"a"}}
	list := s.ok(oli, "/classes")
	if strings.Contains(list, "/class/edit") || strings.Contains(list, "/class/new") || strings.Contains(list, ">b</a>") || !strings.Contains(list, ">a</a>") {
		t.Error("the list of an operator of one class shows too much, or too little")
	}
	for _, path := range []string{"/class/new", "/class/edit?name=a", "/class/delete?name=a"} {
		for _, who := range []access.Person{bob, oli} {
			if status, _ := s.get(who, path); status != http.StatusForbidden {
				t.Errorf("%s as %s: %d", path, who.Role, status)
			}
		}
	}
	for _, path := range []string{"/class/edit", "/class/delete"} {
		if status, _, _ := s.post(oli, path, "name", "a", "confirm", "a"); status != http.StatusForbidden {
			t.Errorf("POST %s as oli: %d", path, status)
		}
	}
	if status, _ := s.get(bob, "/submit"); status != http.StatusForbidden {
		t.Errorf("/submit as viewer: %d", status)
	}
	if status, _, _ := s.post(bob, "/submit", "class", "a", "key", "k", "shape", "json", "payload", "1"); status != http.StatusForbidden {
		t.Errorf("POST /submit as viewer: %d", status)
	}
}
