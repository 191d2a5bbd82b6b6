package main

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spout-queue/spout/internal/natstest"
	"github.com/spout-queue/spout/internal/redistest"
)

// shared is a buffer that connections log to while the command writes: os.Stderr bears that, a bytes.Buffer does not.
type shared struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *shared) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func callBridge(ctx context.Context, redis string, args ...string) (status int, stderr string) {
	var out bytes.Buffer
	var errs shared
	env := func(name string) string { return map[string]string{"SPOUT_REDIS": redis}[name] }
	status = run(ctx, append([]string{"producer", "bridge"}, args...), env, strings.NewReader(""), &out, &errs)
	return status, errs.String()
}

func TestBridgeRefuses(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t).Addr
	broker := natstest.Start(t)
	closed := natstest.Start(t, func(o *server.Options) { o.Authorization = "token" })
	js, err := jetstream.New(broker.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "OTHER", Subjects: []string{"x"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ALL", Subjects: []string{"all.>"}}); err != nil {
		t.Fatal(err)
	}
	deaf := natstest.Start(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "bridge", Password: "x", Permissions: &server.Permissions{
			Subscribe: &server.SubjectPermission{Deny: []string{"spout.v1.submit.*"}},
		}}}
		o.NoAuthUser = "bridge"
	})
	for _, test := range []struct {
		args   []string
		status int
		says   string
	}{
		{[]string{"--no-requests", "--no-stream"}, 64, "nothing to do"},
		{[]string{"--subjects", "a..b"}, 64, "option --subjects"},
		{[]string{"--stream", "a.b"}, 64, "option --stream"},
		{[]string{"--stream-storage", "tape"}, 64, "neither file nor memory"},
		{[]string{"--stream-max-per-key", "0"}, 64, "not between 1 and 100000"},
		{[]string{"--stream-replicas", "6"}, 64, "not between 1 and 5"},
		{[]string{"--request-timeout", "0s"}, 64, "not above zero"},
		{[]string{"--nats", broker.URL, "--nats-context", "x"}, 78, "one will do"},
		{[]string{"--nats-nkey", "/nowhere"}, 78, "nkey seed /nowhere"},
		{[]string{"--nats", closed.URL}, 77, "does not let us in"},
		{[]string{"--nats", broker.URL, "--stream", "OTHER"}, 78, "the stream does not fit"},
		{[]string{"--nats", broker.URL, "--subjects", "all"}, 78, "another stream has some of the subjects all.jobs all.jobs.>"},
		{[]string{"--nats", deaf.URL}, 77, "may not listen"},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
		status, stderr := callBridge(ctx, redis, test.args...)
		cancel()
		if status != test.status || !strings.Contains(stderr, test.says) {
			t.Errorf("%v: exit %d, %s; want %d, %q", test.args, status, stderr, test.status, test.says)
		}
	}
}

// It serves until it is told to stop, and leaves with success.
func TestBridgeRuns(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t).Addr
	broker := natstest.Start(t)
	nc := broker.Client(t)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		status, _ := callBridge(ctx, redis, "--nats", broker.URL, "--events")
		ended <- status
	}()
	for {
		reply, err := nc.Request("spout.v1.submit.nosuch", []byte(`{"key":"k","type":"count","payload":1}`), 10*time.Second)
		if err == nil {
			if code := reply.Header.Get("Nats-Service-Error-Code"); code != "404" {
				t.Errorf("answered with %s", code)
			}
			break
		}
		if err != nats.ErrNoResponders || t.Context().Err() != nil { //nolint:errorlint // that very one
			t.Fatal(err)
		}
	}
	stop()
	if status := <-ended; status != 0 {
		t.Errorf("exit %d", status)
	}
}
