package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/bridge"
	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/events"
	"github.com/spout-queue/spout/cmd/internal/exit"
	"github.com/spout-queue/spout/cmd/internal/jobstream"
	"github.com/spout-queue/spout/cmd/internal/natsconn"
	"github.com/spout-queue/spout/cmd/internal/ops"
)

func bridgeCommand(p *command.Program) *cli.Command {
	stream := jobstream.Default()
	flags := append(natsconn.Flags(nats.DefaultURL), natsconn.StreamFlags()...)
	return p.Command(command.Command{
		Name: "bridge", Usage: "put jobs that come by NATS into their buckets, until SIGTERM",
		Description: `Requests to <prefix>.submit.<class> are answered with a receipt or with why not. Messages published to
<prefix>.jobs.<class>.<key token> are kept in a JetStream stream and acknowledged once their job is admitted: while a bucket
is full, or Redis is away, they wait there, in order. What is no job goes to <prefix>.rejected.<class> with the reason.
Any number of bridges may run; each class is carried by one of them at a time. See docs/nats.md.

The stream is made when it is missing, with the limits given here, and never changed. NATS that is lost is connected to
again for ever; NATS or Redis away at the start: waits up to 30 s, then exit status 69.`,
		Flags: append(
			append(flags, ops.Flags()...),
			&cli.Int64Flag{Name: "stream-max-messages", Value: stream.Messages, Usage: "most `MESSAGES` of a new stream; above it publishing fails; 0 is no bound"},
			&cli.Int64Flag{Name: "stream-max-bytes", Value: stream.Bytes, Usage: "most `BYTES` of a new stream; 0 is no bound"},
			&cli.Int64Flag{Name: "stream-max-per-key", Value: stream.PerKey, Usage: "most `MESSAGES` of one key in a new stream, at least 1"},
			&cli.StringFlag{Name: "stream-storage", Value: "file", Usage: "`WHERE` a new stream keeps messages: file or memory"},
			&cli.IntFlag{Name: "stream-replicas", Value: stream.Replicas, Usage: "`NUMBER` of servers that keep a new stream, 1 to 5"},
			&cli.DurationFlag{Name: "stream-dedup", Value: stream.Dedup, Usage: "how long a new stream knows a Nats-Msg-Id"},
			&cli.BoolFlag{Name: "no-requests", Usage: "answer no requests, only carry the stream"},
			&cli.BoolFlag{Name: "no-stream", Usage: "carry no stream, only answer requests"},
			&cli.DurationFlag{Name: "request-timeout", Value: 4 * time.Second, Usage: "how long Redis may take to answer a request"},
			&cli.BoolFlag{Name: "events", Usage: "tell on <prefix>.event.<class>.<what> what was admitted and rejected"},
			storeFlag(),
		),
		Run: runBridge,
	})
}

// garbage is GOGC, unless the environment has one: what a bridge has in hand is little and soon gone, and looking through it for
// garbage as often as by default is a fifth of the work of a full stream (ADR 61).
const garbage = 400

func runBridge(ctx context.Context, s *command.Session) error {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbage)
	}
	o, err := bridgeOptions(s)
	if err != nil {
		return err
	}
	shown, err := ops.Open(ctx, s, "producer")
	if err != nil {
		return err
	}
	defer shown.Close(ctx)
	s.Door = "nats"
	if o.Queue, err = s.Open(ctx); err != nil {
		return err
	}
	o.NATS, err = natsconn.Connect(ctx, natsconn.FromFlags(s, "spout-producer"))
	if err != nil {
		return natsconn.Blame(err)
	}
	defer o.NATS.Close()
	if s.Flags.Bool("events") {
		o.Events = events.New(o.NATS, o.Stream.Subjects, "spout/bridge")
	}
	b, err := bridge.New(ctx, o)
	switch {
	case errors.Is(err, jobstream.ErrUnfit):
		return &exit.Error{Status: exit.Config, Err: err}
	case err != nil && ctx.Err() == nil:
		return &exit.Error{Status: exit.Unavailable, Err: fmt.Errorf("%w; does the server have JetStream on, and may this account use it?", err)}
	case err != nil:
		return ctx.Err()
	}
	shown.Watch(ops.Probes{Ready: b.Ready})
	return natsconn.Blame(b.Run(ctx))
}

func bridgeOptions(s *command.Session) (bridge.Options, error) {
	f := s.Flags
	o := bridge.Options{
		Requests: !f.Bool("no-requests"), Durable: !f.Bool("no-stream"), RequestTime: f.Duration("request-timeout"), Log: s.Log,
	}
	if !o.Requests && !o.Durable {
		return o, exit.Usagef("--no-requests and --no-stream leave nothing to do")
	}
	if o.RequestTime <= 0 {
		return o, s.Wrong("request-timeout", fmt.Errorf("%v is not above zero", o.RequestTime))
	}
	var err error
	if o.Stream, err = natsconn.StreamFromFlags(s); err != nil {
		return o, err
	}
	return o, streamLimits(s, &o.Stream)
}

// streamLimits reads how a new stream is made.
func streamLimits(s *command.Session, c *jobstream.Config) error {
	f := s.Flags
	c.Messages, c.Bytes, c.PerKey = f.Int64("stream-max-messages"), f.Int64("stream-max-bytes"), f.Int64("stream-max-per-key")
	c.Replicas, c.Dedup = f.Int("stream-replicas"), f.Duration("stream-dedup")
	switch storage := f.String("stream-storage"); {
	case storage != "file" && storage != "memory":
		return s.Wrong("stream-storage", fmt.Errorf("%q is neither file nor memory", storage))
	case c.Messages < 0:
		return s.Wrong("stream-max-messages", fmt.Errorf("%d is below 0", c.Messages))
	case c.Bytes < 0:
		return s.Wrong("stream-max-bytes", fmt.Errorf("%d is below 0", c.Bytes))
	case c.PerKey < 1 || c.PerKey > jobstream.Window:
		return s.Wrong("stream-max-per-key", fmt.Errorf("%d is not between 1 and %d", c.PerKey, jobstream.Window))
	case c.Replicas < 1 || c.Replicas > 5:
		return s.Wrong("stream-replicas", fmt.Errorf("%d is not between 1 and 5", c.Replicas))
	case c.Dedup < 100*time.Millisecond:
		return s.Wrong("stream-dedup", fmt.Errorf("%v is below 100ms", c.Dedup))
	}
	c.Memory = f.String("stream-storage") == "memory"
	return nil
}
