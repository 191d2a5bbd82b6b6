package main

import (
	"context"
	"fmt"

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
	t, client, err := openTarget(ctx, s)
	if err != nil {
		return err
	}
	q.Class, q.Key = t.class, t.key
	jobs, err := client.Dead().List(ctx, q)
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
			return runPurge(ctx, s, purge{"all dead jobs of %s", "%d dead jobs of %s", countDead, purgeDead})
		},
	})
}

// countedDead is how many dead jobs of one bucket are counted for a question: to count them is to read them.
const countedDead = 100

func countDead(ctx context.Context, client *queue.Client, t target) (string, error) {
	if t.key == "" {
		n, err := client.Dead().Count(ctx, t.class)
		return fmt.Sprint(n), err
	}
	jobs, err := client.Dead().List(ctx, queue.DeadQuery{Class: t.class, Key: t.key, Limit: countedDead})
	if len(jobs) == countedDead {
		return fmt.Sprintf("%d or more", countedDead), err
	}
	return fmt.Sprint(len(jobs)), err
}

func purgeDead(ctx context.Context, client *queue.Client, t target) (int, error) {
	return client.Dead().Purge(ctx, t.class, t.key)
}
