package classfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"

	"github.com/spout-queue/spout/cmd/internal/strictyaml"
	"github.com/spout-queue/spout/queue"
)

// told are the fields of a class in JSON that are no settings. What was read may be written back with them: name and version are
// held against what is there, the others say how the class stood and are not looked at.
func told() []string {
	return []string{"name", "version", "paused", "draining", "hold", "hold_reason", "waiting", "out"}
}

// ParseOne reads one class from a JSON object: the settings of the class file under the same names and in the same forms. A
// version in it is that of the class. The error wraps [queue.ErrInvalid].
func ParseOne(name string, data []byte) (queue.Class, error) {
	class, err := parseOne(name, data)
	if err != nil {
		return queue.Class{}, fmt.Errorf("%w: %w", queue.ErrInvalid, err)
	}
	return class, nil
}

func parseOne(name string, data []byte) (queue.Class, error) {
	var compact bytes.Buffer
	if err := json.Compact(&compact, data); err != nil { // in one line: where blanks are matters to YAML, of which JSON is a part
		return queue.Class{}, fmt.Errorf("it is not JSON: %w", err)
	}
	node, err := strictyaml.Parse(compact.Bytes())
	if err != nil {
		return queue.Class{}, err
	}
	if node.Kind != yaml.MappingNode {
		return queue.Class{}, errors.New("it is not a JSON object")
	}
	version, settings, err := untold(name, node)
	if err != nil {
		return queue.Class{}, err
	}
	problems := &strictyaml.Problems{}
	class := parseClass(strictyaml.Field{Name: name, Line: 1, Value: settings}, problems)
	class.Version = version
	var all []error
	for _, p := range problems.List {
		all = append(all, errors.New(p.Text))
	}
	return class, errors.Join(all...)
}

// untold takes out of an object what is no setting.
func untold(name string, node *yaml.Node) (version int64, settings *yaml.Node, err error) {
	rest := *node
	rest.Content = nil
	var seen []string
	for i := 0; i+1 < len(node.Content); i += 2 {
		field, value := node.Content[i], node.Content[i+1]
		if !slices.Contains(told(), field.Value) {
			rest.Content = append(rest.Content, field, value)
			if strictyaml.IsNull(value) {
				return 0, nil, fmt.Errorf("%s is null; leave it out for its default", field.Value)
			}
			continue
		}
		if slices.Contains(seen, field.Value) {
			return 0, nil, fmt.Errorf("field %q is there twice", field.Value)
		}
		seen = append(seen, field.Value)
		switch field.Value {
		case "name":
			if value.Value != name {
				return 0, nil, fmt.Errorf("name is %q in the body, and %q in the path", value.Value, name)
			}
		case "version":
			if version, err = strconv.ParseInt(value.Value, 10, 64); err != nil || version < 1 {
				return 0, nil, errors.New("version is not a whole number above 0")
			}
		}
	}
	return version, &rest, nil
}
