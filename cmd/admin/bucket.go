package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/exit"
	"github.com/spout-queue/spout/queue"
)

func bucketList(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "ls", Usage: "list the buckets of a class, or of all classes, the fullest first",
		Args: "[CLASS]", Most: 1,
		Description: `Listed are buckets that have jobs, are paused or must still remember their last departure; all others are empty.`,
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
	client, err := s.Open(ctx)
	if err != nil {
		return err
	}
	names := s.Flags.Args().Slice()
	if len(names) == 0 {
		if names, err = classNames(ctx, client); err != nil {
			return err
		}
	}
	var buckets []queue.Bucket
	for _, name := range names {
		// The list of a class is by due: to find the fullest, more are looked at than shown.
		some, err := client.Buckets().List(ctx, name, limitMost)
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
		return cmp.Or(cmp.Compare(b.Level, a.Level), cmp.Compare(a.Class, b.Class), cmp.Compare(a.Key, b.Key))
	})
	if more := len(buckets) - limit; more > 0 {
		buckets = buckets[:limit]
		s.Log.LogAttrs(ctx, slog.LevelWarn, "not all are listed", slog.Int("limit", limit), slog.Int("left_out", more))
	}
	return answer.List(s.Printer, buckets, bucketColumns()...)
}

func classNames(ctx context.Context, client *queue.Client) ([]string, error) {
	classes, err := client.Classes().List(ctx)
	names := make([]string, len(classes))
	for i, class := range classes {
		names[i] = class.Name
	}
	return names, err
}

type bucketColumn = answer.Column[queue.Bucket]

func bucketColumns() []bucketColumn {
	return []bucketColumn{
		{Name: "bucket", Cell: func(b queue.Bucket) any { return b.Name() }},
		{Name: "level", Cell: func(b queue.Bucket) any { return fmt.Sprintf("%d of %d", b.Level, b.Capacity) }},
		{Name: "line", Cell: func(b queue.Bucket) any { return b.Line }},
		{Name: "later", Cell: func(b queue.Bucket) any { return b.Later }},
		{Name: "rate", Cell: func(b queue.Bucket) any { return b.Rate }},
		{Name: "due", Cell: func(b queue.Bucket) any { return moment(b.Due) }},
		{Name: "state", Cell: bucketStatus},
	}
}

func bucketStatus(b queue.Bucket) any {
	var words []string
	if b.Paused {
		words = append(words, "paused")
	}
	if b.Sick != "" {
		words = append(words, "sick: "+b.Sick)
	}
	return cmp.Or(strings.Join(words, ", "), "open")
}

func bucketGet(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "get", Usage: "show one bucket", Args: "CLASS/KEY", Least: 1, Most: 1,
		Description: `A bucket that nobody used lately is empty, which is no error.`,
		Run: func(ctx context.Context, s *command.Session) error {
			t, err := parseTarget(s.Flags.Args().First())
			if err != nil {
				return err
			}
			if !t.isBucket {
				return exit.Usagef("admin bucket get takes CLASS/KEY, and %q has no key", t.class)
			}
			client, err := s.Open(ctx)
			if err != nil {
				return err
			}
			bucket, err := client.Buckets().Get(ctx, t.class, t.key)
			if err != nil {
				return err
			}
			return answer.One(s.Printer, bucket, bucketColumns()...)
		},
	})
}
