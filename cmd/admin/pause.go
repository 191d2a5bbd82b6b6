package main

import (
	"context"
	"errors"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/queue"
)

func bucketPause(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "pause", Usage: "close a bucket, or all buckets of a class, until it is resumed",
		Args: "CLASS[/KEY]", Least: 1, Most: 1,
		Description: `Nothing departs; what runs goes on. Submissions go on until the bucket is full.`,
		Run: func(ctx context.Context, s *command.Session) error {
			return setPaused(ctx, s, queue.Classes.Pause, queue.Buckets.Pause)
		},
	})
}

func bucketResume(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "resume", Usage: "open a paused or sick bucket, or a paused class, again",
		Args: "CLASS[/KEY]", Least: 1, Most: 1,
		Description: `Nothing is made up for. A bucket is open when neither it nor its class is paused.`,
		Run: func(ctx context.Context, s *command.Session) error {
			return setPaused(ctx, s, queue.Classes.Resume, queue.Buckets.Resume)
		},
	})
}

// setPaused closes or opens what the argument names, and answers with what it is then.
func setPaused(ctx context.Context, s *command.Session,
	class func(queue.Classes, context.Context, string) error, bucket func(queue.Buckets, context.Context, string, string) error,
) error {
	t, client, settings, err := openTarget(ctx, s)
	if err != nil {
		return err
	}
	if !t.isBucket {
		if err := class(client.Classes(), ctx, t.class); err != nil {
			return err
		}
		now, err := client.Classes().Get(ctx, t.class)
		if err != nil {
			return err
		}
		return errors.Join(s.Object(now), s.Linef("class %s is %s", t.class, openOrPaused(now.Paused)))
	}
	if err := bucket(client.Buckets(), ctx, t.class, t.key); err != nil {
		return err
	}
	now, err := client.Buckets().Get(ctx, t.class, t.key)
	if err != nil {
		return err
	}
	state := openOrPaused(now.Paused)
	if settings.Paused {
		state += ", as its whole class is"
	}
	return errors.Join(s.Object(now), s.Linef("bucket %s is %s", t, state))
}

func openOrPaused(paused bool) string {
	if paused {
		return "paused"
	}
	return "open"
}
