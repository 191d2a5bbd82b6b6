package pages

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/spout-queue/spout/cmd/admin/internal/changes"
)

// The length of a page of changes, and of the history of one class.
const (
	changesPage  = 50
	changesClass = 10
)

func (p *Pages) changesRoutes() { p.get("/changes", p.changes) }

// changesView is a page of the log, as it was asked for.
type changesView struct {
	Class, Key, Who string
	Rows            []changeRow
	Next            string // where the next page begins
	After           string // where this one does
}

// changeRow is one change, with what differs before and after.
type changeRow struct {
	changes.Change
	Differs []fieldChange
}

// Key of the bucket that was changed, or had the job that was; empty for a class.
func (c changeRow) Key() string {
	key, _ := strings.CutPrefix(strings.TrimPrefix(c.Target, c.Class), "/")
	return key
}

// madeLeast is of how many fields something new has its list folded, so that one new class does not push all else away.
const madeLeast = 8

// Made tells whether the change made something of many fields.
func (c changeRow) Made() bool {
	return len(c.Differs) >= madeLeast && !slices.ContainsFunc(c.Differs, func(f fieldChange) bool { return !f.Added })
}

func (p *Pages) changes(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	view := changesView{Class: query.Get("class"), Key: query.Get("key"), Who: query.Get("who"), After: query.Get("after")}
	q := changes.Query{Class: view.Class, Key: view.Key, Who: view.Who, Before: view.After, Limit: changesPage}
	list, next, err := p.Desk.Changes(r.Context(), q)
	if err != nil {
		return err
	}
	view.Rows, view.Next = rowsOf(list), next
	return p.show(w, r, http.StatusOK, "changes", page{Title: "Changes", Here: "changes", Styles: []string{"changes.css"}, Content: view})
}

// changesOf is the newest changes of one class.
func (p *Pages) changesOf(ctx context.Context, class string) ([]changeRow, error) {
	list, _, err := p.Desk.Changes(ctx, changes.Query{Class: class, Limit: changesClass})
	return rowsOf(list), err
}

func rowsOf(list []changes.Change) []changeRow {
	rows := make([]changeRow, len(list))
	for i, c := range list {
		rows[i] = changeRow{c, differences(c.Before, c.After)}
	}
	return rows
}

// fieldChange is one field that is not the same before and after; what was not there is empty.
type fieldChange struct {
	Field       string
	Before, Now string
	Added, Gone bool
}

// differences compares two JSON values, objects field by field.
func differences(before, after json.RawMessage) []fieldChange {
	was, now := map[string]string{}, map[string]string{}
	flatten(was, "", before)
	flatten(now, "", after)
	var list []fieldChange
	for field, value := range now {
		old, there := was[field]
		if !there || old != value {
			list = append(list, fieldChange{Field: field, Before: old, Now: value, Added: !there})
		}
	}
	for field, value := range was {
		if _, there := now[field]; !there && len(after) > 0 {
			list = append(list, fieldChange{Field: field, Before: value, Gone: true})
		}
	}
	slices.SortFunc(list, func(a, b fieldChange) int { return strings.Compare(a.Field, b.Field) })
	return list
}

// shownMost is how much of one value is shown, in bytes.
const shownMost = 512

// flatten takes an object apart into its fields, named with dots.
func flatten(into map[string]string, name string, value json.RawMessage) {
	if value = bytes.TrimSpace(value); len(value) == 0 || bytes.Equal(value, []byte("null")) {
		return
	}
	var object map[string]json.RawMessage
	if value[0] == '{' && json.Unmarshal(value, &object) == nil {
		if name != "" {
			name += "."
		}
		for field, value := range object {
			flatten(into, name+field, value)
		}
		return
	}
	text := string(value)
	var s string
	if json.Unmarshal(value, &s) == nil {
		text = s
	}
	if len(text) > shownMost {
		text = strings.ToValidUTF8(text[:shownMost], "") + "…"
	}
	into[name] = text
}
