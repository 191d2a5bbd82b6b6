package classfile

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/spout-queue/spout/cmd/internal/strictyaml"
	"github.com/spout-queue/spout/queue"
)

// reader reads one class of a file.
type reader struct {
	what     string // what problems call the class
	line     int    // of the class
	problems *strictyaml.Problems
	class    *queue.Class
	lines    map[string]int  // of the settings that are there
	wrong    map[string]bool // settings that have a problem
}

// read takes in the fields of the class and of the mappings in it.
func (r *reader) read(node *yaml.Node) {
	all := settings()
	for _, f := range strictyaml.Fields(node, r.what, fieldsOf("", all), r.problems) {
		below := fieldsOf(f.Name+".", all)
		if len(below) == 0 {
			r.set(f.Name, f, all)
			continue
		}
		for _, sub := range strictyaml.Fields(f.Value, r.what+": "+f.Name, below, r.problems) {
			r.set(f.Name+"."+sub.Name, sub, all)
		}
	}
}

func (r *reader) set(name string, f strictyaml.Field, all []setting) {
	r.lines[name] = f.Line
	i := slices.IndexFunc(all, func(s setting) bool { return s.name == name })
	if err := all[i].read(r.class, f.Value); err != nil {
		r.wrong[name] = true
		r.problems.Addf(f.Line, "%s: %v", r.what, err)
	}
}

// fieldsOf lists what may be in a mapping: what the names of the settings with this prefix have next, each once.
func fieldsOf(prefix string, all []setting) []string {
	var names []string
	for _, s := range all {
		rest, ok := strings.CutPrefix(s.name, prefix)
		if name, _, _ := strings.Cut(rest, "."); ok && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// check finds what is out of its range, and gives each problem the line of the setting that it is about.
func (r *reader) check() {
	for _, p := range Problems(*r.class) {
		// How a setting stands to another one means nothing while one of them is wrong by itself.
		if len(p.Settings) > 1 && slices.ContainsFunc(p.Settings, func(name string) bool { return r.wrong[name] }) {
			continue
		}
		line := r.line
		for _, name := range p.Settings {
			if r.lines[name] > 0 { // the other one has its default
				r.wrong[name], line = true, r.lines[name]
				break
			}
		}
		r.problems.Addf(line, "%s: %s", r.what, p.Text)
	}
}

// problemsIn takes apart what Validate put together. Each problem begins with the name of a setting; what does not is a
// piece of a value that was cut.
func problemsIn(text string) []string {
	var list []string
	for piece := range strings.SplitSeq(text, "; ") {
		if names := mentioned(piece); len(list) == 0 || len(names) > 0 && strings.HasPrefix(piece, names[0]) {
			list = append(list, piece)
		} else {
			list[len(list)-1] += "; " + piece
		}
	}
	return list
}

// mentioned lists the settings that a problem names.
func mentioned(text string) []string {
	var names []string
	for w := range strings.FieldsSeq(text) {
		w = strings.TrimSuffix(w, ":")
		i := slices.IndexFunc(settings(), func(s setting) bool { return w == s.name || strings.HasPrefix(w, s.name+".") })
		if i >= 0 && !slices.Contains(names, settings()[i].name) {
			names = append(names, settings()[i].name)
		}
	}
	return names
}
