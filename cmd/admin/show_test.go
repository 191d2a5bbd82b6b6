package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/queue"
)

func at(seconds int, micros int) time.Time {
	return time.Date(2026, 1, 1, 0, 0, seconds, micros*1000, time.UTC)
}

func TestShowJob(t *testing.T) {
	t.Parallel()
	job := queue.JobState{
		Ref: "0-x", Class: "mail", Key: "k", ID: "1", Type: "http:call", State: queue.Completed, Payload: []byte(`{"n":1}`),
		AdmittedAt: at(0, 0), EstimatedStart: at(2, 0), Attempts: 3, EndedAt: at(30, 500), Result: []byte("200 OK\nhello"),
		History: []queue.Attempt{
			{
				Number: 1, Outcome: "failed", Departed: at(2, 300), Due: at(2, 0), Started: at(2, 1500), Ended: at(3, 0), Worker: "w1",
				Error: "503 from \x1b upstream",
			},
			{Number: 2, Outcome: "crashed", Departed: at(10, 0), Due: at(10, 0), Ended: at(20, 0), Worker: "w1"},
			{Number: 3, Outcome: "done", Departed: at(22, 10), Due: at(22, 0), Started: at(22, 900), Ended: at(30, 500), Worker: "w2"},
		},
	}
	var b strings.Builder
	if err := showJob(answer.NewPrinter(&b, false), job, ""); err != nil {
		t.Fatal(err)
	}
	want := `ref              0-x
bucket           mail/k
id               1
type             http:call
state            done
admitted         2026-01-01T00:00:00.000000Z
estimated start  2026-01-01T00:00:02.000000Z
attempts         3
ended            2026-01-01T00:00:30.000500Z
payload          {"n":1}
result           200 OK\nhello

ATTEMPT  DEPARTED                     LATENESS  STARTED                      ENDED                        OUTCOME  WORKER  ERROR
1        2026-01-01T00:00:02.000300Z  1.5ms     2026-01-01T00:00:02.001500Z  2026-01-01T00:00:03.000000Z  failed   w1      503 from \x1b upstream
2        2026-01-01T00:00:10.000000Z                                         2026-01-01T00:00:20.000000Z  crashed  w1
3        2026-01-01T00:00:22.000010Z  900µs     2026-01-01T00:00:22.000900Z  2026-01-01T00:00:30.000500Z  done     w2
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}

	job.State, job.Cancelling, job.Result = queue.Out, true, nil
	job.History = job.History[1:]
	b.Reset()
	if err := showJob(answer.NewPrinter(&b, false), job, ""); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\nstate            out, told to end\n", "\n\nthe first 1 attempts are not kept\nATTEMPT "} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in:\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := showJob(answer.NewPrinter(&b, true), job, ""); err != nil || strings.Count(b.String(), "\n") != 1 || !json.Valid([]byte(b.String())) {
		t.Errorf("a program reads\n%s%v", b.String(), err)
	}
}

func TestShowAccounts(t *testing.T) {
	t.Parallel()
	accounts := []account{
		{queue.Account{Class: "mail", Shard: 0, Line: 12, Later: 3, Out: 4, Dead: 1000}, true},
		{queue.Account{
			Class: "mail", Shard: 1, Line: 7,
			Off: []string{"the books say 8 jobs wait, there are 7", "the books say 1 jobs are out, there are 0"},
		}, false},
		{queue.Account{Class: "sms", Shard: 0, Moved: 5}, true},
	}
	var people, program strings.Builder
	for w, asJSON := range map[*strings.Builder]bool{&people: false, &program: true} {
		if err := showAccounts(answer.NewPrinter(w, asJSON), accounts); err != nil {
			t.Error(err)
		}
	}
	want := `CLASS  SHARD  LINE  LATER  OUT  DEAD  RESULT
mail   0      12    3      4    1000  ok
mail   1      7     0      0    0     OFF
  the books say 8 jobs wait, there are 7
  the books say 1 jobs are out, there are 0
sms    0      0     0      0    0     ok, counted while 5 jobs moved
`
	if diff := cmp.Diff(want, people.String()); diff != "" {
		t.Error(diff)
	}
	lines := strings.Split(strings.TrimSuffix(program.String(), "\n"), "\n")
	if len(lines) != 3 || !strings.HasPrefix(lines[0], `{"class":"mail","shard":0,"books":{`) || !strings.HasSuffix(lines[0], `,"balanced":true}`) ||
		!strings.HasSuffix(lines[1], `"off":["the books say 8 jobs wait, there are 7","the books say 1 jobs are out, there are 0"],"balanced":false}`) {
		t.Errorf("a program reads\n%s", program.String())
	}
}

func TestBucketStatus(t *testing.T) {
	t.Parallel()
	for want, b := range map[string]queue.Bucket{
		"open":                                   {},
		"paused":                                 {Paused: true},
		"draining":                               {Draining: true},
		"held until 2026-01-01T00:00:05.000000Z": {Hold: at(5, 0)},
		"held until 2026-01-01T00:00:05.000000Z by POST http://a: answered 429": {Hold: at(5, 0), HoldReason: "POST http://a: answered 429"},
		"paused, draining, held until 2026-01-01T00:00:05.000000Z, sick: why": {
			Paused: true, Draining: true, Hold: at(5, 0), Sick: "why",
		},
	} {
		if got := bucketStatus(b); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestBucketRate(t *testing.T) {
	t.Parallel()
	b := queue.Bucket{Rate: queue.Rate{Limit: 5, Period: time.Second}}
	if got := bucketRate(b); got != "5/1s" {
		t.Error(got)
	}
	b.Adapted = &queue.Adapted{Now: 0.7, Sustained: 0.76}
	if got := bucketRate(b); got != "5/1s, now 3.5, sustained 3.8" {
		t.Error(got)
	}
}

func TestBucketColumns(t *testing.T) {
	t.Parallel()
	bounded, unbounded := queue.Bucket{Class: "c", Key: "a", Out: 0}, queue.Bucket{Class: "c", Key: "b", Out: -1}
	for _, test := range []struct {
		buckets []queue.Bucket
		want    string
	}{
		{[]queue.Bucket{unbounded}, "BUCKET  LEVEL   LINE  LATER  RATE  DUE  STATE\nc/b     0 of 0  0     0      0/0s       open\n"},
		{
			[]queue.Bucket{bounded, unbounded},
			"BUCKET  LEVEL   LINE  LATER  OUT  RATE  DUE  STATE\n" +
				"c/a     0 of 0  0     0      0    0/0s       open\n" +
				"c/b     0 of 0  0     0           0/0s       open\n",
		},
	} {
		var b strings.Builder
		err := answer.List(answer.NewPrinter(&b, false), test.buckets, bucketColumns(test.buckets...)...)
		if diff := cmp.Diff(test.want, b.String()); err != nil || diff != "" {
			t.Errorf("%v %s", err, diff)
		}
	}
}
