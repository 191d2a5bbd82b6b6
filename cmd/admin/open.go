package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/exit"
)

// apiFlags are those of every command of the program.
func apiFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "api", Usage: "`URL` of an admin serve to work through, in place of Redis"},
		&cli.StringFlag{Name: "token-file", Usage: "`FILE` with the token for --api; also SPOUT_TOKEN, the token itself"},
		&cli.BoolFlag{Name: "plain-http", Usage: "send the token over http to another machine, where it can be read on the way"},
	}
}

// open gives a command its operator, and a context in which that one asks.
func open(ctx context.Context, s *command.Session) (context.Context, operator, error) {
	if s.Flags.String("api") != "" {
		return openAPI(ctx, s)
	}
	return openRedis(ctx, s)
}

// needsRedis is for commands that the API has nothing for.
func needsRedis(s *command.Session) error {
	if s.Flags.String("api") == "" {
		return nil
	}
	return exit.Usagef("%s works on Redis itself: leave out --api, or run it with SPOUT_API= in front, and give --redis", s.Flags.FullName())
}
