package handlers

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http/httptrace"
	"sync"
	"time"
)

// start watches over the one moment that a departure is for: the request going
// out. It sees to it that
//
//   - nothing is sent once the departure is no longer good (until), however long
//     the connection takes, and
//   - nothing is sent twice: net/http repeats a request by itself when a reused
//     connection breaks before an answer came, but the service may have seen it.
//     A repetition is let through only when no header had been written.
//
// net/http goes on dialling when a request is cancelled and keeps the connection
// for the next one. So an attempt that is given back here leaves a dial behind, and
// the next attempt to the same service finds the connection ready, unless the dial
// fails or the service closes the unused connection before (see leftovers).
//
// The hooks run on goroutines of net/http; mu guards what they share.
type start struct {
	call   *call
	left   *leftovers
	began  time.Time
	until  time.Time // zero: the departure stays good
	cancel context.CancelCauseFunc

	mu     sync.Mutex
	state  startState
	timer  *time.Timer // runs expire; nil when until is zero
	behind bool        // the attempt ended without waiting for its dial
	err    error       // why the request must not go out; then ctx is cancelled
}

type startState int

const (
	connecting startState = iota // no connection yet, nothing sent
	connected                    // the request may go out
	sent                         // its headers went out
	over                         // the attempt has ended
)

type startKey struct{}

var errRepeated = errors.New("the connection broke after the request was sent and before an answer came; not sent again in this attempt")

// watch begins to watch over c and returns the context to send it with, and the
// watcher, whose end must be called. A zero until is no bound.
func watch(ctx context.Context, c *call, until time.Time, left *leftovers) (context.Context, *start) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &start{call: c, left: left, began: time.Now(), until: until, cancel: cancel}
	if !until.IsZero() {
		s.mu.Lock()
		s.timer = time.AfterFunc(until.Sub(s.began), s.expire)
		s.mu.Unlock()
	}
	ctx = context.WithValue(ctx, startKey{}, s)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GetConn:          s.wantConn,
		GotConn:          s.gotConn,
		WroteHeaders:     s.wroteHeaders,
		TLSHandshakeDone: func(_ tls.ConnectionState, err error) { s.shookHands(err) },
	}), s
}

// end ends the watch, when the attempt is over, and returns why the request had to
// be stopped, or nil.
func (s *start) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state = over
	if s.timer != nil {
		s.timer.Stop()
	}
	s.cancel(nil)
	return s.err
}

// wantConn runs when net/http begins to look for a connection: once, and again
// before each repetition.
func (s *start) wantConn(string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch s.state {
	case sent:
		s.stop(errRepeated)
	case connected:
		s.state = connecting
		if s.timer != nil {
			s.timer.Reset(time.Until(s.until))
		}
	case connecting, over:
	}
}

// gotConn runs just before net/http writes the request. A cancelled context does
// not keep it from writing to an HTTP/1 connection any more, so that is closed.
// This happens only if time ran out in these very microseconds.
func (s *start) gotConn(info httptrace.GotConnInfo) {
	if !s.mayGo() {
		cut(info.Conn)
	}
}

func (s *start) mayGo() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil && time.Now().After(s.until) {
		s.late()
	}
	if s.err != nil {
		return false
	}
	s.state = connected
	if s.timer != nil {
		s.timer.Stop()
	}
	s.left.forget(s.call.addr())
	return true
}

func (s *start) wroteHeaders() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == connected {
		s.state = sent
	}
}

// expire runs when the departure is no longer good.
func (s *start) expire() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.state == connecting {
		s.late()
	}
}

// late decides what becomes of an attempt without a connection in time; mu is held.
// If it were always given back, a service that closes idle connections sooner
// than the bucket departs would never be called, and one that cannot be reached
// would hold the head of the bucket for ever.
func (s *start) late() {
	if s.err != nil {
		return
	}
	addr, wait := s.call.addr(), max(s.until.Sub(s.began).Round(10*time.Microsecond), 0)
	dial, ok := s.left.take(addr)
	switch {
	case ok && dial != nil:
		s.behind = true
		s.stop(fmt.Errorf("connection to %s was not ready within %s, and the one before it failed: %w", addr, wait, dial))
	case ok:
		s.until = time.Time{} // dialling ahead did not help: this attempt waits for its connection
		s.timer.Stop()
		s.timer = nil
	default:
		s.behind = true
		s.stop(&notReadyError{what: s.call.what(), host: addr, wait: wait})
	}
}

// stop keeps the request from going out; mu is held.
func (s *start) stop(err error) {
	if s.err == nil {
		s.err = err
		s.cancel(err)
	}
}

// dialled runs when a dial for this attempt has ended, which may be long after the
// attempt itself.
func (s *start) dialled(err error) {
	if err != nil || s.call.url.Scheme != "https" {
		s.leave(err)
	}
}

// shookHands runs when a TLS handshake for this attempt has ended, likewise.
func (s *start) shookHands(err error) { s.leave(err) }

func (s *start) leave(err error) {
	if errors.Is(err, context.Canceled) {
		return // by CloseIdleConnections: it says nothing about the service
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.behind {
		s.left.put(s.call.addr(), err)
	}
}

// cut makes the next write to conn fail. A TLS connection is closed below TLS,
// where nothing is sent. HTTP/2 carries other requests and heeds the context, so
// its connections are left alone.
func cut(conn net.Conn) {
	if t, ok := conn.(*tls.Conn); ok {
		if t.ConnectionState().NegotiatedProtocol == "h2" {
			return
		}
		conn = t.NetConn()
	}
	_ = conn.Close() // all that matters is that it cannot be written to
}

// leftovers remembers, per host:port, how the last dial that an attempt left
// behind came out, until an attempt is connected in time or takes the outcome into
// account. The zero value is ready; it is safe for concurrent use.
type leftovers struct {
	mu     sync.Mutex
	byAddr map[string]error // nil: connected
}

// maxLeftovers bounds the memory: hosts that are never called again stay in it.
const maxLeftovers = 4096

func (l *leftovers) put(addr string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byAddr == nil {
		l.byAddr = make(map[string]error)
	}
	if len(l.byAddr) >= maxLeftovers {
		for victim := range l.byAddr {
			delete(l.byAddr, victim)
			break
		}
	}
	l.byAddr[addr] = err
}

func (l *leftovers) take(addr string) (err error, ok bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	err, ok = l.byAddr[addr]
	delete(l.byAddr, addr)
	return err, ok
}

func (l *leftovers) forget(addr string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byAddr, addr)
}
