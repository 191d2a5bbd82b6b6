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
	t, client, err := openTarget(ctx, s)
	if err != nil {
		return err
	}
	began, err := client.Now(ctx)
	if err != nil {
		return err
	}
	bar := progress.New(s.Stderr, -1)
	start := time.Now()
	r := reviver{
		wait: onFull == "wait",
		pass: func(ctx context.Context, progress func(queue.Revival)) (queue.Revival, error) {
			return client.Dead().RetryAll(ctx, t.class, t.key, began, progress)
		},
		show: func(sum queue.Revival) {
			rate := float64(sum.Retried) / max(time.Since(start), time.Millisecond).Seconds()
			bar.Show(fmt.Sprintf("%d jobs, %.0f/s, %d without room", sum.Retried, rate, sum.Left), 0)
		},
		log: slog.New(bar.Clearing(s.Log.Handler())),
	}
	sum, err := r.run(ctx)
	bar.Done()
	return tellRevived(s, t, sum, err)
}

// tellRevived says what was done. An error is for standard error, also when a program reads the answer.
func tellRevived(s *command.Session, t target, sum queue.Revival, err error) error {
	if err != nil {
		_ = errors.Join(
			s.Object(revived{t.class, t.key, sum.Retried, nil}),
			s.Linef("sent %d dead jobs of %s round again before it stopped", sum.Retried, t.noun()))
		return &exit.Error{Status: answer.Exit(err), Err: err}
	}
	err = errors.Join(
		s.Object(revived{t.class, t.key, sum.Retried, &sum.Left}),
		s.Linef("sent %d dead jobs of %s round again, %d left", sum.Retried, t.noun(), sum.Left))
	if err == nil && sum.Left > 0 {
		return exit.Silent(exit.Found)
	}
	return err
}

const (
	leastPassWait = 100 * time.Millisecond
	mostPassWait  = 5 * time.Second
	logPassEvery  = 30 * time.Second
)

// reviver goes through dead jobs, again and again while some have no room.
type reviver struct {
	wait bool // for room
	// pass goes through them once.
	pass func(context.Context, func(queue.Revival)) (queue.Revival, error)
	show func(queue.Revival)
	log  *slog.Logger

	sum    queue.Revival
	vain   time.Duration // least wait after a pass that moved nothing
	logged time.Time
}

// run returns what it did, also when it ends early.
func (r *reviver) run(ctx context.Context) (queue.Revival, error) {
	for {
		pass, err := r.once(ctx)
		switch {
		case ctx.Err() != nil: // the call under way may say anything then
			return r.sum, ctx.Err()
		case err != nil, r.sum.Left == 0, !r.wait:
			return r.sum, err
		}
		if err := sleep(ctx, r.pause(pass)); err != nil {
			return r.sum, err
		}
	}
}

// once makes a pass and adds it up.
func (r *reviver) once(ctx context.Context) (queue.Revival, error) {
	before := r.sum
	pass, err := r.pass(ctx, func(so queue.Revival) {
		r.sum.Retried, r.sum.Left = before.Retried+so.Retried, max(so.Left, before.Left-so.Retried)
		r.show(r.sum)
	})
	r.sum = queue.Revival{Retried: before.Retried + pass.Retried, Left: pass.Left, RetryAfter: pass.RetryAfter}
	r.show(r.sum)
	return pass, err
}

// pause is as long as was told, and longer and longer while nobody drains, or nobody can tell when there is room.
func (r *reviver) pause(pass queue.Revival) time.Duration {
	if pass.Retried > 0 {
		r.vain = leastPassWait
	} else {
		r.vain = min(max(2*r.vain, leastPassWait), mostPassWait)
		if now := time.Now(); now.Sub(r.logged) >= logPassEvery {
			r.logged = now
			r.log.Warn("there is no room: waiting", slog.Int("left", r.sum.Left), slog.Int("retried", r.sum.Retried))
		}
	}
	return min(max(pass.RetryAfter, r.vain), mostPassWait)
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
