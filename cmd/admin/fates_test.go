package main

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// TestFates follows a job that runs and one that is dead through the commands. Only a worker makes such jobs.
func TestFates(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := redistest.Start(t)
	client, err := queue.Open(ctx, server.Client(t), queue.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Classes().Put(ctx, queue.NewClass("mail", 10, queue.Rate{Limit: 1000, Period: 1e9})); err != nil {
		t.Fatal(err)
	}
	outlet := client.Outlet("w1", 0)
	runs, fails := depart(t, client, outlet, "runs"), depart(t, client, outlet, "fails")
	settle(t, outlet, queue.Verdict{Ref: fails.Ref, Stamp: fails.Stamp, Outcome: queue.Dead, Error: "503 from \x1b upstream"})
	submit(t, client, "waits")

	admin, expect := commands(t, server.Addr)
	expect(0, `"state":"out","admitted_at":`, "job", "get", runs.Ref, "-o", "json")
	expect(0, `"worker":"w1"`, "job", "get", runs.Ref, "-o", "json")
	expect(0, `"attempts":1,"error":"503 from \u001b upstream","ended_at":"`, "job", "get", fails.Ref, "-o", "json")
	expect(0, `error            503 from \x1b upstream`, "job", "get", fails.Ref)
	expect(0, `503 from \x1b upstream`, "job", "ls", "mail/fails", "--state", "dead")
	expect(0, `"ref":"`+fails.Ref+`"`, "job", "ls", "mail", "--state", "dead", "-o", "json")
	if _, out := admin("job", "ls", "mail/runs", "--state", "dead"); out != "" {
		t.Errorf("a bucket without dead jobs lists some:\n%s", out)
	}
	expect(0, `"waiting":1,"out":1}`, "class", "get", "mail", "-o", "json")

	expect(75, "1 jobs wait, 1 run, 1 dead ones are kept; --purge drops", "class", "rm", "mail")
	expect(75, "0 jobs wait, 1 run, 0 dead ones are kept; 1 waiting and 1 dead were dropped; try again when what runs has ended",
		"class", "rm", "mail", "--purge")
	settle(t, outlet, queue.Verdict{Ref: runs.Ref, Stamp: runs.Stamp, Outcome: queue.Done})
	expect(0, "removed class mail, dropped 0 waiting and 0 dead\n", "class", "rm", "mail", "--purge")
}

// commands calls the program, and checks its exit status and that its output has a text.
func commands(t *testing.T, address string) (
	admin func(args ...string) (status int, out string), expect func(status int, text string, args ...string),
) {
	t.Helper()
	admin = func(args ...string) (int, string) {
		t.Helper()
		var b strings.Builder
		env := func(name string) string { return map[string]string{"SPOUT_REDIS": address}[name] }
		return run(context.WithoutCancel(t.Context()), append([]string{"admin"}, args...), env, strings.NewReader(""), &b, &b), b.String()
	}
	return admin, func(status int, text string, args ...string) {
		t.Helper()
		if got, out := admin(args...); got != status || !strings.Contains(out, text) {
			t.Errorf("admin %v: exit %d, want %d, and %q in:\n%s", args, got, status, text, out)
		}
	}
}

// TestLife follows jobs of a class with retention to their ends.
func TestLife(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	server := redistest.Start(t)
	client, err := queue.Open(ctx, server.Client(t), queue.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	class := queue.NewClass("mail", 10, queue.Rate{Limit: 1000, Period: 1e9})
	class.Retention, class.MaxInFlight, class.Retry.Backoff = time.Hour, 2, time.Minute
	if _, err := client.Classes().Put(ctx, class); err != nil {
		t.Fatal(err)
	}
	outlet := client.Outlet("w1", 0)
	_, expect := commands(t, server.Addr)

	done := depart(t, client, outlet, "done")
	expect(0, "\nstate            out\n", "job", "get", done.Ref)
	expect(0, "\ndeparted         20", "job", "get", done.Ref)
	expect(0, "\nout     1\n", "bucket", "get", "mail/done")
	expect(0, `"out":1}`, "bucket", "get", "mail/done", "-o", "json")
	settle(t, outlet, queue.Verdict{
		Ref: done.Ref, Stamp: done.Stamp, Class: "mail", Outcome: queue.Done, Due: done.Due, Started: done.Due.Add(1500 * time.Microsecond),
		Result: []byte("200 OK\x1b"),
	})
	expect(0, "\nstate            done\n", "job", "get", done.Ref)
	expect(0, "\nresult           200 OK\\x1b\n\nATTEMPT  DEPARTED ", "job", "get", done.Ref)
	expect(0, "Z  1.5ms     20", "job", "get", done.Ref)
	expect(0, `"lateness_ms":1.5,`, "job", "get", done.Ref, "-o", "json")
	expect(65, "not found", "job", "cancel", done.Ref)
	expect(65, "not found", "job", "retry", done.Ref)

	out := depart(t, client, outlet, "out")
	expect(0, "job "+out.Ref+" is out and was told to end\n", "job", "cancel", out.Ref)
	expect(0, `{"ref":"`+out.Ref+`","state":"out","cancelling":true}`, "job", "cancel", out.Ref, "-o", "json")
	expect(0, "\nstate            out, told to end\n", "job", "get", out.Ref)
	settle(t, outlet, queue.Verdict{Ref: out.Ref, Stamp: out.Stamp, Class: "mail", Outcome: queue.Stopped, Error: "context canceled"})
	expect(0, "\nstate            cancelled\n", "job", "get", out.Ref)

	again := depart(t, client, outlet, "again")
	settle(t, outlet, queue.Verdict{Ref: again.Ref, Stamp: again.Stamp, Class: "mail", Outcome: queue.Failed, Error: "503"})
	expect(0, "\nstate            later\n", "job", "get", again.Ref)
	expect(0, "  failed   w1      503\n", "job", "get", again.Ref)
	expect(0, "job "+again.Ref+" waited and is gone\n", "job", "cancel", again.Ref)
	expect(0, "\nstate            cancelled\n", "job", "get", again.Ref)
	expect(0, `"line":0,"later":0,"out":0,"dead":0,"moved":0,"balanced":true}`, "audit", "mail", "-o", "json")
}

func submit(t *testing.T, client *queue.Client, key string) string {
	t.Helper()
	receipt, err := client.Submit(t.Context(), queue.Job{Class: "mail", Key: key, Payload: []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	return receipt.Ref
}

// depart submits a job, alone, and takes it out.
func depart(t *testing.T, client *queue.Client, outlet *queue.Outlet, key string) queue.Departure {
	t.Helper()
	ref := submit(t, client, key)
	departures, err := outlet.Depart(t.Context(), queue.Ask{Want: 10})
	if err != nil || len(departures.Jobs) != 1 || departures.Jobs[0].Ref != ref {
		t.Fatalf("job %s did not depart alone: %v, %v", ref, departures, err)
	}
	return departures.Jobs[0]
}

func settle(t *testing.T, outlet *queue.Outlet, verdict queue.Verdict) {
	t.Helper()
	taken, err := outlet.Settle(t.Context(), []queue.Verdict{verdict})
	if diff := cmp.Diff([]bool{true}, taken); err != nil || diff != "" {
		t.Fatalf("settle: %v, %s", err, diff)
	}
}
