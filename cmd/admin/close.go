package main

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/command"
)

func bucketPause(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "pause", Usage: "close a bucket, or all buckets of a class, until it is resumed",
		Args: "CLASS[/KEY]", Least: 1, Most: 1,
		Description: `Nothing departs; what runs goes on. Submissions go on until the bucket is full.`,
		Run: func(ctx context.Context, s *command.Session) error {
			return operate(ctx, s, operator.Pause)
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
			return operate(ctx, s, operator.Drain)
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
			return operate(ctx, s, operator.Resume)
		},
	})
}

// operate closes or opens what the argument names, and answers with what it is then.
func operate(ctx context.Context, s *command.Session, do func(operator, context.Context, target) (bool, error)) error {
	ctx, t, op, err := openTarget(ctx, s)
	if err != nil {
		return err
	}
	changed, err := do(op, ctx, t)
	if err != nil {
		return err
	}
	return tell(ctx, s, op, t, changed)
}

// tell answers with what the argument is now: of a bucket also with what its class has to do with it.
func tell(ctx context.Context, s *command.Session, op operator, t target, changed bool) error {
	class, err := op.Class(ctx, t.Class)
	if err != nil {
		return err
	}
	already := ""
	if !changed {
		already = ", as it was"
	}
	if t.Key == "" {
		return errors.Join(s.Object(afterwards{class, !changed}), s.Linef("class %s is %s%s", t.Class, classStatus(class), already))
	}
	bucket, err := op.Bucket(ctx, t)
	if err != nil {
		return err
	}
	var why string
	if classStatus(class) != "open" {
		why = "; its whole class is " + classStatus(class)
	}
	return errors.Join(s.Object(afterwards{bucket, !changed}), s.Linef("bucket %s is %s%s%s", t, bucketStatus(bucket), already, why))
}

// afterwards is a class or a bucket after something was done to it.
type afterwards struct {
	is        json.Marshaler
	unchanged bool
}

// MarshalJSON adds to its object that it was so already.
func (a afterwards) MarshalJSON() ([]byte, error) {
	object, err := a.is.MarshalJSON()
	if err != nil || !a.unchanged {
		return object, err
	}
	return append(object[:len(object)-1], `,"unchanged":true}`...), nil
}
