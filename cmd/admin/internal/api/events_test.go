package api_test

import (
	"bufio"
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/api"
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

func TestEvents(t *testing.T) {
	t.Parallel()
	s := realSite(t)
	s.class("calls", 1)
	s.class("other", 1)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "GET", s.server.URL+"/v1/events?class=calls", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(personHeader, "viewer")
	r.Header.Set("Last-Event-ID", "7")
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	if answer.StatusCode != 200 || answer.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d %v", answer.StatusCode, answer.Header)
	}
	for s.rdb.PubSubNumSub(ctx, "{spout:0}:ends").Val()["{spout:0}:ends"] == 0 {
		if ctx.Err() != nil {
			t.Fatal("nobody listens to ends")
		}
	}
	s.ask("operator", "POST", "/v1/jobs", `{"class":"other","key":"k","payload":1}`)
	for _, who := range []string{"viewer", "operator=other"} { // who may not submit makes no noise
		s.ask(who, "POST", "/v1/jobs", `{"class":"calls","key":"k","id":"0","payload":1}`)
	}
	first := s.ask("operator", "POST", "/v1/jobs", `{"class":"calls","key":"k","id":"1","payload":1}`)
	s.ask("operator", "POST", "/v1/jobs/batch", `{"jobs":[{"class":"calls","key":"k","id":"2","payload":1}]}`)
	s.ask("operator", "POST", "/v1/jobs", `{"class":"calls","key":"`+strings.Repeat("k", 60<<10)+`","payload":1}`).want(t, 400, nil)
	s.ask("operator", "POST", first.header.Get("Location")+"/cancel", "")
	want := []string{"missed", "admitted", "rejected", "rejected", "cancelled"}
	lines := bufio.NewScanner(answer.Body)
	beats := 0
	for len(want) > 0 && lines.Scan() {
		switch name, found := strings.CutPrefix(lines.Text(), "event: "); {
		case lines.Text() == ":":
			beats++
		case found && name != want[0]:
			t.Fatalf("heard %s, want %v", name, want)
		case len(lines.Text()) > 1000:
			t.Errorf("a line of %d bytes", len(lines.Text()))
		case found:
			want = want[1:]
		}
	}
	for beats == 0 && lines.Scan() {
		if lines.Text() == ":" {
			beats++
		}
	}
	if len(want) > 0 || beats == 0 {
		t.Errorf("not heard: %v, %d beats", want, beats)
	}
}

// beats notes until when what is written may take, and ends the request with a comment that keeps the connection alive.
type beats struct {
	*httptest.ResponseRecorder
	untils []time.Time
	end    context.CancelFunc
}

func (b *beats) SetWriteDeadline(at time.Time) error {
	b.untils = append(b.untils, at)
	return nil
}

func (b *beats) Write(text []byte) (int, error) {
	if strings.Contains(string(text), ":\n\n") {
		b.end()
	}
	return b.ResponseRecorder.Write(text)
}

// Writing is bounded, and a stream on which nothing happens is not: HTTP/2 would end it.
func TestEventsRest(t *testing.T) {
	t.Parallel()
	s := newSite(t, mini(t))
	ctx, end := context.WithCancel(access.With(t.Context(), access.Person{Name: "ann", Role: access.Viewer}))
	defer end()
	w := &beats{ResponseRecorder: httptest.NewRecorder(), end: end}
	handler := api.New(api.Options{Desk: s.desk, Heartbeat: time.Millisecond})
	handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, http.MethodGet, "/v1/events", nil))
	if n := len(w.untils); w.Code != 200 || n < 4 || w.untils[n-2].IsZero() || !w.untils[n-1].IsZero() {
		t.Errorf("%d, to be written until %v", w.Code, w.untils)
	}
}
