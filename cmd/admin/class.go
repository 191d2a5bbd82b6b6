package main

import (
	"context"
	"encoding/json"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/classfile"
	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/queue"
)

// classState is a class and how many jobs it has.
type classState struct {
	queue.Class
	Waiting, Out int64
}

// MarshalJSON adds the numbers to the class's own object.
func (c classState) MarshalJSON() ([]byte, error) {
	class, err := json.Marshal(c.Class)
	if err != nil {
		return nil, err
	}
	jobs, err := json.Marshal(struct {
		Waiting int64 `json:"waiting"`
		Out     int64 `json:"out"`
	}{c.Waiting, c.Out})
	if err != nil {
		return nil, err
	}
	return append(append(class[:len(class)-1], ','), jobs[1:]...), nil
}

func classList(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "ls", Usage: "list all classes",
		Run: func(ctx context.Context, s *command.Session) error {
			ctx, op, err := open(ctx, s)
			if err != nil {
				return err
			}
			states, err := op.States(ctx)
			if err != nil {
				return err
			}
			return answer.List(s.Printer, states,
				classColumn{Name: "class", Cell: func(c classState) any { return c.Name }},
				classColumn{Name: "capacity", Cell: func(c classState) any { return c.Capacity }},
				classColumn{Name: "rate", Cell: func(c classState) any { return c.Rate }},
				classColumn{Name: "waiting", Cell: func(c classState) any { return c.Waiting }},
				classColumn{Name: "out", Cell: func(c classState) any { return c.Out }},
				classColumn{Name: "state", Cell: func(c classState) any { return classStatus(c.Class) }})
		},
	})
}

type classColumn = answer.Column[classState]

func classGet(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "get", Usage: "show one class: its settings, and how many of its jobs wait and are out",
		Args: "NAME", Least: 1, Most: 1,
		Run: func(ctx context.Context, s *command.Session) error {
			ctx, op, err := open(ctx, s)
			if err != nil {
				return err
			}
			state, err := op.State(ctx, s.Flags.Args().First())
			if err != nil {
				return err
			}
			columns := []classColumn{{Name: "class", Cell: func(c classState) any { return c.Name }}}
			for _, setting := range classfile.Settings(state.Class) {
				columns = append(columns, classColumn{Name: setting.Name, Cell: func(classState) any { return setting.Value }})
			}
			return answer.One(s.Printer, state, append(columns,
				classColumn{Name: "waiting", Cell: func(c classState) any { return c.Waiting }},
				classColumn{Name: "out", Cell: func(c classState) any { return c.Out }},
				classColumn{Name: "state", Cell: func(c classState) any { return classStatus(c.Class) }},
				classColumn{Name: "version", Cell: func(c classState) any { return c.Version }})...)
		},
	})
}
