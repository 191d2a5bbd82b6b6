package main

import (
	"context"
	"errors"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/exit"
	"github.com/spout-queue/spout/cmd/internal/ops"
	"github.com/spout-queue/spout/queue"
)

func collectCommand(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "collect", Usage: "serve the metrics of the whole installation to Prometheus, until SIGTERM",
		Description: `Reads how all classes stand from Redis whenever /metrics is asked for: a few calls, whatever the number of keys. One of
these is enough for an installation; a second one shows the same, so dashboards take the maximum. It audits the books of all
classes from time to time, see admin audit. Serve it with --ops-addr.`,
		Flags: append([]cli.Flag{
			&cli.DurationFlag{Name: "audit-every", Value: 5 * time.Minute, Usage: "time between two audits of all books; 0 is never"},
		}, ops.Flags()...),
		Run: runCollect,
	})
}

func runCollect(ctx context.Context, s *command.Session) error {
	if err := needsRedis(s); err != nil {
		return err
	}
	every := s.Flags.Duration("audit-every")
	switch {
	case s.Flags.String("ops-addr") == "":
		return exit.Usagef("--ops-addr is missing; see admin collect -h")
	case every < 0:
		return s.Wrong("audit-every", errors.New("it is negative"))
	}
	shown, err := ops.Open(ctx, s, "admin")
	if err != nil {
		return err
	}
	defer shown.Close(ctx)
	client, err := s.Open(ctx)
	if err != nil {
		return err
	}
	shown.Collect(client, s.Log)
	shown.Watch(ops.Probes{Ready: func() error {
		ctx, cancel := context.WithTimeout(ctx, queue.CollectTime)
		defer cancel()
		_, err := client.Now(ctx)
		return err
	}})
	if every > 0 {
		queue.NewAuditor(shown.Registry, client, s.Log).Run(ctx, every)
	}
	<-ctx.Done()
	return nil
}
