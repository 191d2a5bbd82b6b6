package handlers_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"go.uber.org/goleak"

	"github.com/spout-queue/spout/handlers"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// object is a payload, or a part of one.
type object map[string]any

// task returns a task for p in a class that may call private targets.
func task(tb testing.TB, p object) *asynq.Task {
	tb.Helper()
	return taskIn(tb, p, `{"allow_private":true}`)
}

// taskIn returns a task for p in a class with the given Spout-Http header, none
// if it is empty.
func taskIn(tb testing.TB, p object, settings string) *asynq.Task {
	tb.Helper()
	payload, err := json.Marshal(p)
	if err != nil {
		tb.Fatal(err)
	}
	return rawTask(payload, settings)
}

func rawTask(payload []byte, settings string) *asynq.Task {
	headers := map[string]string{"Spout-Class": "shop-api", "Spout-Key": "k"}
	if settings != "" {
		headers["Spout-Http"] = settings
	}
	return asynq.NewTaskWithHeaders(handlers.HTTPCallType, payload, headers)
}

// newCall returns an HTTPCall that leaves no connection behind.
func newCall(tb testing.TB, o handlers.HTTPOptions) *handlers.HTTPCall {
	tb.Helper()
	h := handlers.NewHTTPCall(o)
	tb.Cleanup(h.CloseIdleConnections)
	return h
}

// service is an HTTP server that counts its requests and connections.
type service struct {
	*httptest.Server
	requests, conns atomic.Int64
}

func newService(tb testing.TB, f http.HandlerFunc) *service {
	tb.Helper()
	s := prepareService(tb, f)
	s.Start()
	return s
}

// prepareService returns a service that the test has yet to start.
func prepareService(tb testing.TB, f http.HandlerFunc) *service {
	tb.Helper()
	s := new(service)
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		f(w, r)
	}))
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.conns.Add(1)
		}
	}
	tb.Cleanup(s.Close)
	return s
}

func ok(http.ResponseWriter, *http.Request) {}

// givesBack tells what the scheduler asks an error.
func givesBack(err error) bool {
	var g interface{ GiveBack() bool }
	return errors.As(err, &g) && g.GiveBack()
}

// freshFor returns a FreshUntil that lets each departure be good for d.
func freshFor(d time.Duration) func(context.Context) (time.Time, bool) {
	return func(context.Context) (time.Time, bool) { return time.Now().Add(d), true }
}
