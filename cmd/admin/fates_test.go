package main

import (
	"context"
	"strings"
	"testing"

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

	admin := func(args ...string) (status int, out string) {
		t.Helper()
		var b strings.Builder
		env := func(name string) string { return map[string]string{"SPOUT_REDIS": server.Addr}[name] }
		return run(context.WithoutCancel(ctx), append([]string{"admin"}, args...), env, strings.NewReader(""), &b, &b), b.String()
	}
	expect := func(status int, text string, args ...string) {
		t.Helper()
		if got, out := admin(args...); got != status || !strings.Contains(out, text) {
			t.Errorf("admin %v: exit %d, want %d, and %q in:\n%s", args, got, status, text, out)
		}
	}
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
