package client_test

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/spout-queue/spout/cmd/admin/client"
	"github.com/spout-queue/spout/cmd/internal/wire"
)

// wires is a server that answers as it is told, without a network: so it goes with virtual time.
type wires struct {
	answer func(n int, r *http.Request, body string) (*http.Response, error)

	mu     sync.Mutex
	asked  []*http.Request
	bodies []string
}

// RoundTrip notes a request, n from 1 on, and answers it.
func (s *wires) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.asked, s.bodies = append(s.asked, r), append(s.bodies, string(body))
	n := len(s.asked)
	s.mu.Unlock()
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	reply, err := s.answer(n, r, string(body))
	if reply != nil {
		reply.Request = r
	}
	return reply, err
}

func (s *wires) client(tb testing.TB) *client.Client {
	tb.Helper()
	c, err := client.New("http://127.0.0.1:1/base/", client.Options{Token: "s3cret", HTTPClient: &http.Client{Transport: s}})
	if err != nil {
		tb.Fatal(err)
	}
	return c
}

// says is a server that always gives the same answer.
func says(status int, thing any) *wires {
	return &wires{answer: func(int, *http.Request, string) (*http.Response, error) { return reply(status, thing), nil }}
}

// reply is JSON, and a problem's type where it is one.
func reply(status int, thing any) *http.Response {
	kind := "application/json"
	if _, ok := thing.(wire.Problem); ok {
		kind = "application/problem+json"
	}
	body, err := json.Marshal(thing)
	if err != nil {
		panic(err) // a test's own mistake
	}
	return raw(status, kind, string(body))
}

func raw(status int, kind, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Status: http.StatusText(status), Header: http.Header{"Content-Type": {kind}}, Body: io.NopCloser(strings.NewReader(body)),
	}
}

var (
	errRefused = &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	errReset   = &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}
)

// last is the error of a call that returns something else, too.
func last[T any](_ T, err error) error { return err }
