package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/queue"
)

func deadList(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "ls", Usage: "list the dead jobs of a class or of a bucket, the newest first", Args: "CLASS[/KEY]", Least: 1, Most: 1,
		Description: `For the next page, give --before the time when the last one of this page ended.`,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "limit", Value: 100, Usage: "most `JOBS` to list"},
			&cli.StringFlag{Name: "before", Usage: "only those that ended before `TIME`, in RFC 3339", DefaultText: "all"},
		},
		Run: runDeadList,
	})
}

func runDeadList(ctx context.Context, s *command.Session) error {
	limit, err := limitOf(s)
	if err != nil {
		return err
	}
	q := queue.DeadQuery{Limit: limit}
	if s.Flags.IsSet("before") {
		if q.Before, err = timeOf(s, "before"); err != nil {
			return err
		}
	}
	ctx, t, op, err := openTarget(ctx, s)
	if err != nil {
		return err
	}
	q.Class, q.Key = t.Class, t.Key
	jobs, err := op.Dead(ctx, q)
	if err != nil {
		return err
	}
	return answer.List(s.Printer, jobs, deadColumns()...)
}

func deadPurge(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "purge", Usage: "drop the dead jobs of a class or of a bucket", Args: "CLASS[/KEY]", Least: 1, Most: 1,
		Description: `What waits and what is out goes on. It asks first; without a terminal it needs --yes.`,
		Flags:       []cli.Flag{yesFlag()},
		Run: func(ctx context.Context, s *command.Session) error {
			return runPurge(ctx, s, purge{"all dead jobs of %s", "%d dead jobs of %s", operator.CountDead, operator.PurgeDead})
		},
	})
}
