package main

import (
	"fmt"
	"strings"

	"github.com/spout-queue/spout/cmd/internal/classfile"
	"github.com/spout-queue/spout/queue"
)

// change is how a class of a file stands to the one in Redis.
type change string

const (
	added     change = "new"
	changed   change = "changed"
	unchanged change = "unchanged"
)

// plan is what a file does to one class.
type plan struct {
	Class   string             `json:"class"`
	Change  change             `json:"change"`
	Fields  []classfile.Change `json:"fields,omitempty"`
	Applied bool               `json:"applied"`
	Version int64              `json:"version,omitempty"`

	class    queue.Class
	expected bool // it must still have the version
}

// String is the plan for people: a line per class, and for a changed one a line per field.
func (p plan) String() string {
	switch p.Change {
	case unchanged:
		return "= " + p.Class
	case changed:
		lines := make([]string, len(p.Fields))
		for i, f := range p.Fields {
			lines[i] = fmt.Sprintf("~ %s %s: %s → %s", p.Class, f.Field, f.Old, f.New)
		}
		return strings.Join(lines, "\n")
	default:
		return "+ " + p.Class + " " + strings.Join(p.ownSettings(), ", ")
	}
}

// ownSettings are capacity, rate and what differs from the defaults.
func (p plan) ownSettings() []string {
	own := []string{fmt.Sprintf("capacity: %d", p.class.Capacity), fmt.Sprintf("rate: %s", p.class.Rate)}
	for _, f := range classfile.Diff(queue.NewClass(p.class.Name, p.class.Capacity, p.class.Rate), p.class) {
		own = append(own, f.Field+": "+f.New)
	}
	return own
}
