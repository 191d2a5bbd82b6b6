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
	"github.com/spout-queue/spout/queue"
)

func bucketPurge(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "purge", Usage: "drop all jobs that wait in a bucket, or in all buckets of a class",
		Args: "CLASS[/KEY]", Least: 1, Most: 1,
		Description: `What is out goes on, and the dead stay. It asks first; without a terminal it needs --yes.`,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "yes", Aliases: []string{"y"}, Usage: "do not ask"},
		},
		Run: runBucketPurge,
	})
}

// purged is the answer to bucket purge.
type purged struct {
	Class  string `json:"class"`
	Key    string `json:"key,omitempty"`
	Purged int    `json:"purged"`
}

func runBucketPurge(ctx context.Context, s *command.Session) error {
	yes := s.Flags.Bool("yes")
	if !yes && !command.IsTerminal(s.Stdin) {
		return exit.Usagef("admin bucket purge drops jobs: without a terminal to ask at, it needs --yes")
	}
	t, client, _, err := openTarget(ctx, s)
	if err != nil {
		return err
	}
	if !yes {
		agreed, err := confirm(ctx, s, client, t)
		if err != nil {
			return err
		}
		if !agreed {
			return cmp.Or(s.Linef("nothing is dropped"), exit.Silent(exit.Found))
		}
	}
	done := purged{Class: t.class, Key: t.key}
	if t.isBucket {
		done.Purged, err = client.Buckets().Purge(ctx, t.class, t.key)
	} else {
		done.Purged, err = client.Classes().PurgeWaiting(ctx, t.class)
	}
	switch {
	case err != nil && done.Purged > 0:
		return fmt.Errorf("dropped %d of %s, and then: %w", done.Purged, t.noun(), err)
	case err != nil:
		return err
	}
	return errors.Join(s.Object(done), s.Linef("dropped %d of %s", done.Purged, t.noun()))
}

// confirm tells the person at the terminal what is at stake, and asks. Anything but a yes is a no.
func confirm(ctx context.Context, s *command.Session, client *queue.Client, t target) (bool, error) {
	waiting, err := countWaiting(ctx, client, t)
	if err != nil {
		return false, err
	}
	if _, err := fmt.Fprintf(s.Stderr, "drop all that wait in %s, %d now? [y/N] ", t.noun(), waiting); err != nil {
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

func countWaiting(ctx context.Context, client *queue.Client, t target) (int64, error) {
	if !t.isBucket {
		books, err := client.Books(ctx, t.class)
		return books.Waiting(), err
	}
	bucket, err := client.Buckets().Get(ctx, t.class, t.key)
	return int64(bucket.Level), err
}
