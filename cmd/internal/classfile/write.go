package classfile

import (
	"bytes"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/spout-queue/spout/queue"
)

// Write returns a class as a file that [Parse] reads: what is required, and what is not the default.
func Write(class queue.Class) string {
	usual := map[string]string{}
	for _, s := range Settings(queue.NewClass(class.Name, class.Capacity, class.Rate)) {
		usual[s.Name] = s.Value
	}
	body := &yaml.Node{Kind: yaml.MappingNode}
	for _, s := range Settings(class) {
		if s.Name == "capacity" || s.Name == "rate" || s.Value != usual[s.Name] {
			put(body, s.Name, valueOf(s.Value))
		}
	}
	root := &yaml.Node{Kind: yaml.MappingNode}
	put(root, "classes."+class.Name, body)
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(root); err != nil {
		panic(err) // it is made of mappings and texts
	}
	return b.String()
}

// put sets what a path of names with dots leads to, and makes the mappings on the way.
func put(to *yaml.Node, path string, value *yaml.Node) {
	name, rest, nested := strings.Cut(path, ".")
	last := len(to.Content) - 2
	if !nested || last < 0 || to.Content[last].Value != name {
		to.Content = append(to.Content, &yaml.Node{Kind: yaml.ScalarNode, Value: name}, &yaml.Node{Kind: yaml.MappingNode})
		last = len(to.Content) - 2
	}
	if !nested {
		to.Content[last+1] = value
		return
	}
	put(to.Content[last+1], rest, value)
}

// valueOf is what a setting was written as: one value, or a list of them.
func valueOf(text string) *yaml.Node {
	inner, ok := strings.CutPrefix(text, "[")
	if !ok {
		return &yaml.Node{Kind: yaml.ScalarNode, Value: text}
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Style: yaml.FlowStyle}
	if inner = strings.TrimSuffix(inner, "]"); inner == "" {
		return list
	}
	for item := range strings.SplitSeq(inner, ", ") {
		node := &yaml.Node{Kind: yaml.ScalarNode, Value: item}
		if _, err := strconv.Atoi(item); err != nil {
			node.SetString(item) // quoted where it would be read as something else
		}
		list.Content = append(list.Content, node)
	}
	return list
}
