package main

import (
	"bytes"
	"context"
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// update is how the golden help is written anew: go test ./cmd/worker -update.
var update = flag.Bool("update", false, "write the golden help anew")

func nothing(string) string { return "" }

func call(ctx context.Context, env func(string) string, args ...string) (status int, stdout, stderr string) {
	var out, errs bytes.Buffer
	status = run(ctx, append([]string{"worker"}, args...), env, strings.NewReader(""), &out, &errs)
	return status, out.String(), errs.String()
}

func TestHelp(t *testing.T) {
	t.Parallel()
	status, help, _ := call(t.Context(), nothing, "run", "-h")
	if status != 0 {
		t.Fatalf("exit %d", status)
	}
	if *update {
		if err := os.WriteFile("testdata/run-help.txt", []byte(help), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("testdata/run-help.txt")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), help); diff != "" {
		t.Errorf("help has changed; if that is meant, run go test ./cmd/worker -update (-want +got):\n%s", diff)
	}
}

func TestWrongOptions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args   []string
		status int
		says   string
	}{
		{nil, 64, "worker needs a command"},
		{[]string{"start"}, 64, `has no command "start"`},
		{[]string{"run", "extra"}, 64, "takes no arguments"},
		{[]string{"run", "--concurrency", "0"}, 64, "option --concurrency: 0 is not between 1 and 10000"},
		{[]string{"run", "--concurrency", "x"}, 64, "concurrency"},
		{[]string{"run", "--shutdown-timeout", "-1s"}, 64, "option --shutdown-timeout: -1s is not above zero"},
		{[]string{"run", "--freshness", "2m"}, 64, "option --freshness: 2m0s is not between 1ms and 1m"},
		{[]string{"run", "--classes", "a,,b"}, 64, "a name is empty"},
		{[]string{"run", "--secrets-dir", "/nonexistent"}, 64, "option --secrets-dir: stat /nonexistent: no such file"},
		{[]string{"run", "--secrets-dir", "run.go"}, 64, "option --secrets-dir: run.go is no directory"},
		{[]string{"run", "--redis", "http://x"}, 64, "redis"},
		{[]string{"run", "--collect"}, 64, "option --collect: it shows nothing without --ops-addr"},
		{[]string{"run", "--unknown"}, 64, "unknown"},
	} {
		status, _, stderr := call(t.Context(), nothing, test.args...)
		if status != test.status || !strings.Contains(stderr, test.says) {
			t.Errorf("worker %s: exit %d, %q; want %d, %q", strings.Join(test.args, " "), status, stderr, test.status, test.says)
		}
	}
}

func TestRunDrainsUntilStopped(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, err := queue.Open(t.Context(), server.Client(t), queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	class := queue.NewClass("calls", 10, queue.Rate{Limit: 100, Period: time.Second})
	class.HTTP.AllowPrivate = true
	if _, err := client.Classes().Put(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	called := make(chan string, 1)
	upstream := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { called <- r.URL.Path }))
	defer upstream.Close()
	submit := func(typ, payload string) {
		t.Helper()
		job := queue.Job{Class: "calls", Key: "k", Type: typ, Payload: []byte(payload)}
		if _, err := client.Submit(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	submit("mail:send", `{}`)
	submit("", `{"url":"`+upstream.URL+`/hello"}`)

	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	var stderr string
	go func() {
		env := func(name string) string {
			return map[string]string{"SPOUT_REDIS": server.Addr, "SPOUT_CLASSES": "calls,nosuch"}[name]
		}
		status, _, errs := call(ctx, env, "run")
		stderr = errs
		ended <- status
	}()
	if path := <-called; path != "/hello" {
		t.Errorf("called %s", path)
	}
	stop()
	if status := <-ended; status != 0 {
		t.Errorf("exit %d\n%s", status, stderr)
	}
	if !strings.Contains(stderr, "class does not exist yet") {
		t.Errorf("nothing is said of a class that does not exist:\n%s", stderr)
	}
	dead, err := client.Jobs(t.Context(), "calls", "", true, 10)
	if err != nil || len(dead) != 1 || !strings.Contains(dead[0].Error, `no handler for type "mail:send"`) {
		t.Errorf("dead jobs: %+v, %v; want the one of unknown type", dead, err)
	}
}
