package classfile

import (
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/spout-queue/spout/cmd/internal/strictyaml"
	"github.com/spout-queue/spout/queue"
)

// Set changes one setting of a class. It is named as [Settings] names it, such as retry.order, and its value is written as
// in a file. Whether the class as a whole is sound, its Validate tells.
func Set(class *queue.Class, name, value string) error {
	all := settings()
	i := slices.IndexFunc(all, func(s setting) bool { return s.name == name })
	if i < 0 {
		names := make([]string, len(all))
		for i, s := range all {
			names[i] = s.name
		}
		return fmt.Errorf("there is no setting %q; there are %s", name, strings.Join(names, ", "))
	}
	node, err := strictyaml.Parse([]byte(value))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if node == nil {
		node = &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	return all[i].read(class, node)
}
