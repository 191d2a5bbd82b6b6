// Package natstest gives tests a NATS server of their own, in the process of the test: with JetStream in a temporary
// directory, on a loopback port picked at random (below those that the system gives out: a client that redials a stopped
// server can take the server's port there), and ended with the test. It can be stopped and started again on the
// same port and directory. Production code must not import this package.
package natstest

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
)

// Server is one embedded nats-server.
type Server struct {
	URL string

	tb      testing.TB
	options *server.Options
	running *server.Server
}

// startTime is how long a server may take until it serves.
const startTime = 30 * time.Second

// MaxPayload of the server: more than a message of 2 MB.
const MaxPayload = 4 << 20

// Start starts a server. The functions may change its options first.
func Start(tb testing.TB, change ...func(*server.Options)) *Server {
	tb.Helper()
	s := &Server{tb: tb, options: &server.Options{
		Host: "127.0.0.1", JetStream: true, StoreDir: tb.TempDir(), MaxPayload: MaxPayload,
		NoLog: true, NoSigs: true,
	}}
	for _, f := range change {
		f(s.options)
	}
	s.run()
	tb.Cleanup(s.Stop)
	return s
}

// Stop ends the server. Stopping it twice is fine.
func (s *Server) Stop() {
	s.running.Shutdown()
	s.running.WaitForShutdown()
}

// Restart stops the server and starts it again, on the same port and directory.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Stop()
	s.run()
}

func (s *Server) run() {
	s.tb.Helper()
	var err error
	for deadline := time.Now().Add(startTime); time.Now().Before(deadline); {
		if s.URL == "" {
			s.options.Port = 10000 + rand.IntN(12768) //nolint:gosec // no secret
		}
		if s.running, err = server.NewServer(s.options.Clone()); err != nil {
			s.tb.Fatalf("nats-server: %v", err)
		}
		s.running.Start()
		if s.running.ReadyForConnections(startTime / 10) {
			break
		}
		s.Stop()
	}
	if !s.running.Running() {
		s.tb.Fatal("nats-server does not serve")
	}
	if s.URL == "" { // it stays
		s.URL = s.running.ClientURL()
	}
}

// Client returns a connection of its own, closed at the end of tb.
func (s *Server) Client(tb testing.TB, options ...nats.Option) *nats.Conn {
	tb.Helper()
	nc, err := nats.Connect(s.URL, append([]nats.Option{nats.MaxReconnects(-1), nats.ReconnectWait(20 * time.Millisecond)}, options...)...)
	if err != nil {
		tb.Fatalf("connect to the embedded nats-server: %v", err)
	}
	tb.Cleanup(nc.Close)
	return nc
}

// Await waits until a connection that was lost is made again.
func Await(tb testing.TB, nc *nats.Conn) {
	tb.Helper()
	deadline := time.Now().Add(startTime)
	for nc.FlushTimeout(time.Second) != nil {
		if time.Now().After(deadline) {
			tb.Fatalf("not connected to nats again: %v", nc.LastError())
		}
	}
}
