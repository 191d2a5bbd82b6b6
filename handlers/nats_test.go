package handlers_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spout-queue/spout/handlers"
)

// startNATS starts a server with JetStream that takes messages of up to 1 KiB.
func startNATS(tb testing.TB) *server.Server {
	tb.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
		JetStream: true, StoreDir: tb.TempDir(), MaxPayload: 1 << 10,
	})
	if err != nil {
		tb.Fatal(err)
	}
	go s.Start()
	tb.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	if !s.ReadyForConnections(time.Minute) {
		tb.Fatal("the NATS server does not start")
	}
	return s
}

func connect(tb testing.TB, s *server.Server) *nats.Conn {
	tb.Helper()
	conn, err := nats.Connect(s.ClientURL(), nats.ReconnectBufSize(-1))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(conn.Close)
	return conn
}

func newPublish(tb testing.TB, o handlers.NATSOptions) *handlers.NATSPublish {
	tb.Helper()
	p, err := handlers.NewNATSPublish(o)
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func natsTask(payload string) *asynq.Task {
	return asynq.NewTaskWithHeaders(handlers.NATSPublishType, []byte(payload), map[string]string{"Spout-Ref": "0-ref"})
}

func TestNATSPublish(t *testing.T) {
	t.Parallel()
	conn := connect(t, startNATS(t))
	sub, err := conn.SubscribeSync("orders.>")
	if err != nil {
		t.Fatal(err)
	}
	p := newPublish(t, handlers.NATSOptions{Conn: conn, Subjects: []string{"x", "orders.*.new"}})
	for _, payload := range []string{
		`{"subject":"orders.7.new","data":"héllo","headers":{"Kind":"a","Content-Type":"text/plain"}}`,
		`{"subject":"orders.8.new","data_base64":"/wA=","headers":null}`,
	} {
		if err := p.ProcessTask(t.Context(), natsTask(payload)); err != nil {
			t.Fatal(err)
		}
	}
	want := []*nats.Msg{
		{Subject: "orders.7.new", Data: []byte("héllo"), Header: nats.Header{
			"Kind": {"a"}, "Content-Type": {"text/plain"}, "Nats-Msg-Id": {"0-ref"},
		}},
		{Subject: "orders.8.new", Data: []byte("\xff\x00"), Header: nats.Header{"Nats-Msg-Id": {"0-ref"}}},
	}
	for _, want := range want {
		got, err := sub.NextMsgWithContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, &nats.Msg{Subject: got.Subject, Data: got.Data, Header: got.Header}, cmp.AllowUnexported(nats.Msg{})); diff != "" {
			t.Error(diff)
		}
	}
}

func TestNATSPublishStoresOnce(t *testing.T) {
	t.Parallel()
	conn := connect(t, startNATS(t))
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	if err != nil {
		t.Fatal(err)
	}
	p := newPublish(t, handlers.NATSOptions{Conn: conn, Subjects: []string{">"}, JetStream: true})
	for range 2 { // as after a crash
		if err := p.ProcessTask(t.Context(), natsTask(`{"subject":"orders.7","data":"x"}`)); err != nil {
			t.Fatal(err)
		}
	}
	info, err := stream.Info(t.Context())
	if err != nil || info.State.Msgs != 1 {
		t.Errorf("%d messages stored, %v; want 1", info.State.Msgs, err)
	}
	err = p.ProcessTask(t.Context(), natsTask(`{"subject":"elsewhere","data":"x"}`))
	if err == nil || errors.Is(err, asynq.SkipRetry) || !strings.Contains(err.Error(), "no stream of JetStream takes this subject") {
		t.Errorf("%v; want an attempt that failed for lack of a stream", err)
	}
}

func TestNATSPublishRefuses(t *testing.T) {
	t.Parallel()
	conn := connect(t, startNATS(t))
	p := newPublish(t, handlers.NATSOptions{Conn: conn, Subjects: []string{"orders.>", "one"}})
	for payload, says := range map[string]string{
		`[]`:                                                            "not a JSON object",
		`{}`:                                                            `field "subject": missing`,
		`{"subject":""}`:                                                "is empty",
		`{"subject":"orders..x"}`:                                       "is empty",
		`{"subject":"orders.*"}`:                                        "wildcard",
		`{"subject":"orders.>"}`:                                        "wildcard",
		`{"subject":"orders.x y"}`:                                      "has a space",
		`{"subject":"orders.x\r\nPUB y 0"}`:                             "has a space or a character that cannot be printed",
		`{"subject":"$SYS.x"}`:                                          "is not for jobs",
		`{"subject":"$JS.API.STREAM.PURGE"}`:                            "is not for jobs",
		`{"subject":"_INBOX.x"}`:                                        "is not for jobs",
		`{"subject":"two"}`:                                             "none of the subjects",
		`{"subject":"orders"}`:                                          "none of the subjects",
		`{"subject":"one.more"}`:                                        "none of the subjects",
		`{"subject":"one","dat":"x"}`:                                   "no such field",
		`{"subject":"one","data":{}}`:                                   "must be a string",
		`{"subject":"one","data_base64":"?"}`:                           "not valid base64",
		`{"subject":"one","data":"","data_base64":""}`:                  "not both",
		`{"subject":"one","headers":{"nats-rollup":"all"}}`:             "for the server",
		`{"subject":"one","headers":{"Nats-Msg-Id":"x"}}`:               "for the server",
		`{"subject":"one","headers":{"a b":"x"}}`:                       "not a valid header name",
		`{"subject":"one","headers":{"A":"x\r\nNats-Rollup: all"}}`:     "control character",
		`{"subject":"one","headers":{"A":null}}`:                        "must be a string",
		`{"subject":"one","data":"` + strings.Repeat("x", 1<<10) + `"}`: "more than the 1024 that the server takes",
	} {
		err := p.ProcessTask(t.Context(), natsTask(payload))
		if !errors.Is(err, asynq.SkipRetry) || !strings.Contains(err.Error(), says) {
			t.Errorf("%.80s: %v, want %q for good", payload, err, says)
		}
	}
}

func TestNATSPublishWhileTheServerIsAway(t *testing.T) {
	t.Parallel()
	s := startNATS(t)
	conn := connect(t, s)
	p := newPublish(t, handlers.NATSOptions{Conn: conn, Subjects: []string{"x"}})
	away := make(chan struct{})
	conn.SetDisconnectErrHandler(func(*nats.Conn, error) { close(away) })
	s.Shutdown()
	<-away
	err := p.ProcessTask(t.Context(), natsTask(`{"subject":"x"}`))
	if err == nil || errors.Is(err, asynq.SkipRetry) || !strings.Contains(err.Error(), "publish to x") {
		t.Errorf("%v; want a failed attempt", err)
	}
}

func TestNATSOptions(t *testing.T) {
	t.Parallel()
	for says, o := range map[string]handlers.NATSOptions{
		"no connection":    {Subjects: []string{"x"}},
		"no subject may":   {Conn: new(nats.Conn)},
		`subject "a.>.b"`:  {Conn: new(nats.Conn), Subjects: []string{"a.>.b"}},
		`subject "orders*`: {Conn: new(nats.Conn), Subjects: []string{"x", "orders*"}},
	} {
		if _, err := handlers.NewNATSPublish(o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}
