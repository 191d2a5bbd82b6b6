package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"
	"go.yaml.in/yaml/v3"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/exit"
)

func tokenNew(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "new", Usage: "make a token for admin serve, and what its file of tokens needs",
		Description: `The token is shown this once, on standard output; give it to whom it is for. The lines after it go below "tokens:" in the
file of admin serve --tokens, and have only its hash. Redis is not asked.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "name", Usage: "`NAME` of the person or program, for the log of changes"},
			&cli.StringFlag{Name: "role", Value: string(access.Viewer), Usage: "`ROLE`: viewer, operator or admin"},
			&cli.StringSliceFlag{Name: "class", DefaultText: "all", Usage: "`CLASSES` that they know of"},
		},
		Run: runTokenNew,
	})
}

func runTokenNew(_ context.Context, s *command.Session) error {
	name := s.Flags.String("name")
	if name == "" {
		return exit.Usagef("--name is missing; see admin token new -h")
	}
	if err := access.CheckName(name); err != nil {
		return s.Wrong("name", err)
	}
	role, err := access.ParseRole(s.Flags.String("role"))
	if err != nil {
		return s.Wrong("role", err)
	}
	token, hash := access.NewToken()
	entry := struct {
		Name    string      `json:"name" yaml:"name"`
		Role    access.Role `json:"role" yaml:"role"`
		Classes []string    `json:"classes,omitempty" yaml:"classes,omitempty,flow"`
		Hash    string      `json:"hash" yaml:"hash"`
	}{name, role, s.Flags.StringSlice("class"), hash.String()}
	lines, err := yaml.Marshal([]any{entry})
	if err != nil {
		return fmt.Errorf("write the entry: %w", err)
	}
	return errors.Join(
		s.Linef("%s\n\n%s", token, strings.TrimSpace(string(lines))),
		s.Object(map[string]any{"token": token, "entry": entry}),
	)
}
