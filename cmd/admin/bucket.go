package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/queue"
)

func bucketList(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "ls", Usage: "list the buckets of a class, or of all classes, sick ones and then the fullest first",
		Args: "[CLASS]", Most: 1,
		Description: `Listed are buckets that have jobs, are sick, paused or draining, or must still remember their last departure; all others are
empty. State tells what closes a bucket: paused, draining (it admits nothing more), held until a time, sick (broken, and why).
Out is there for classes that bound it: max_in_flight, or retry.order hold.`,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "limit", Value: 100, Usage: "most `BUCKETS` to list"},
		},
		Run: runBucketList,
	})
}

func runBucketList(ctx context.Context, s *command.Session) error {
	limit, err := limitOf(s)
	if err != nil {
		return err
	}
	ctx, op, err := open(ctx, s)
	if err != nil {
		return err
	}
	names := s.Flags.Args().Slice()
	if len(names) == 0 {
		if names, err = classNames(ctx, op); err != nil {
			return err
		}
	}
	var buckets []queue.Bucket
	for _, name := range names {
		// The list of a class is by due: to find the fullest, more are looked at than shown.
		some, err := op.Buckets(ctx, name, limitMost)
		if err != nil {
			return err
		}
		if len(some) == limitMost {
			s.Log.LogAttrs(ctx, slog.LevelWarn, "the class has more buckets: only those due first were looked at",
				slog.String("class", name), slog.Int("looked_at", limitMost))
		}
		buckets = append(buckets, some...)
	}
	slices.SortStableFunc(buckets, func(a, b queue.Bucket) int {
		return cmp.Or(cmp.Compare(min(1, len(b.Sick)), min(1, len(a.Sick))), cmp.Compare(b.Level, a.Level), cmp.Compare(a.Class, b.Class),
			cmp.Compare(a.Key, b.Key))
	})
	if more := len(buckets) - limit; more > 0 {
		buckets = buckets[:limit]
		s.Log.LogAttrs(ctx, slog.LevelWarn, "not all are listed", slog.Int("limit", limit), slog.Int("left_out", more))
	}
	return answer.List(s.Printer, buckets, bucketColumns(buckets...)...)
}

func classNames(ctx context.Context, op operator) ([]string, error) {
	classes, err := op.States(ctx)
	names := make([]string, len(classes))
	for i, class := range classes {
		names[i] = class.Name
	}
	return names, err
}

type bucketColumn = answer.Column[queue.Bucket]

// bucketColumns leaves out what none of the buckets has.
func bucketColumns(buckets ...queue.Bucket) []bucketColumn {
	columns := []bucketColumn{
		{Name: "bucket", Cell: func(b queue.Bucket) any { return b.Name() }},
		{Name: "level", Cell: func(b queue.Bucket) any { return fmt.Sprintf("%d of %d", b.Level, b.Capacity) }},
		{Name: "line", Cell: func(b queue.Bucket) any { return b.Line }},
		{Name: "later", Cell: func(b queue.Bucket) any { return b.Later }},
	}
	if slices.ContainsFunc(buckets, func(b queue.Bucket) bool { return b.Out >= 0 }) {
		columns = append(columns, bucketColumn{Name: "out", Cell: outOf})
	}
	return append(columns,
		bucketColumn{Name: "rate", Cell: func(b queue.Bucket) any { return bucketRate(b) }},
		bucketColumn{Name: "due", Cell: func(b queue.Bucket) any { return moment(b.Due) }},
		bucketColumn{Name: "state", Cell: func(b queue.Bucket) any { return bucketStatus(b) }})
}

// outOf shows nothing for a bucket that does not count what it has out.
func outOf(b queue.Bucket) any {
	if b.Out < 0 {
		return ""
	}
	return b.Out
}

func bucketGet(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "get", Usage: "show one bucket", Args: "CLASS/KEY", Least: 1, Most: 1,
		Description: `A bucket that nobody used lately is empty, which is no error.`,
		Run: func(ctx context.Context, s *command.Session) error {
			t, err := bucketTarget(s)
			if err != nil {
				return err
			}
			ctx, op, err := open(ctx, s)
			if err != nil {
				return err
			}
			bucket, err := op.Bucket(ctx, t)
			if err != nil {
				return err
			}
			return answer.One(s.Printer, bucket, bucketColumns(bucket)...)
		},
	})
}
