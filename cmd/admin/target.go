package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/exit"
	"github.com/spout-queue/spout/queue"
)

// target is what the argument CLASS[/KEY] names: a bucket, or all buckets of a class. A key is anything, also with a slash
// in it: the first slash ends the class.
type target = desk.Target

// parseTarget checks the key, so that class/ is never taken for the whole class.
func parseTarget(arg string) (target, error) {
	class, key, isBucket := strings.Cut(arg, "/")
	if isBucket {
		if err := queue.CheckKey(key); err != nil {
			return target{}, err
		}
	}
	return target{Class: class, Key: key}, nil
}

// noun is what to call a target in a sentence.
func noun(t target) string {
	if t.Key != "" {
		return "bucket " + t.String()
	}
	return "class " + t.String()
}

// openTarget reads the command's argument, opens the installation and makes sure that the class exists.
func openTarget(ctx context.Context, s *command.Session) (context.Context, target, operator, error) {
	t, err := parseTarget(s.Flags.Args().First())
	if err != nil {
		return ctx, t, nil, err
	}
	ctx, op, err := open(ctx, s)
	if err != nil {
		return ctx, t, nil, err
	}
	_, err = op.Class(ctx, t.Class)
	return ctx, t, op, err
}

// bucketTarget reads the argument of a command that works on one bucket only.
func bucketTarget(s *command.Session) (target, error) {
	t, err := parseTarget(s.Flags.Args().First())
	if err == nil && t.Key == "" {
		err = exit.Usagef("%s takes CLASS/KEY, and %q has no key; write %s/KEY", s.Flags.FullName(), t.Class, t.Class)
	}
	return t, err
}

// timeOf reads a flag that is a time.
func timeOf(s *command.Session, flag string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, s.Flags.String(flag))
	if err != nil {
		return t, s.Wrong(flag, fmt.Errorf("%q is not a time in RFC 3339, like 2026-01-31T18:00:00Z", s.Flags.String(flag)))
	}
	return t, nil
}

// limitOf reads --limit.
func limitOf(s *command.Session) (int, error) {
	limit := s.Flags.Int("limit")
	if limit < 1 || limit > limitMost {
		return 0, s.Wrong("limit", fmt.Errorf("%d is not between 1 and %d", limit, limitMost))
	}
	return limit, nil
}

// limitMost bounds what one command reads into memory.
const limitMost = 10_000
