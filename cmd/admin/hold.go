package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/exit"
)

func bucketHold(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "hold", Usage: "close a bucket, or all buckets of a class, until a time, as an upstream asks with Retry-After", Args: "CLASS[/KEY]", Least: 1, Most: 1,
		Description: `Nothing departs until then; what runs goes on, and submissions too. A second hold takes the place of the first.
Nothing is made up for.`,
		Flags: []cli.Flag{
			&cli.DurationFlag{Name: "for", Usage: "`DURATION` of the hold, such as 90s or 10m (this or --until is required)", HideDefault: true},
			&cli.StringFlag{Name: "until", Usage: "`TIME` when it ends, in RFC 3339, such as 2026-01-31T18:00:00Z"},
		},
		Run: runBucketHold,
	})
}

func runBucketHold(ctx context.Context, s *command.Session) error {
	period, until, err := holdOf(s)
	if err != nil {
		return err
	}
	ctx, t, op, err := openTarget(ctx, s)
	if err != nil {
		return err
	}
	var changed bool
	if period > 0 {
		changed, err = op.HoldFor(ctx, t, period)
	} else {
		changed, err = op.Hold(ctx, t, until)
	}
	if err != nil {
		return err
	}
	return tell(ctx, s, op, t, changed)
}

// holdOf reads --for and --until, of which exactly one must be given.
func holdOf(s *command.Session) (period time.Duration, until time.Time, err error) {
	switch hasFor, hasUntil := s.Flags.IsSet("for"), s.Flags.IsSet("until"); {
	case hasFor && hasUntil:
		return 0, until, exit.Usagef("--for and --until are both given; one will do")
	case hasFor:
		if period = s.Flags.Duration("for"); period < time.Millisecond {
			return 0, until, s.Wrong("for", fmt.Errorf("%v is below 1ms; to open the bucket, use admin bucket unhold", period))
		}
		return period, until, nil
	case hasUntil:
		until, err = timeOf(s, "until")
		if err == nil && !until.After(time.Now()) {
			err = s.Wrong("until", errors.New("this time is past; to open the bucket, use admin bucket unhold"))
		}
		return 0, until, err
	}
	return 0, until, exit.Usagef("say until when: --for DURATION or --until TIME; to close it until it is resumed, use admin bucket pause")
}

func bucketUnhold(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "unhold", Usage: "end the hold of a bucket, or of a class", Args: "CLASS[/KEY]", Least: 1, Most: 1,
		Description: `It ends a hold that an upstream asked for, too. One that has none stays as it is. The hold of a class and those of its
buckets are apart: a bucket is open when neither is held.`,
		Run: func(ctx context.Context, s *command.Session) error {
			return operate(ctx, s, operator.Unhold)
		},
	})
}
