package pages

import (
	"strings"

	"github.com/spout-queue/spout/cmd/internal/classfile"
	"github.com/spout-queue/spout/queue"
)

// classField is one setting in the form.
type classField struct {
	Name, ID    string
	Value       string
	Usual       string // its default
	About       string
	Choices     []string // when it is one of a few words
	Required    bool
	Changed     bool // it is not what is stored
	Wrong, Mode string
}

// classGroup is settings that belong together. Those that most people leave alone are folded.
type classGroup struct {
	Title  string
	Fields []classField
	Open   bool
}

// settingAbout says what a setting is for, to somebody who fills it in.
type settingAbout struct {
	name, about string
	choices     []string
}

// settingGroups are all settings, as the form has them.
func settingGroups() []struct {
	title    string
	settings []settingAbout
} {
	yesNo := []string{"false", "true"}
	return []struct {
		title    string
		settings []settingAbout
	}{
		{"The bucket", []settingAbout{
			{"capacity", "jobs that may wait, per key", nil},
			{"rate", "departures per key, as in 30/60s", nil},
			{"max_wait", "a job that would wait longer is rejected; 0s: no limit", nil},
			{"overflow", "what a full bucket does", []string{"reject", "drop-oldest"}},
			{"timeout", "of one attempt", nil},
		}},
		{"Pace and bounds", []settingAbout{
			{"catch_up", "how late a departure may be and still keep its slot", nil},
			{"pace", "strict: starts within 10 ms of the interval, one more round trip each", []string{"normal", "strict"}},
			{"max_in_flight", "departures of one key that may be out; 0: no bound", nil},
			{"max_jobs", "waiting jobs over all keys; 0: no bound", nil},
			{"adapt.min", "lower the rate of a key whose service refuses, not below this; empty: off", nil},
			{"adapt.max", "and let it rise to this; empty: the rate", nil},
		}},
		{"Failed attempts", []settingAbout{
			{"retry.max_attempts", "then the job is dead", nil},
			{"retry.backoff", "before the second attempt; grows from here", nil},
			{"retry.max_backoff", "up to here", nil},
			{"retry.order", "where it waits: aside, at the head with the bucket held, or at the tail", []string{"park", "hold", "tail"}},
			{"max_crashes", "workers that a job may take down", nil},
		}},
		{"What is kept, and what a receipt vouches for", []settingAbout{
			{"retention", "how long a finished job can be read; 0s: not at all", nil},
			{"dead.max", "dead jobs that are kept, over all keys", nil},
			{"dead.keep", "and for how long", nil},
			{"dedup", "how long an id is remembered after its job; 0s: while it exists", nil},
			{"ack", "memory, fsynced or replicated(n)", nil},
			{"max_payload", "at most 1MiB", nil},
		}},
		{"http:call jobs", []settingAbout{
			{"http.hosts", "when not empty, only these; separated by commas", nil},
			{"http.allow_private", "loopback, private and link-local targets", yesNo},
			{"http.schemes", "when not empty, only these: http, https", nil},
			{"http.ports", "when not empty, only these", nil},
			{"http.redirects", "that a call follows, 0 to 10", nil},
			{"http.secrets", "what {{secret:name}} in a header may name; needs hosts", nil},
			{"http.hold", "what a service closes that answers 429", []string{"bucket", "class"}},
			{"http.max_hold", "the longest it can close it at a time", nil},
			{"http.anonymous", "leave out Idempotency-Key and Spout-Attempt", yesNo},
		}},
	}
}

// classGroups are the settings of the form with the values that somebody wrote, or those of the class.
func classGroups(written map[string]string, stored queue.Class, wrong map[string]string) []classGroup {
	was := formValues(stored)
	usual := formValues(queue.NewClass("x", 1, queue.Rate{Limit: 1, Period: 1}))
	var groups []classGroup
	for i, g := range settingGroups() {
		group := classGroup{Title: g.title, Open: i == 0}
		for _, s := range g.settings {
			f := classField{
				Name: s.name, ID: "c-" + strings.NewReplacer(".", "-", "_", "-").Replace(s.name), Value: written[s.name], Usual: usual[s.name],
				About: s.about, Choices: s.choices, Wrong: wrong[s.name], Changed: written[s.name] != was[s.name],
			}
			if f.Required = s.name == "capacity" || s.name == "rate"; f.Required {
				f.Usual = ""
			}
			group.Open = group.Open || f.Wrong != "" || f.Changed
			group.Fields = append(group.Fields, f)
		}
		groups = append(groups, group)
	}
	return groups
}

// formValues are the settings of a class as a person writes them: lists without brackets, and nothing for none.
func formValues(class queue.Class) map[string]string {
	values := map[string]string{}
	for _, s := range classfile.Settings(class) {
		value := s.Value
		if inner, ok := strings.CutPrefix(value, "["); ok {
			value = strings.TrimSuffix(inner, "]")
		}
		if value == "none" {
			value = ""
		}
		values[s.Name] = value
	}
	return values
}

// readClass reads the settings that somebody wrote. What is empty has its default. What is wrong is told by setting, or under the
// empty name.
func readClass(name string, written map[string]string) (queue.Class, map[string]string) {
	class := queue.NewClass(name, 1, queue.Rate{Limit: 1, Period: 1e9})
	wrong := map[string]string{}
	for _, s := range classfile.Settings(class) {
		text := strings.TrimSpace(written[s.Name])
		if text == "" {
			if s.Name == "capacity" || s.Name == "rate" {
				wrong[s.Name] = s.Name + " is missing"
			}
			continue
		}
		if err := classfile.Set(&class, s.Name, fileValue(s.Value, text)); err != nil {
			wrong[s.Name] = err.Error()
		}
	}
	named := queue.NewClass(name, 1, queue.Rate{Limit: 1, Period: 1e9})
	if err := named.Validate(); err != nil {
		wrong["name"] = "the name is not [a-z0-9][a-z0-9_-]{0,63}"
	}
	for _, p := range classfile.Problems(class) {
		about := ""
		if len(p.Settings) > 0 {
			about = p.Settings[0]
		}
		if wrong[about] == "" {
			wrong[about] = p.Text
		}
	}
	return class, wrong
}

// fileValue is a text of the form as the class file has it: what is a list there gets its brackets.
func fileValue(usual, text string) string {
	if !strings.HasPrefix(usual, "[") || strings.HasPrefix(text, "[") {
		return text
	}
	items := strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' || r == '\t' })
	for i, item := range items {
		items[i] = `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(item) + `"`
	}
	return "[" + strings.Join(items, ", ") + "]"
}
