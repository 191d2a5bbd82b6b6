package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/natsconn"
	"github.com/spout-queue/spout/handlers"
	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// handlerFlags are about types of jobs beside http:call.
func handlerFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringSliceFlag{Name: "exec-allow", Usage: "run jobs of type exec, for the program `NAME=PATH`; repeatable"},
		&cli.StringSliceFlag{Name: "exec-args", Usage: "programs of --exec-allow that take arguments from jobs: `NAMES`, separated by commas"},
	}
}

// jobs are the handlers of all types that this worker runs.
type jobs struct {
	*handlers.Mux
	callbacks *handlers.Callbacks
	telling   sync.WaitGroup // callbacks of dead jobs under way
	close     func()         // what the handlers hold open
}

func newJobs(s *command.Session, client *queue.Client, calling handlers.HTTPOptions, conn *natsconn.Conn) (*jobs, error) {
	call := handlers.NewHTTPCall(calling)
	mux := handlers.NewMux()
	callbacks := handlers.NewCallbacks(call, submitTo(client), s.Log)
	mux.Handle(handlers.HTTPCallType, callbacks)
	mux.Handle(handlers.WebhookType, handlers.NewWebhook(call, calling.Secrets.Lookup))
	if err := addExec(mux, s); err != nil {
		return nil, err
	}
	if err := addPublish(mux, s, conn); err != nil {
		return nil, err
	}
	j := &jobs{Mux: mux, callbacks: callbacks}
	j.close = func() {
		j.telling.Wait()
		call.CloseIdleConnections()
	}
	return j, nil
}

// observer has the callbacks of dead jobs submitted, beside everything else: one may wait for room.
func (j *jobs) observer() scheduler.Observer {
	return scheduler.Observer{Buried: func(a *scheduler.Attempt, why string) {
		if a.Type == handlers.HTTPCallType {
			j.telling.Go(func() { j.callbacks.Dead(context.Background(), a.Headers(), a.Payload, why) })
		}
	}}
}

// submitTo submits the jobs that handlers make. A job of the same identity that has another text is there already: a
// callback of an attempt that ran twice tells its own time.
func submitTo(client *queue.Client) func(context.Context, handlers.Job) (string, error) {
	return func(ctx context.Context, j handlers.Job) (string, error) {
		receipt, err := client.Submit(ctx, queue.Job{
			Class: j.Class, Key: j.Key, ID: j.ID, Type: j.Type, Payload: j.Payload, MaxWait: j.MaxWait,
		})
		if errors.Is(err, queue.ErrConflict) {
			err = nil
		}
		if full, ok := errors.AsType[*queue.FullError](err); ok {
			err = &handlers.RejectedError{Err: err, After: full.RetryAfter, Late: full.Reason == queue.ReasonWouldExpire}
		}
		return receipt.Ref, err
	}
}

// addExec adds exec, if there are programs to run.
func addExec(mux *handlers.Mux, s *command.Session) error {
	programs := map[string]handlers.Program{}
	for _, entry := range s.Flags.StringSlice("exec-allow") {
		name, path, ok := strings.Cut(entry, "=")
		if !ok || name == "" {
			return s.Wrong("exec-allow", fmt.Errorf("%q is not NAME=PATH", entry))
		}
		programs[name] = handlers.Program{Path: path}
	}
	for _, name := range s.Flags.StringSlice("exec-args") {
		p, ok := programs[name]
		if !ok {
			return s.Wrong("exec-args", fmt.Errorf("%q is not one of --exec-allow", name))
		}
		p.JobArgs = true
		programs[name] = p
	}
	if len(programs) == 0 {
		return nil
	}
	h, err := handlers.NewExec(programs)
	if err != nil {
		return s.Wrong("exec-allow", err)
	}
	mux.Handle(handlers.ExecType, h)
	return nil
}
