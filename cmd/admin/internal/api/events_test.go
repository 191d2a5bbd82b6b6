package api_test

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// hears begins to listen as somebody, and returns what reads the next event: its name and its data.
func (s *site) hears(who, query string) func() (name, data string) {
	t := s.tb
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, "GET", s.server.URL+"/v1/events"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(personHeader, who)
	answer, err := http.DefaultClient.Do(r)
	if err != nil || answer.StatusCode != 200 {
		t.Fatalf("%v, %v", answer, err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	lines := bufio.NewScanner(answer.Body)
	return func() (name, data string) {
		t.Helper()
		for lines.Scan() {
			name = strings.TrimPrefix(lines.Text(), "event: ")
			if name != lines.Text() && lines.Scan() {
				return name, strings.TrimPrefix(lines.Text(), "data: ")
			}
		}
		t.Fatalf("the stream ended: %v", lines.Err())
		return "", ""
	}
}

// Of what workers tell, everybody hears what they asked for and may know, from the moment on when the stream begins.
func TestEventsOfWorkers(t *testing.T) {
	t.Parallel()
	s := realSite(t)
	s.class("calls", 1)
	s.class("other", 1)
	all, dead, bucket, limited := s.hears("viewer", ""), s.hears("viewer", "?what=dead,failed&class=calls"),
		s.hears("viewer", "?class=calls&key=k2"), s.hears("viewer=calls", "")
	told := func(what, class, key string) queue.Event {
		return queue.Event{What: what, At: time.Now(), Class: class, Key: key, ID: "1", Ref: "0-x", Attempt: 2, Error: "why"}
	}
	events := []queue.Event{
		told("started", "other", "k"), told("done", "calls", "k"), told("dead", "other", "k"), told("failed", "calls", "k"), told("held", "calls", "k2"),
	}
	if err := s.client.Tell(t.Context(), events, nil); err != nil {
		t.Fatal(err)
	}
	if err := s.client.Tell(t.Context(), []queue.Event{told("done", "calls", "k2"), told("dead", "calls", "k")}, map[string]int{"other": 7}); err != nil {
		t.Fatal(err)
	}
	expect := func(who string, next func() (string, string), want ...string) {
		t.Helper()
		for _, want := range want {
			if name, data := next(); name != want || who == "limited" && strings.Contains(data, "other") {
				t.Fatalf("%s heard %s %s, want %s", who, name, data, want)
			}
		}
	}
	expect("the dead's", dead, "failed", "dead")
	expect("the bucket's", bucket, "held", "done")
	expect("limited", limited, "done", "failed", "held", "done", "dead")
	expect("all's", all, "started", "done", "dead", "failed", "held", "done", "dead")
	if name, data := all(); name != "missed" || !strings.Contains(data, `"dropped":7`) {
		t.Errorf("heard %s %s of what a worker could not tell", name, data)
	}
	s.ask("operator", "POST", "/v1/jobs", `{"class":"calls","key":"k2","payload":1}`).want(t, 202, nil)
	expect("limited", limited, "admitted") // and nothing of what was missed of others
	s.ask("viewer", "GET", "/v1/events?what=dead,nosuch", "").want(t, 400, map[string]any{"reason": "invalid"})
	if got := s.ask("viewer", "HEAD", "/v1/events", ""); got.status != 200 {
		t.Errorf("HEAD: %d", got.status)
	}
	s.ask("viewer", "GET", "/v1/events?key=k", "").want(t, 400, map[string]any{"reason": "invalid"})
}

// A stream that begins while Redis is away says that it misses something.
func TestEventsAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSite(t, server.Client(t))
	server.Kill()
	if name, data := s.hears("viewer", "")(); name != "missed" || !strings.Contains(data, "Redis") {
		t.Errorf("heard %s %s", name, data)
	}
}
