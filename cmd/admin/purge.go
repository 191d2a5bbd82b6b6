package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/exit"
)

func bucketPurge(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "purge", Usage: "drop all jobs that wait in a bucket, or in all buckets of a class",
		Args: "CLASS[/KEY]", Least: 1, Most: 1,
		Description: `What is out goes on, and the dead stay. It asks first; without a terminal it needs --yes.`,
		Flags:       []cli.Flag{yesFlag()},
		Run: func(ctx context.Context, s *command.Session) error {
			return runPurge(ctx, s, purge{"all that wait in %s", "%d of %s", operator.CountWaiting, operator.Purge})
		},
	})
}

func yesFlag() cli.Flag {
	return &cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask"}
}

// purge is a command that drops jobs.
type purge struct {
	what, some string // formats of what it drops: of a target, and of a number and a target
	count      func(operator, context.Context, target) (string, error)
	drop       func(operator, context.Context, target) (int, error)
}

// purged is the answer to a purge.
type purged struct {
	Class  string `json:"class"`
	Key    string `json:"key,omitempty"`
	Purged int    `json:"purged"`
}

func runPurge(ctx context.Context, s *command.Session, p purge) error {
	yes := s.Flags.Bool("yes")
	if !yes && !command.IsTerminal(s.Stdin) {
		return exit.Usagef("%s drops jobs: without a terminal to ask at, it needs --yes", s.Flags.FullName())
	}
	ctx, t, op, err := openTarget(ctx, s)
	if err != nil {
		return err
	}
	if !yes {
		count, err := p.count(op, ctx, t)
		if err != nil {
			return err
		}
		agreed, err := confirm(ctx, s, fmt.Sprintf("drop "+p.what+", %s now?", noun(t), count))
		if err != nil {
			return err
		}
		if !agreed {
			return cmp.Or(s.Linef("nothing is dropped"), exit.Silent(exit.Found))
		}
	}
	done := purged{Class: t.Class, Key: t.Key}
	done.Purged, err = p.drop(op, ctx, t)
	dropped := fmt.Sprintf("dropped "+p.some, done.Purged, noun(t))
	switch {
	case err != nil && done.Purged > 0:
		return fmt.Errorf("%s, and then: %w", dropped, err)
	case err != nil:
		return err
	}
	return errors.Join(s.Object(done), s.Linef("%s", dropped))
}

// confirm asks the person at the terminal. Anything but a yes is a no.
func confirm(ctx context.Context, s *command.Session, question string) (bool, error) {
	if _, err := fmt.Fprintf(s.Stderr, "%s [y/N] ", question); err != nil {
		return false, &exit.Error{Status: exit.IO, Err: fmt.Errorf("ask: %w", err)}
	}
	replies := make(chan string, 1)
	go func() { // where nobody replies, it ends with the process
		line, _ := bufio.NewReader(s.Stdin).ReadString('\n') // at the end of input nobody has said yes
		replies <- strings.ToLower(strings.TrimSpace(line))
	}()
	select {
	case reply := <-replies:
		return reply == "y" || reply == "yes", nil
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
