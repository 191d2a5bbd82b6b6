package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/queue"
)

// target is what the argument CLASS[/KEY] names: a bucket, or all buckets of a class. A key is anything, also with a slash
// in it: the first slash ends the class.
type target struct {
	class, key string
	isBucket   bool
}

// parseTarget checks the key, so that class/ is never taken for the whole class.
func parseTarget(arg string) (target, error) {
	class, key, isBucket := strings.Cut(arg, "/")
	if isBucket {
		if err := queue.CheckKey(key); err != nil {
			return target{}, err
		}
	}
	return target{class, key, isBucket}, nil
}

// String is class or class/key.
func (t target) String() string {
	if t.isBucket {
		return t.class + "/" + t.key
	}
	return t.class
}

// noun is what to call it in a sentence.
func (t target) noun() string {
	if t.isBucket {
		return "bucket " + t.String()
	}
	return "class " + t.String()
}

// openTarget reads the command's argument, opens the installation and makes sure that the class exists.
func openTarget(ctx context.Context, s *command.Session) (t target, client *queue.Client, class queue.Class, err error) {
	if t, err = parseTarget(s.Flags.Args().First()); err != nil {
		return t, nil, class, err
	}
	if client, err = s.Open(ctx); err != nil {
		return t, nil, class, err
	}
	class, err = client.Classes().Get(ctx, t.class)
	return t, client, class, err
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
