package main

import (
	"context"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/events"
	"github.com/spout-queue/spout/cmd/internal/exit"
	"github.com/spout-queue/spout/cmd/internal/jobstream"
	"github.com/spout-queue/spout/cmd/internal/natsconn"
	"github.com/spout-queue/spout/handlers"
	"github.com/spout-queue/spout/queue"
)

// natsFlags are about NATS, which a worker has no use for unless told where it is.
func natsFlags() []cli.Flag {
	return slices.Concat(natsconn.Flags("none"), []cli.Flag{
		&cli.StringSliceFlag{Name: "nats-subjects", Usage: "run jobs of type nats:publish, which may publish to these `SUBJECTS` or patterns such as orders.>, separated by commas"},
		&cli.BoolFlag{Name: "nats-jetstream", Usage: "publish to JetStream: a job is done when a stream has the message"},
		&cli.BoolFlag{Name: "events", Usage: "tell on <prefix>.event.<class>.<what> what becomes of jobs, and on <prefix>.result.<id> how they ended"},
		&cli.StringFlag{Name: "subjects", Value: jobstream.DefaultPrefix, Usage: "`PREFIX` of the subjects of --events"},
	})
}

// connectNATS connects where somebody said where to; nil where not.
func connectNATS(ctx context.Context, s *command.Session) (*natsconn.Conn, error) {
	f := s.Flags
	if f.String("nats") == "" && f.String("nats-context") == "" {
		for _, name := range []string{"nats-subjects", "nats-jetstream", "events"} {
			if f.IsSet(name) {
				return nil, exit.Usagef("--%s is no use without --nats or --nats-context", name)
			}
		}
		return nil, nil //nolint:nilnil // nobody asked for it
	}
	o := natsconn.FromFlags(s, "spout-worker")
	o.Unbuffered = true // what fails here must not go out later all the same
	conn, err := natsconn.Connect(ctx, o)
	return conn, natsconn.Blame(err)
}

// addPublish adds nats:publish, if there is something that jobs may publish to.
func addPublish(mux *handlers.Mux, s *command.Session, conn *natsconn.Conn) error {
	subjects := s.Flags.StringSlice("nats-subjects")
	if conn == nil || len(subjects) == 0 {
		return nil
	}
	h, err := handlers.NewNATSPublish(handlers.NATSOptions{
		Conn: conn.Conn, Subjects: subjects, JetStream: s.Flags.Bool("nats-jetstream"),
	})
	if err != nil {
		return s.Wrong("nats-subjects", err)
	}
	mux.Handle(handlers.NATSPublishType, h)
	return nil
}

// told publishes what becomes of jobs.
type told struct {
	publisher *events.Publisher
	stop      context.CancelFunc
	sending   sync.WaitGroup
}

// tellEvents begins to tell, if that is asked for; nil when not.
func tellEvents(ctx context.Context, s *command.Session, client *queue.Client, conn *natsconn.Conn, reg *prometheus.Registry) (*told, error) {
	if conn == nil || !s.Flags.Bool("events") {
		return nil, nil //nolint:nilnil // nobody asked for it
	}
	subjects := jobstream.Subjects(s.Flags.String("subjects"))
	if err := subjects.Validate(); err != nil {
		return nil, s.Wrong("subjects", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx)) // until the last attempt has ended, see close
	t := &told{publisher: events.New(conn, subjects, "spout/worker"), stop: cancel}
	if reg != nil {
		reg.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "spout_events_dropped_total", Help: "Events for NATS that were dropped, since NATS or this process could not keep up.",
		}, func() float64 { return float64(t.publisher.Dropped()) }))
	}
	t.sending.Go(func() { t.publisher.Run(ctx) })
	t.sending.Go(func() { _ = client.WaitingEnds(ctx, t.waitingEnd) }) // ends with ctx
	return t, nil
}

// close sends what is left.
func (t *told) close() {
	if t != nil {
		t.stop()
		t.sending.Wait()
	}
}

// waitingEnd tells of a job that ended while it waited. One that is purged is the operator's business.
func (t *told) waitingEnd(e queue.WaitingEnd) {
	what, ok := map[queue.State]string{
		queue.Expired: events.Expired, queue.Cancelled: events.Cancelled, queue.Dropped: events.Dropped,
	}[e.State]
	if ok {
		t.publisher.Publish(events.Event{What: what, Class: e.Class, Key: e.Key, ID: e.ID, Ref: e.Ref})
	}
}

// tell publishes what becomes of a job that a worker has, or had.
func (t *told) tell(e queue.Event, result []byte) {
	t.publisher.Publish(events.Event{
		What: e.What, Class: e.Class, Key: e.Key, ID: e.ID, Ref: e.Ref, Attempt: e.Attempt, Error: e.Error, Until: e.Until, WholeClass: e.WholeClass,
		Result: result,
	})
}
