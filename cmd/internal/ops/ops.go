// Package ops shows the operator what a long-running program does: metrics, health and, where that is allowed, profiles and
// the log level on an address of its own; readiness and a watchdog to systemd; traces to where the standard OpenTelemetry
// variables say. None of it is there unless asked for.
package ops

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/exit"
	"github.com/spout-queue/spout/cmd/internal/tracing"
	"github.com/spout-queue/spout/queue"
)

// Flags are those of every long-running command.
func Flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{
			Name: "ops-addr", DefaultText: "none",
			Usage: "`HOST:PORT` for /metrics, /livez and /readyz; on a loopback host for /debug/pprof and /loglevel too",
		},
		&cli.BoolFlag{Name: "ops-debug", Usage: "serve /debug/pprof and /loglevel on any host: profiles show what jobs hold"},
	}
}

// Ops is what one program shows of itself. Make one with [Open], and close it.
type Ops struct {
	// Registry is where the program's metrics belong; nil when nobody asked for them.
	Registry *prometheus.Registry
	// Trace follows jobs; it is off unless the standard variables turn it on.
	Trace *tracing.Tracing

	log    *slog.Logger
	server *server
	probes atomic.Pointer[Probes]
	notify func()
}

// Probes tell how a program is.
type Probes struct {
	// Live fails when only a new process helps.
	Live func() error
	// Ready fails while the program cannot do its work.
	Ready func() error
}

var errStarting = errors.New("starting")

// Open begins to serve, so that a program that waits for Redis is seen to be live and not ready.
func Open(ctx context.Context, s *command.Session, program string) (*Ops, error) {
	addr := s.Flags.String("ops-addr")
	if addr == "" && s.Flags.Bool("collect") { // only workers have it
		return nil, s.Wrong("collect", errors.New("it shows nothing without --ops-addr"))
	}
	traced, err := tracing.Open(ctx, s.Getenv, program, s.Log)
	if err != nil {
		return nil, &exit.Error{Status: exit.Config, Err: err}
	}
	o := &Ops{log: s.Log, notify: func() {}, Trace: traced}
	if addr != "" {
		o.Registry = newRegistry(program)
		if o.server, err = listen(ctx, addr, s.Flags.Bool("ops-debug"), o, s.Level); err != nil {
			return nil, s.Wrong("ops-addr", err)
		}
		s.Metrics = queue.NewMetrics(o.Registry)
	}
	o.notify = notify(ctx, o, s.Log)
	return o, nil
}

// Watch passes on how the program is from now on.
func (o *Ops) Watch(p Probes) { o.probes.Store(&p) }

// Live tells whether the process is of use.
func (o *Ops) Live() error {
	p := o.probes.Load()
	if p == nil || p.Live == nil {
		return nil
	}
	return p.Live()
}

// Ready tells whether the program does its work.
func (o *Ops) Ready() error {
	p := o.probes.Load()
	switch {
	case p == nil:
		return errStarting
	case p.Ready == nil:
		return nil
	}
	return p.Ready()
}

// Addr is where it listens, empty when it does not.
func (o *Ops) Addr() string {
	if o.server == nil {
		return ""
	}
	return o.server.addr
}

// Close ends all that Open began, also when ctx has ended.
func (o *Ops) Close(ctx context.Context) {
	o.notify()
	if err := o.Trace.Close(ctx); err != nil {
		o.log.LogAttrs(ctx, slog.LevelWarn, "the last traces could not be sent", slog.Any("error", err))
	}
	if o.server != nil {
		if err := o.server.close(ctx); err != nil {
			o.log.LogAttrs(ctx, slog.LevelWarn, "ops address did not close", slog.Any("error", err))
		}
	}
}
