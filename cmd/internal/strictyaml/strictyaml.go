// Package strictyaml reads YAML that people write for us and complains about everything in it that is not understood, with
// line numbers: unknown and repeated fields, values of the wrong kind, further documents.
package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Problem is one thing that is wrong in a file.
type Problem struct {
	Line int
	Text string
}

// Problems are all things that are wrong in a file. As an error they are one line each, in the order of the file.
type Problems struct {
	File string
	List []Problem
}

// Addf notes a problem.
func (p *Problems) Addf(line int, format string, args ...any) {
	p.List = append(p.List, Problem{line, fmt.Sprintf(format, args...)})
}

// Err is the problems as an error, or nil when there are none.
func (p *Problems) Err() error {
	if len(p.List) == 0 {
		return nil
	}
	slices.SortStableFunc(p.List, func(a, b Problem) int { return a.Line - b.Line })
	return p
}

func (p *Problems) Error() string {
	lines := make([]string, len(p.List))
	for i, problem := range p.List {
		lines[i] = fmt.Sprintf("%s:%d: %s", p.File, problem.Line, problem.Text)
	}
	return strings.Join(lines, "\n")
}

// Field is one entry of a mapping.
type Field struct {
	Name  string
	Line  int
	Value *yaml.Node
}

// Parse reads the one document of a file. An empty file has none: the node is nil.
func Parse(data []byte) (*yaml.Node, error) {
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var document, second yaml.Node
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil, nil //nolint:nilnil // documented: nothing, and nothing wrong
	} else if err != nil {
		return nil, syntaxError(err)
	}
	if err := decoder.Decode(&second); !errors.Is(err, io.EOF) {
		if err != nil {
			return nil, syntaxError(err)
		}
		return nil, fmt.Errorf("line %d: a second document begins; one is all that is read", second.Line)
	}
	return follow(document.Content[0]), nil
}

func syntaxError(err error) error {
	return errors.New(strings.TrimPrefix(err.Error(), "yaml: "))
}

// Fields lists the entries of a mapping whose names are known, each once, and notes the others as problems. What says what
// the mapping is, as in "the file" or "class x". A value that is no mapping is a problem, and nothing at all is an
// empty one.
func Fields(node *yaml.Node, what string, known []string, problems *Problems) []Field {
	if node == nil || IsNull(node) {
		return nil
	}
	if node.Kind != yaml.MappingNode {
		problems.Addf(node.Line, "%s is not a mapping of names to values", what)
		return nil
	}
	var fields []Field
	first := map[string]int{}
	for i := 0; i+1 < len(node.Content); i += 2 {
		name, value := node.Content[i], follow(node.Content[i+1])
		switch line, again := first[name.Value]; {
		case known != nil && !slices.Contains(known, name.Value):
			problems.Addf(name.Line, "%s: unknown field %q; known are %s", what, clip(name.Value), strings.Join(known, ", "))
		case again:
			problems.Addf(name.Line, "%s: %q is there twice, first in line %d", what, clip(name.Value), line)
		default:
			first[name.Value] = name.Line
			fields = append(fields, Field{name.Value, name.Line, value})
		}
	}
	return fields
}

// IsNull tells a value that is not there: nothing behind the colon, ~ or null.
func IsNull(node *yaml.Node) bool { return node.Kind == yaml.ScalarNode && node.Tag == "!!null" }

// follow goes from an alias to what it stands for.
func follow(node *yaml.Node) *yaml.Node {
	if node.Kind == yaml.AliasNode {
		return node.Alias
	}
	return node
}

// Text is the text of a value that is neither a list nor a mapping.
func Text(node *yaml.Node) (string, error) {
	if node.Kind != yaml.ScalarNode || IsNull(node) {
		return "", errors.New("is not a single value")
	}
	return node.Value, nil
}

// Texts is the texts of a list.
func Texts(node *yaml.Node) ([]string, error) {
	if node.Kind != yaml.SequenceNode {
		return nil, errors.New("is not a list")
	}
	texts := make([]string, len(node.Content))
	for i, item := range node.Content {
		text, err := Text(follow(item))
		if err != nil {
			return nil, fmt.Errorf("item %d %w", i+1, err)
		}
		texts[i] = text
	}
	return texts, nil
}

// clip shortens what somebody wrote for an error text.
func clip(s string) string {
	if len(s) <= 64 {
		return s
	}
	return s[:64] + "…"
}
