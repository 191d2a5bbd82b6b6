package command

import (
	"fmt"
	"os"
	"strings"

	"github.com/spout-queue/spout/cmd/internal/exit"
	"github.com/spout-queue/spout/cmd/internal/strictyaml"
)

// readConfig passes the options of a configuration file on, with where they stand. Everything wrong in it is one error.
func readConfig(file string, known []string, set func(name, value, origin string) error) error {
	data, err := os.ReadFile(file) //nolint:gosec // the operator names it
	if err != nil {
		return exit.Configf("read the configuration: %w", err)
	}
	root, err := strictyaml.Parse(data)
	if err != nil {
		return exit.Configf("%s: %w", file, err)
	}
	problems := &strictyaml.Problems{File: file}
	for _, f := range strictyaml.Fields(root, "the configuration", known, problems) {
		value, err := strictyaml.Text(f.Value)
		if err != nil {
			var list []string
			if list, err = strictyaml.Texts(f.Value); err == nil {
				value = strings.Join(list, ",")
			}
		}
		if err == nil {
			err = set(f.Name, value, fmt.Sprintf("%s:%d: %s", file, f.Line, f.Name))
		}
		if err != nil {
			problems.Addf(f.Line, "%s: %v", f.Name, err)
		}
	}
	if err := problems.Err(); err != nil {
		return &exit.Error{Status: exit.Config, Err: err}
	}
	return nil
}
