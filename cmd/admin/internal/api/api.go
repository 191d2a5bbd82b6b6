// Package api is the HTTP API of the admin: its routes, its problem documents, and the description of both.
//
// Who asks is in the context of a request, see [access.From], and what they may do is the desk's to say. Bodies with a job or a
// class are read by the same parsers as through every other door.
package api

import (
	"cmp"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/queue"
)

// Options of New.
type Options struct {
	// Desk does what is asked for.
	Desk *desk.Desk
	// Base is where the API is mounted, such as /spout; empty is the root. Paths of requests begin with it.
	Base string
	// Version of the program, for the description.
	Version string
	// Log gets what could not be answered.
	Log *slog.Logger
	// Waiters is how many requests may wait for the end of a job at the same time; more are answered at once. Default 1000.
	Waiters int
	// Heartbeat of event streams. Default 15 s.
	Heartbeat time.Duration
}

const (
	defaultWaiters   = 1000
	defaultHeartbeat = 15 * time.Second
)

// server answers the routes.
type server struct {
	desk      *desk.Desk
	client    *queue.Client
	base      string
	log       *slog.Logger
	routes    *router
	huma      huma.API
	rates     *rates
	hub       *hub
	waiters   chan struct{}
	heartbeat time.Duration
}

// New returns the handler of <base>/v1/…, <base>/openapi.json and .yaml, and <base>/docs. It is safe for concurrent use.
func New(o Options) http.Handler {
	if o.Waiters == 0 {
		o.Waiters = defaultWaiters
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = defaultHeartbeat
	}
	routes := newRouter(o.Base)
	s := &server{
		desk: o.Desk, client: o.Desk.Client(), base: o.Base, log: o.Log, routes: routes,
		huma:  huma.NewAPI(configOf(o), routes),
		rates: newRates(o.Desk), hub: newHub(o.Desk.Client(), o.Log), waiters: make(chan struct{}, o.Waiters), heartbeat: o.Heartbeat,
	}
	s.describeSubmit()
	s.describeBatch()
	s.routeJobs()
	s.routeClasses()
	s.routeBuckets()
	s.routeDead()
	s.routeService()
	s.routeChanges()
	s.routeMeter()
	s.routeEvents()
	if err := cmp.Or(s.serveDescription(), s.serveDocs()); err != nil {
		panic(err) // it is made of our types and texts alone: a fault in them, which the first test finds
	}
	return routes
}
