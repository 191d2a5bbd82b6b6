package bridge_test

import (
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/cmd/internal/bridge"
	"github.com/spout-queue/spout/cmd/internal/natsconn"
)

// wire is a network between a client and a NATS server that can lose what the server says, and break.
type wire struct {
	url  string
	deaf atomic.Bool

	mu    sync.Mutex
	ended bool
	conns []net.Conn
}

func newWire(t *testing.T, to string) *wire {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w := &wire{url: "nats://" + l.Addr().String()}
	var all sync.WaitGroup
	t.Cleanup(func() {
		w.mu.Lock()
		w.ended = true
		w.mu.Unlock()
		_ = l.Close()
		w.cut()
		all.Wait()
	})
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", strings.TrimPrefix(to, "nats://"))
			if err != nil {
				_ = client.Close()
				continue
			}
			w.add(client, server)
			all.Go(func() { _, _ = io.Copy(server, client); _ = server.Close() })
			all.Go(func() { w.hear(client, server); _ = client.Close() })
		}
	})
	return w
}

// hear passes on what the server says, unless the wire is deaf.
func (w *wire) hear(client io.Writer, server io.Reader) {
	b := make([]byte, 4096)
	for {
		n, err := server.Read(b)
		if err != nil {
			return
		}
		if w.deaf.Load() {
			continue
		}
		if _, err := client.Write(b[:n]); err != nil {
			return
		}
	}
}

func (w *wire) add(conns ...net.Conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.conns = append(w.conns, conns...); w.ended {
		w.close()
	}
}

// cut breaks all connections. Those that are made afterwards hear.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.close()
	w.deaf.Store(false)
}

func (w *wire) close() {
	for _, c := range w.conns {
		_ = c.Close()
	}
	w.conns = nil
}

// What NATS sent and the bridge never got is not overtaken by what comes after it.
func TestLostDeliveries(t *testing.T) {
	t.Parallel()
	s := newSite(t, class("calls", 100))
	w := newWire(t, s.nats.URL)
	s.bridge(func(o *bridge.Options) {
		o.NATS.Close()
		conn, err := natsconn.Connect(t.Context(), natsconn.Options{URL: w.url, Log: o.Log})
		if err != nil {
			t.Fatal(err)
		}
		o.NATS = conn
		t.Cleanup(conn.Close)
	})
	s.publish("calls", "k", "0")
	until(t, "the first is admitted", func() bool { return s.left() == 0 })
	w.deaf.Store(true)
	s.publish("calls", "k", "1")
	s.publish("calls", "k", "2")
	until(t, "they are on their way", func() bool { return s.underWay("calls") == 2 })
	w.cut()
	for _, id := range numbers(10)[3:] {
		s.publish("calls", "k", id)
	}
	until(t, "all are admitted", func() bool { return s.left() == 0 })
	if diff := cmp.Diff(numbers(10), s.ids("calls", "k")); diff != "" {
		t.Error(diff)
	}
}

// underWay is how many messages of a class were delivered and are not acknowledged.
func (s *site) underWay(class string) int {
	consumer, err := s.js.Consumer(s.tb.Context(), s.config.Name, s.carrier()+"-"+class)
	if err != nil {
		return -1
	}
	return consumer.CachedInfo().NumAckPending
}
