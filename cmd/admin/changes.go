package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/wire"
)

func changesCommand(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "changes", Usage: "list what operators changed, the newest first: who, what, before and after", Args: "[CLASS[/KEY]]", Most: 1,
		Description: `Changes through every door are in the log: this program, the API and the dashboard; of a class also those of its buckets. It
keeps the newest ten thousand or so. Submissions are no changes: the books count them.`,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "limit", Value: 100, Usage: "most `CHANGES` to list"},
		},
		Run: runChanges,
	})
}

func runChanges(ctx context.Context, s *command.Session) error {
	limit, err := limitOf(s)
	if err != nil {
		return err
	}
	var of target
	if s.Flags.Args().Present() {
		if of, err = parseTarget(s.Flags.Args().First()); err != nil {
			return err
		}
	}
	ctx, op, err := open(ctx, s)
	if err != nil {
		return err
	}
	list, err := op.Changes(ctx, of, limit)
	if err != nil {
		return err
	}
	type column = answer.Column[wire.LoggedChange]
	return answer.List(s.Printer, list,
		column{Name: "at", Cell: func(c wire.LoggedChange) any { return moment(c.At) }},
		column{Name: "who", Cell: func(c wire.LoggedChange) any { return c.Who }},
		column{Name: "door", Cell: func(c wire.LoggedChange) any { return c.Door }},
		column{Name: "action", Cell: func(c wire.LoggedChange) any { return c.Action }},
		column{Name: "target", Cell: func(c wire.LoggedChange) any { return c.Target }},
		column{Name: "before", Cell: func(c wire.LoggedChange) any { return string(c.Before) }},
		column{Name: "after", Cell: func(c wire.LoggedChange) any { return string(c.After) }},
		column{Name: "error", Cell: func(c wire.LoggedChange) any { return c.Error }})
}
