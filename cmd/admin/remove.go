package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/queue"
)

func classRemove(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "rm", Usage: "remove a class that has no jobs", Args: "NAME", Least: 1, Most: 1,
		Description: `While jobs of the class wait, run or are kept dead, it stays: exit status 75. --purge drops those that wait and
the dead ones first, and does not ask; one that runs still keeps the class.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "purge", Usage: "drop its waiting and its dead jobs first"},
		},
		Run: runClassRemove,
	})
}

func runClassRemove(ctx context.Context, s *command.Session) error {
	ctx, op, err := open(ctx, s)
	if err != nil {
		return err
	}
	purge := s.Flags.Bool("purge")
	done, err := op.RemoveClass(ctx, s.Flags.Args().First(), purge)
	if err != nil {
		return fmt.Errorf("%w%s", err, afterRefusal(err, purge, done))
	}
	line := "removed class " + done.Class
	if purge {
		line += fmt.Sprintf(", dropped %d waiting and %d dead", done.Waiting, done.Dead)
	}
	return errors.Join(s.Object(done), s.Linef("%s", line))
}

// afterRefusal says behind an error what was dropped nevertheless, and what can be done.
func afterRefusal(err error, purge bool, done desk.Removal) string {
	var b strings.Builder
	if done.Waiting+done.Dead > 0 {
		fmt.Fprintf(&b, "; %d waiting and %d dead were dropped", done.Waiting, done.Dead)
	}
	busy, ok := errors.AsType[*queue.BusyError](err)
	switch {
	case !ok:
	case purge:
		b.WriteString("; try again when what runs has ended")
	case busy.Waiting+busy.Dead > 0:
		b.WriteString("; --purge drops what waits and what is dead")
	}
	return b.String()
}
