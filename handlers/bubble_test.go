package handlers_test

import (
	"context"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spout-queue/spout/handlers"
)

// slowNet is a network within a synctest bubble: each dial takes its time, and
// then reaches the one service there is.
type slowNet struct {
	mu    sync.Mutex
	took  time.Duration
	err   error // what dials end with, if not nil
	dials int

	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func (n *slowNet) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	n.mu.Lock()
	took, err := n.took, n.err
	n.dials++
	n.mu.Unlock()
	select {
	case <-time.After(took):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	near, far := net.Pipe()
	n.accepted <- far
	return reluctant{near}, nil
}

// reluctant is a connection that lets everybody else go first when it is closed, so
// that what is written at the same time is written.
type reluctant struct{ net.Conn }

func (r reluctant) Close() error {
	for range 100 {
		runtime.Gosched()
	}
	return r.Conn.Close()
}

func (n *slowNet) Accept() (net.Conn, error) {
	select {
	case c := <-n.accepted:
		return c, nil
	case <-n.closed:
		return nil, net.ErrClosed
	}
}

func (n *slowNet) Close() error   { n.once.Do(func() { close(n.closed) }); return nil }
func (n *slowNet) Addr() net.Addr { return &net.TCPAddr{} }

// bubble is what a test in a synctest bubble calls.
type bubble struct {
	*handlers.HTTPCall
	net      *slowNet
	server   *http.Server
	requests atomic.Int64
	finish   func()
}

// newBubble returns a service at http://a.example that takes 100 ms to connect to, and
// an HTTPCall whose departures are good for 25 ms. Its finish must be deferred.
func newBubble() *bubble {
	b := &bubble{net: &slowNet{took: 100 * time.Millisecond, accepted: make(chan net.Conn), closed: make(chan struct{})}}
	b.server = &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { b.requests.Add(1) })}
	b.HTTPCall = handlers.NewTestHTTPCall(handlers.HTTPOptions{FreshUntil: freshFor(25 * time.Millisecond)}, b.net.Dial, nil)
	var wg sync.WaitGroup
	wg.Go(func() { _ = b.server.Serve(b.net) })
	b.finish = func() {
		b.CloseIdleConnections()
		_ = b.server.Close()
		wg.Wait()
	}
	return b
}

// attempt makes one attempt under the context of the test and returns how long it took and its error.
func (b *bubble) attempt(t *testing.T) (time.Duration, error) {
	t.Helper()
	return b.attemptIn(t.Context(), t)
}

func (b *bubble) attemptIn(ctx context.Context, t *testing.T) (time.Duration, error) {
	t.Helper()
	began := time.Now()
	err := b.ProcessTask(ctx, task(t, object{"method": "POST", "url": "http://a.example/x?token=secret", "body": "b"}))
	return time.Since(began), err
}
