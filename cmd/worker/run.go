package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"os/signal"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/ops"
	"github.com/spout-queue/spout/handlers"
	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// run is the whole program but for the process around it.
func run(ctx context.Context, args []string, getenv func(string) string, stdin io.Reader, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(ctx, syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	p := &command.Program{
		Name: "worker", Usage: "drain buckets and run their jobs",
		Getenv: getenv, Stdin: stdin, Stdout: stdout, Stderr: stderr,
	}
	return p.Run(ctx, args, p.Command(command.Command{
		Name: "run", Usage: "drain until SIGTERM",
		Description: "Takes jobs out of their buckets, each bucket at its own rate however many workers there are, and runs those\n" +
			"of types http:call and webhook:send; nats:publish and exec when told what they may do. On SIGTERM or SIGINT nothing departs any more, what runs may finish, and the rest goes back to\n" +
			"its bucket; a second signal ends it at once.",
		Flags: slices.Concat(flags(), handlerFlags(), natsFlags()),
		Run:   drain,
	}))
}

func flags() []cli.Flag {
	return append([]cli.Flag{
		&cli.StringSliceFlag{Name: "classes", DefaultText: "all", Usage: "drain only these `CLASSES`, separated by commas"},
		&cli.IntFlag{Name: "concurrency", Value: 64, Usage: "attempts that run at once, `NUMBER` over all shards"},
		&cli.DurationFlag{
			Name: "shutdown-timeout", Value: 30 * time.Second,
			Usage: "how long what runs may finish after SIGTERM, before it goes back to its bucket",
		},
		&cli.DurationFlag{
			Name: "freshness", Value: 25 * time.Millisecond,
			Usage: "how long a departure stays good; at least 2 x p99 of the round trip to Redis + 10ms, see admin doctor",
		},
		&cli.BoolFlag{
			Name: "collect", Usage: "show the metrics of the whole installation too, with --ops-addr: on one worker, or a few",
		},
		&cli.StringFlag{
			Name: "secrets-dir", DefaultText: "none",
			Usage: "`DIRECTORY` with one file per secret that headers may name; before it SPOUT_SECRET_..., after it $CREDENTIALS_DIRECTORY",
		},
		&cli.BoolFlag{
			Name:  "proxy-from-environment",
			Usage: "call through the proxy that HTTP_PROXY, HTTPS_PROXY and NO_PROXY name; it must keep private targets off",
		},
	}, ops.Flags()...)
}

func drain(ctx context.Context, s *command.Session) error {
	o, err := options(s)
	if err != nil {
		return err
	}
	calling, err := callOptions(s)
	if err != nil {
		return err
	}
	shown, err := ops.Open(ctx, s, "worker")
	if err != nil {
		return err
	}
	defer shown.Close(ctx)
	calling.Observe = shown.Trace.Request
	client, err := s.Open(ctx)
	if err != nil {
		return err
	}
	if err := checkClasses(ctx, client, o.Classes, s.Log); err != nil {
		return err
	}
	conn, err := connectNATS(ctx, s)
	if err != nil {
		return err
	}
	if conn != nil {
		defer conn.Close()
	}
	jobs, err := newJobs(s, client, calling, conn)
	if err != nil {
		return err
	}
	defer jobs.close()
	o.Observers = append(o.Observers, jobs.observer()) //nolint:contextcheck // callbacks outlive what they tell of
	events, err := tellEvents(ctx, s, client, conn, shown.Registry)
	if err != nil {
		return err
	}
	if events != nil {
		defer events.close()
		o.Observers = append(o.Observers, scheduler.Events(events.tell))
	}
	observe(shown, client, &o, s)
	worker, err := scheduler.New(client, jobs, o)
	if err != nil {
		return err
	}
	shown.Watch(ops.Probes{Live: worker.Live, Ready: worker.Ready})
	recording, stop := context.WithCancel(ctx)
	var recorder sync.WaitGroup
	recorder.Go(func() { client.Record(recording, s.Log) })
	defer recorder.Wait()
	defer stop()
	return worker.Run(ctx)
}

// observe has the worker measured and traced, where somebody asked for it.
func observe(shown *ops.Ops, client *queue.Client, o *scheduler.Options, s *command.Session) {
	if shown.Trace.On() {
		o.Observers = append(o.Observers, shown.Trace.Observer())
	}
	if shown.Registry == nil {
		return
	}
	o.Metrics = scheduler.NewMetrics(shown.Registry, shown.Trace.ID)
	if s.Flags.Bool("collect") {
		shown.Collect(client, s.Log)
	}
}

// callOptions are how http:call reaches services.
func callOptions(s *command.Session) (handlers.HTTPOptions, error) {
	dir := s.Flags.String("secrets-dir")
	if dir != "" {
		if info, err := os.Stat(dir); err != nil {
			return handlers.HTTPOptions{}, s.Wrong("secrets-dir", err)
		} else if !info.IsDir() {
			return handlers.HTTPOptions{}, s.Wrong("secrets-dir", fmt.Errorf("%s is no directory", dir))
		}
	}
	o := handlers.HTTPOptions{
		FreshUntil: scheduler.FreshUntil,
		Secrets: handlers.Secrets{
			Getenv: s.Getenv, Dirs: []string{dir, s.Getenv("CREDENTIALS_DIRECTORY")},
		},
	}
	if s.Flags.Bool("proxy-from-environment") {
		o.Proxy = http.ProxyFromEnvironment
	}
	return o, nil
}

// options are checked here, where it is known which flag is wrong.
func options(s *command.Session) (scheduler.Options, error) {
	o := scheduler.Options{
		Classes:         s.Flags.StringSlice("classes"),
		Concurrency:     s.Flags.Int("concurrency"),
		ShutdownTimeout: s.Flags.Duration("shutdown-timeout"),
		Freshness:       s.Flags.Duration("freshness"),
		Logger:          s.Log,
		Version:         command.Version(),
	}
	switch {
	case o.Concurrency < 1 || o.Concurrency > 10_000:
		return o, s.Wrong("concurrency", fmt.Errorf("%d is not between 1 and 10000", o.Concurrency))
	case o.ShutdownTimeout <= 0:
		return o, s.Wrong("shutdown-timeout", fmt.Errorf("%v is not above zero", o.ShutdownTimeout))
	case o.Freshness < time.Millisecond || o.Freshness > time.Minute:
		return o, s.Wrong("freshness", fmt.Errorf("%v is not between 1ms and 1m", o.Freshness))
	case slices.ContainsFunc(o.Classes, func(c string) bool { return strings.TrimSpace(c) == "" }):
		return o, s.Wrong("classes", errors.New("a name is empty"))
	}
	return o, nil
}

// checkClasses tells of classes that do not exist: they may come later, or be mistyped.
func checkClasses(ctx context.Context, client *queue.Client, classes []string, log *slog.Logger) error {
	for _, name := range classes {
		_, err := client.Classes().Get(ctx, name)
		switch {
		case errors.Is(err, queue.ErrUnknownClass):
			log.LogAttrs(ctx, slog.LevelWarn, "class does not exist yet", slog.String("class", name))
		case err != nil:
			return err
		}
	}
	return nil
}
