// Package console is the HTTP API and the dashboard of one installation as an [http.Handler], for admin serve and for
// anybody's own server:
//
//	guard, err := access.NewGuard(access.Options{Tokens: tokens, Base: "/spout"})
//	c, err := console.New(console.Options{Client: client, Base: "/spout", Guard: guard, Hosts: []string{"ops.example.com"}})
//	go c.Run(ctx)
//	mux.Handle("/spout/", c)
//
// It looks after its own safety, whatever stands around it: it answers only requests for hosts that it was told of, takes
// no change from another site's page, lets nobody in whom it does not know, bounds what it reads, and forbids browsers
// everything that its pages do not need. [Console.Serve] is a server with the timeouts that belong to it.
package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path"
	"strings"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/live"
	"github.com/spout-queue/spout/queue"
)

// Options of a Console. Client and one of Guard and Authenticate are required.
type Options struct {
	// Client is the installation.
	Client *queue.Client
	// Base is the path that the console is mounted under, empty or like /spout.
	Base string
	// Guard knows who asks, and has the pages to log in by. It has the same Base.
	Guard *access.Guard
	// Authenticate says who asks, where the program around the console knows. Its error is answered with 401, or with 403
	// when it wraps [access.ErrDenied].
	Authenticate func(*http.Request) (access.Person, error)
	// Hosts are the names that browsers and programs reach it by, besides loopback names and the address that
	// they are connected to. A request for another host is refused: its sender was led here by somebody else's DNS.
	Hosts []string
	// Connections is how many Serve has open at once. Defaults to 4,096.
	Connections int
	// Trace begins the span of a submission of one job: it puts the context of the span into the job, whose Trace is by then that of
	// the request, and end is told the answer; nil makes none. Jobs of a batch carry the traceparent of their request.
	Trace func(ctx context.Context, job *queue.Job) (_ context.Context, end func(queue.Receipt, error))
	// NATS tells the dashboard how many messages wait in the stream of jobs; an error says that NATS is away. It is asked while
	// somebody looks; nil where there is none.
	NATS func(context.Context) (waiting uint64, err error)
	// Log gets what fails, and at debug level every request; nil discards it.
	Log *slog.Logger
}

// Console is the handler. Make one with [New]. It is safe for concurrent use.
type Console struct {
	client       *queue.Client
	base         string
	log          *slog.Logger
	hosts        hosts
	authenticate func(*http.Request) (access.Person, error)
	canLogin     bool
	rooms        rooms
	live         *live.Live
	bodies       *semaphore.Weighted
	connections  int
	handler      http.Handler
}

// New returns the console of an installation.
func New(o Options) (*Console, error) {
	switch {
	case o.Client == nil:
		return nil, errors.New("console: Client is missing")
	case (o.Guard == nil) == (o.Authenticate == nil):
		return nil, errors.New("console: one of Guard and Authenticate must say who asks")
	case o.Connections < 0:
		return nil, fmt.Errorf("console: %d connections are none", o.Connections)
	case o.Base != "" && (o.Base[0] != '/' || path.Clean(o.Base) != o.Base || o.Base == "/" || strings.ContainsAny(o.Base, "{}% ")):
		return nil, fmt.Errorf("console: the base %q must be empty or a plain path like /spout", o.Base)
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	allowed, err := newHosts(o.Hosts)
	if err != nil {
		return nil, err
	}
	c := &Console{
		client: o.Client, base: o.Base, log: o.Log, hosts: allowed, authenticate: o.Authenticate, bodies: semaphore.NewWeighted(bodiesMost),
		connections: cmp.Or(o.Connections, connectionsMost),
		canLogin:    logout(o.Guard), live: live.New(o.Client, o.NATS),
	}
	c.rooms = newRooms(o, c.live)
	if o.Guard != nil {
		c.authenticate = o.Guard.Authenticate
	}
	c.handler = c.protect()
	return c, nil
}

// protect puts everything in front of the rooms that a request must pass first, the last one outermost.
func (c *Console) protect() http.Handler {
	var h http.Handler = http.HandlerFunc(c.enter)
	h = c.sameSite(h)
	h = c.rightHost(h)
	h = safeHeaders(h)
	return c.observed(h)
}

// ServeHTTP answers a request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// Run reads what the dashboard shows while somebody looks, and records the history that its charts show, until ctx ends; then it
// stops what the dashboard does in the background, and waits for that. Without it the dashboard stands still.
func (c *Console) Run(ctx context.Context) {
	var recorder sync.WaitGroup
	recorder.Go(func() { c.client.Record(ctx, c.log) })
	c.live.Run(ctx)
	recorder.Wait()
	c.rooms.pages.Close()
}
