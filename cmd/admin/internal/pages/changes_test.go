package pages

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/changes"
)

func TestDifferences(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		before, after string
		want          []fieldChange
	}{
		{``, ``, nil},
		{`{"a":1}`, `{"a":1}`, nil},
		{`{"a":1,"b":{"c":"x","d":2}}`, `{"a":1,"b":{"c":"y","d":2}}`, []fieldChange{{Field: "b.c", Before: "x", Now: "y"}}},
		{`{"a":1}`, `{"b":[1,2]}`, []fieldChange{{Field: "a", Before: "1", Gone: true}, {Field: "b", Now: "[1,2]", Added: true}}},
		{`null`, `{"n":5}`, []fieldChange{{Field: "n", Now: "5", Added: true}}},
		{`{"n":5}`, `null`, []fieldChange{{Field: "n", Before: "5", Gone: true}}},
		{``, `"` + strings.Repeat("é", 400) + `"`, []fieldChange{{Now: strings.Repeat("é", 256) + "…", Added: true}}},
	} {
		if diff := cmp.Diff(c.want, differences(json.RawMessage(c.before), json.RawMessage(c.after))); diff != "" {
			t.Errorf("%s, %s: %s", c.before, c.after, diff)
		}
	}
}

// The log is read page by page, and of each class only by who sees it.
func TestChangesPages(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	log := changes.Open(s.rdb, s.jobs.Prefix())
	const all = changesPage + 7
	for i := range all {
		must(t, log.Add(t.Context(), changes.Change{
			Who: "ann", Door: "cli", Action: "pause", Target: fmt.Sprintf("a/k%d", i), Class: "a", After: json.RawMessage(`{"paused":true}`),
		}))
	}
	must(t, log.Add(t.Context(), changes.Change{Who: "bob", Door: "http", Action: "drain", Target: "b", Class: "b", Error: "only in part"}))
	first := s.ok(bob, "/changes?class=a")
	if strings.Count(first, "<strong>pause</strong>") != changesPage || !strings.Contains(first, "Older") || strings.Contains(first, "drain") {
		t.Errorf("the first page has %d changes", strings.Count(first, "<strong>pause</strong>"))
	}
	_, rest, _ := strings.Cut(first, `rel="next" href="`)
	next, _, _ := strings.Cut(rest, `"`)
	second := s.ok(bob, strings.ReplaceAll(next, "&amp;", "&"))
	if strings.Count(second, "<strong>pause</strong>") != all-changesPage || strings.Contains(second, "Older") || !strings.Contains(second, "a/k0<") {
		t.Errorf("the second page has %d changes", strings.Count(second, "<strong>pause</strong>"))
	}
	if page := s.ok(bob, "/changes?who=bob"); strings.Count(page, `class="panel change"`) != 1 || !strings.Contains(page, "only in part") {
		t.Error("changes of bob")
	}
	limited := access.Person{Name: "lea", Role: access.Viewer, Classes: []string{"a"}}
	if page := s.ok(limited, "/changes"); strings.Contains(page, "drain") {
		t.Error("a change of a class that does not exist for them")
	}
	if status, _ := s.get(bob, "/changes?after="+url.QueryEscape("(0-0")); status != http.StatusBadRequest {
		t.Errorf("a cursor of nobody: %d", status)
	}
}

// What a new class has is folded away; one field that changed is not.
func TestMade(t *testing.T) {
	t.Parallel()
	many := []fieldChange{}
	for i := range madeLeast {
		many = append(many, fieldChange{Field: strconv.Itoa(i), Now: "x", Added: true})
	}
	if !(changeRow{Differs: many}).Made() || (changeRow{Differs: many[1:]}).Made() {
		t.Error("of many new fields, not of few")
	}
	many[0].Added = false
	if (changeRow{Differs: many}).Made() {
		t.Error("what was there before is not made")
	}
}
