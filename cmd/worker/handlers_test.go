package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

func TestWrongHandlerOptions(t *testing.T) {
	t.Parallel()
	redis, broker := redistest.Start(t), startNATS(t)
	env := func(name string) string { return map[string]string{"SPOUT_REDIS": redis.Addr}[name] }
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{"--exec-allow", "sh"}, `option --exec-allow: "sh" is not NAME=PATH`},
		{[]string{"--exec-allow", "sh=bin/sh"}, `option --exec-allow: handlers: program "sh": its path "bin/sh" is not absolute`},
		{[]string{"--exec-allow", "x=/nonexistent"}, `option --exec-allow: handlers: program "x" cannot be run`},
		{[]string{"--exec-args", "sh"}, `option --exec-args: "sh" is not one of --exec-allow`},
		{[]string{"--nats", broker, "--nats-subjects", "a b"}, `option --nats-subjects: handlers: subject "a b"`},
		{[]string{"--nats", broker, "--events", "--subjects", "a b"}, `option --subjects`},
		{[]string{"--events"}, `--events is no use without --nats or --nats-context`},
		{[]string{"--nats-subjects", "a"}, `--nats-subjects is no use without --nats or --nats-context`},
	} {
		status, _, stderr := call(t.Context(), env, append([]string{"run"}, test.args...)...)
		if status != 64 || !strings.Contains(stderr, test.says) {
			t.Errorf("worker run %s: exit %d, %q; want 64, %q", strings.Join(test.args, " "), status, stderr, test.says)
		}
	}
}

// One worker runs jobs of every type.
func TestRunsEveryType(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	client, err := queue.Open(t.Context(), redis.Client(t), queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	class := queue.NewClass("any", 10, queue.Rate{Limit: 1000, Period: time.Second})
	class.Retention = time.Minute
	class.HTTP.AllowPrivate, class.HTTP.Hosts, class.HTTP.Secrets = true, []string{"127.0.0.1"}, []string{"partner-a"}
	if _, err := client.Classes().Put(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	broker := startNATS(t)
	conn, err := nats.Connect(broker)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sub, err := conn.SubscribeSync("news.*")
	if err != nil {
		t.Fatal(err)
	}
	tales, err := conn.SubscribeSync("spout.v1.*.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	hooks := make(chan http.Header, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/hook":
			hooks <- r.Header
		case r.Header.Get("Spout-Attempt") == "1":
			w.Header().Set("Retry-After-Ms", "50")
			w.WriteHeader(http.StatusTooManyRequests)
		}
	}))
	defer upstream.Close()

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan string, 1)
	go func() {
		env := func(name string) string {
			return map[string]string{
				"SPOUT_REDIS":            redis.Addr,
				"SPOUT_SECRET_PARTNER_A": base64.StdEncoding.EncodeToString(make([]byte, 32)),
			}[name]
		}
		_, _, stderr := call(ctx, env, "run", "--exec-allow", "cat=/bin/cat", "--exec-args", "cat",
			"--nats", broker, "--nats-subjects", "news.>", "--events")
		ended <- stderr
	}()
	defer func() {
		stop()
		if stderr := <-ended; t.Failed() {
			t.Log(stderr)
		}
	}()
	done := func(typ string, payload any) []byte {
		t.Helper()
		data, err := json.Marshal(payload)
		if err != nil {
			t.Fatal(err)
		}
		receipt, err := client.Submit(t.Context(), queue.Job{Class: "any", Key: "k", Type: typ, Payload: data})
		if err != nil {
			t.Fatal(err)
		}
		e, err := client.Await(t.Context(), receipt.Ref)
		if err != nil || e.State != queue.Completed {
			t.Fatalf("%s: %+v, %v", typ, e, err)
		}
		return e.Result
	}
	type object = map[string]any

	out := done("exec", object{"name": "cat", "stdin": "hello", "args": []string{"-"}})
	if want := `{"exit":0,"stdout":"hello"}`; string(out) != want {
		t.Errorf("exec: %s, want %s", out, want)
	}
	for _, want := range []string{`event.any.started {"class":"any","key":"k","id":`, `event.any.done {"class":"any"`, `"state":"done","attempt":1,"result":{"exit":0,"stdout":"hello"}}`} {
		m, err := tales.NextMsgWithContext(t.Context())
		if err != nil || !strings.Contains(m.Subject+" "+string(m.Data), want) {
			t.Errorf("told %v, %v; want %s", m, err, want)
		}
	}
	done("nats:publish", object{"subject": "news.today", "data": "rain"})
	if m, err := sub.NextMsgWithContext(t.Context()); err != nil || string(m.Data) != "rain" {
		t.Errorf("nats:publish: %v, %v", m, err)
	}
	done("webhook:send", object{"url": upstream.URL + "/hook", "secret": "partner-a", "body": object{"type": "news"}})
	if diff := cmp.Diff("v1,", (<-hooks).Get("webhook-signature")[:3]); diff != "" {
		t.Error(diff)
	}
	done("http:call", object{"url": upstream.URL})
	checkHeld(t, tales)
}

// checkHeld waits for the event of a hold, which tells why and until when.
func checkHeld(t *testing.T, tales *nats.Subscription) {
	t.Helper()
	for {
		m, err := tales.NextMsgWithContext(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasSuffix(m.Subject, ".held") {
			continue
		}
		var told struct {
			Error string
			Until time.Time
		}
		if err := json.Unmarshal(m.Data, &told); err != nil {
			t.Fatal(err)
		}
		if now := time.Now(); !strings.Contains(told.Error, "429") || told.Until.Before(now.Add(-time.Minute)) || told.Until.After(now.Add(time.Minute)) {
			t.Errorf("told %s", m.Data)
		}
		return
	}
}

// startNATS runs a NATS server and returns its address.
func startNATS(t *testing.T) string {
	t.Helper()
	broker, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	go broker.Start()
	t.Cleanup(func() {
		broker.Shutdown()
		broker.WaitForShutdown()
	})
	if !broker.ReadyForConnections(time.Minute) {
		t.Fatal("the NATS server does not start")
	}
	return broker.ClientURL()
}
