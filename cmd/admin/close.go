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
			return operate(ctx, s, queue.Classes.Pause, queue.Buckets.Pause)
		},
	})
}

func bucketDrain(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "drain", Usage: "admit nothing more to a bucket, or to a class, and let it empty, until it is resumed",
		Args: "CLASS[/KEY]", Least: 1, Most: 1,
		Description: `Submissions are rejected as draining, exit status 75; the jobs that wait depart at the rate of their bucket. What a
failed attempt brings back is no submission, and is taken. Dead jobs cannot go round again meanwhile.`,
		Run: func(ctx context.Context, s *command.Session) error {
			return operate(ctx, s, queue.Classes.Drain, queue.Buckets.Drain)
		},
	})
}

func bucketResume(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "resume", Usage: "open a paused, draining or sick bucket, or a paused or draining class, again",
		Args: "CLASS[/KEY]", Least: 1, Most: 1,
		Description: `It ends pause and drain, both at once; a hold stays, see unhold. Nothing is made up for. A bucket is open when neither it
nor its class is paused or draining.`,
		Run: func(ctx context.Context, s *command.Session) error {
			return operate(ctx, s, queue.Classes.Resume, queue.Buckets.Resume)
		},
	})
}

// operate closes or opens what the argument names, and answers with what it is then.
func operate(ctx context.Context, s *command.Session,
	class func(queue.Classes, context.Context, string) error, bucket func(queue.Buckets, context.Context, string, string) error,
) error {
	t, client, err := openTarget(ctx, s)
	if err != nil {
		return err
	}
	if t.isBucket {
		err = bucket(client.Buckets(), ctx, t.class, t.key)
	} else {
		err = class(client.Classes(), ctx, t.class)
	}
	if err != nil {
		return err
	}
	return tell(ctx, s, client, t)
}

// tell answers with what the argument is now.
func tell(ctx context.Context, s *command.Session, client *queue.Client, t target) error {
	if t.isBucket {
		return tellBucket(ctx, s, client, t)
	}
	now, err := client.Classes().Get(ctx, t.class)
	if err != nil {
		return err
	}
	return errors.Join(s.Object(now), s.Linef("class %s is %s", t.class, classStatus(now)))
}

// tellBucket answers with what a bucket is now, and with what its class has to do with it.
func tellBucket(ctx context.Context, s *command.Session, client *queue.Client, t target) error {
	bucket, err := client.Buckets().Get(ctx, t.class, t.key)
	if err != nil {
		return err
	}
	class, err := client.Classes().Get(ctx, t.class)
	if err != nil {
		return err
	}
	var why string
	if classStatus(class) != "open" {
		why = "; its whole class is " + classStatus(class)
	}
	return errors.Join(s.Object(bucket), s.Linef("bucket %s is %s%s", t, bucketStatus(bucket), why))
}
