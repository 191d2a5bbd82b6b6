// Package classfile reads and writes down the settings of classes as people keep them: in a YAML file.
package classfile

import (
	"fmt"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/spout-queue/spout/cmd/internal/strictyaml"
	"github.com/spout-queue/spout/queue"
)

// Parse reads the classes of a file, in its order. The error has everything that is wrong in it, with line numbers; name
// is what it calls the file.
func Parse(name string, data []byte) ([]queue.Class, error) {
	problems := &strictyaml.Problems{File: name}
	root, err := strictyaml.Parse(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	var classes []queue.Class
	for _, top := range strictyaml.Fields(root, "the file", []string{"classes"}, problems) {
		for _, f := range strictyaml.Fields(top.Value, "classes", nil, problems) {
			classes = append(classes, parseClass(f, problems))
		}
	}
	if len(classes) == 0 && len(problems.List) == 0 {
		problems.Addf(1, "there are no classes; write classes: and under it a name with capacity and rate")
	}
	return classes, problems.Err()
}

// parseClass reads every field that can be read, then checks them all together.
func parseClass(f strictyaml.Field, problems *strictyaml.Problems) queue.Class {
	class := sound(f.Name)
	what := fmt.Sprintf("class %q", f.Name)
	if class.Validate() != nil {
		problems.Addf(f.Line, "%s: the name is not [a-z0-9][a-z0-9_-]{0,63}", what)
	}
	r := reader{what: what, line: f.Line, problems: problems, class: &class, lines: map[string]int{}, wrong: map[string]bool{}}
	r.read(f.Value)
	r.check()
	for _, name := range []string{"capacity", "rate"} {
		if r.lines[name] == 0 {
			problems.Addf(f.Line, "%s: %s is missing", what, name)
		}
	}
	return class
}

// sound is a class that has nothing wrong with it but, possibly, its name.
func sound(name string) queue.Class {
	return queue.NewClass(name, 1, queue.Rate{Limit: 1, Period: time.Second})
}

// setting is one setting of a class: how it is read from a file and how it is written. A dot in its name ends the name of
// the mapping that it is in.
type setting struct {
	name  string
	read  func(*queue.Class, *yaml.Node) error
	write func(queue.Class) string
}

// settings are all of them, in the order in which they are shown.
func settings() []setting {
	return []setting{
		number("capacity", func(c *queue.Class) *int { return &c.Capacity }),
		text("rate", func(c *queue.Class) textField { return &c.Rate }),
		duration("catch_up", func(c *queue.Class) *time.Duration { return &c.CatchUp }),
		rateOrNone("adapt.min", func(c *queue.Class) *queue.Rate { return &c.Adapt.Min }),
		rateOrNone("adapt.max", func(c *queue.Class) *queue.Rate { return &c.Adapt.Max }),
		word("pace", func(c *queue.Class) *queue.Pace { return &c.Pace }),
		number("max_in_flight", func(c *queue.Class) *int { return &c.MaxInFlight }),
		duration("max_wait", func(c *queue.Class) *time.Duration { return &c.MaxWait }),
		word("overflow", func(c *queue.Class) *queue.Overflow { return &c.Overflow }),
		number("max_jobs", func(c *queue.Class) *int { return &c.MaxJobs }),
		duration("timeout", func(c *queue.Class) *time.Duration { return &c.Timeout }),
		number("retry.max_attempts", func(c *queue.Class) *int { return &c.Retry.MaxAttempts }),
		duration("retry.backoff", func(c *queue.Class) *time.Duration { return &c.Retry.Backoff }),
		duration("retry.max_backoff", func(c *queue.Class) *time.Duration { return &c.Retry.MaxBackoff }),
		word("retry.order", func(c *queue.Class) *queue.Order { return &c.Retry.Order }),
		number("max_crashes", func(c *queue.Class) *int { return &c.MaxCrashes }),
		duration("retention", func(c *queue.Class) *time.Duration { return &c.Retention }),
		number("dead.max", func(c *queue.Class) *int { return &c.Dead.Max }),
		duration("dead.keep", func(c *queue.Class) *time.Duration { return &c.Dead.Keep }),
		duration("dedup", func(c *queue.Class) *time.Duration { return &c.Dedup }),
		word("ack", func(c *queue.Class) *queue.Ack { return &c.Ack }),
		text("max_payload", func(c *queue.Class) textField { return &c.MaxPayload }),
		yesNo("http.allow_private", func(c *queue.Class) *bool { return &c.HTTP.AllowPrivate }),
		texts("http.hosts", func(c *queue.Class) *[]string { return &c.HTTP.Hosts }),
		texts("http.schemes", func(c *queue.Class) *[]string { return &c.HTTP.Schemes }),
		numbers("http.ports", func(c *queue.Class) *[]int { return &c.HTTP.Ports }),
		number("http.redirects", func(c *queue.Class) *int { return &c.HTTP.Redirects }),
		texts("http.secrets", func(c *queue.Class) *[]string { return &c.HTTP.Secrets }),
		word("http.hold", func(c *queue.Class) *queue.HoldScope { return &c.HTTP.Hold }),
		duration("http.max_hold", func(c *queue.Class) *time.Duration { return &c.HTTP.MaxHold }),
		yesNo("http.anonymous", func(c *queue.Class) *bool { return &c.HTTP.Anonymous }),
	}
}

// Change is one setting that differs between two classes.
type Change struct {
	Field string `json:"field"`
	Old   string `json:"old"`
	New   string `json:"new"`
}

// Diff lists what is not the same in two classes.
func Diff(old, updated queue.Class) []Change {
	var changes []Change
	for _, s := range settings() {
		if a, b := s.write(old), s.write(updated); a != b {
			changes = append(changes, Change{s.name, a, b})
		}
	}
	return changes
}

// Setting is the name of a setting and its value as the file has it.
type Setting struct{ Name, Value string }

// Settings lists all settings of a class.
func Settings(class queue.Class) []Setting {
	var list []Setting
	for _, s := range settings() {
		list = append(list, Setting{s.name, s.write(class)})
	}
	return list
}
