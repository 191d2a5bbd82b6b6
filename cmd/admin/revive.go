package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/exit"
	"github.com/spout-queue/spout/cmd/internal/progress"
	"github.com/spout-queue/spout/queue"
)

func deadRetry(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "retry", Usage: "send the dead jobs of a class or of a bucket round again, the oldest first",
		Args: "CLASS[/KEY]", Least: 1, Most: 1,
		Description: `They go to the tail of their buckets and leave at the rate of these. While there is no room for some, it waits and goes on;
with --on-full skip those stay dead. It ends when none is left of those that were dead when it began: jobs that die again do not
keep it busy for ever. When some are left, the exit status is 1. An interrupt stops it:
what went round stays so, and the next run goes on from there.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "on-full", Value: "wait", Usage: "`ACTION` when there is no room: wait (as told), or skip the job"},
		},
		Run: runDeadRetry,
	})
}

// revived is the answer to dead retry.
type revived struct {
	Class   string `json:"class"`
	Key     string `json:"key,omitempty"`
	Retried int    `json:"retried"`
	// Left are still dead; nobody has seen all of them when it was stopped.
	Left *int `json:"left,omitempty"`
}

func runDeadRetry(ctx context.Context, s *command.Session) error {
	onFull := s.Flags.String("on-full")
	if onFull != "wait" && onFull != "skip" {
		return s.Wrong("on-full", fmt.Errorf("%q is neither wait nor skip", onFull))
	}
	bar := progress.New(s.Stderr, -1)
	s.Log = slog.New(bar.Clearing(s.Log.Handler()))
	ctx, t, op, err := openTarget(ctx, s)
	if err != nil {
		return err
	}
	start := time.Now()
	sum, err := op.Revive(ctx, t, onFull == "wait", func(sum queue.Revival) {
		rate := float64(sum.Retried) / max(time.Since(start), time.Millisecond).Seconds()
		bar.Show(fmt.Sprintf("%d jobs, %.0f/s, %d without room", sum.Retried, rate, sum.Left), 0)
	})
	bar.Done()
	return tellRevived(s, t, sum, err)
}

// tellRevived says what was done. An error is for standard error, also when a program reads the answer.
func tellRevived(s *command.Session, t target, sum queue.Revival, err error) error {
	if err != nil {
		_ = errors.Join(
			s.Object(revived{t.Class, t.Key, sum.Retried, nil}),
			s.Linef("sent %d dead jobs of %s round again before it stopped", sum.Retried, noun(t)))
		return &exit.Error{Status: answer.Exit(err), Err: err}
	}
	err = errors.Join(
		s.Object(revived{t.Class, t.Key, sum.Retried, &sum.Left}),
		s.Linef("sent %d dead jobs of %s round again, %d left", sum.Retried, noun(t), sum.Left))
	if err == nil && sum.Left > 0 {
		return exit.Silent(exit.Found)
	}
	return err
}
