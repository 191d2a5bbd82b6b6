package api_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/api"
	"github.com/spout-queue/spout/queue"
)

const inLines = "application/x-ndjson"

// revived is a line about dead jobs that are sent round.
type revived struct {
	Retried int
	Left    *int
	Before  string
	Ended   bool
	Problem *struct{ Reason, Detail string }
}

// deadIn buries some jobs of one bucket, in a class with fewer places.
func (s *site) deadIn(class string, n, places int) {
	s.tb.Helper()
	change := func(c *queue.Class) { c.Rate = queue.Rate{Limit: 10_000, Period: time.Second} }
	s.class(class, n, change)
	for i := range n {
		if _, err := s.client.Submit(s.tb.Context(), queue.Job{Class: class, Key: "k", ID: fmt.Sprint(i), Payload: []byte("1")}); err != nil {
			s.tb.Fatal(err)
		}
	}
	for dead, deadline := 0, time.Now().Add(time.Minute); dead < n; {
		if time.Now().After(deadline) {
			s.tb.Fatalf("%d have died", dead)
		}
		for shard := range s.client.Shards() {
			dead += s.buryAll(class, s.client.Outlet("undertaker", shard))
		}
	}
	s.class(class, places, change)
}

// Dead jobs go round as there is room, and whoever reads is told how far it is, to the end.
func TestRetryInLines(t *testing.T) {
	t.Parallel()
	s := realSite(t)
	s.deadIn("calls", 5, 2)

	var once revived
	s.ask("operator", "POST", "/v1/dead/retry?class=calls", "", "Accept", inLines).last(t, &once)
	if once.Retried != 2 || *once.Left != 3 || !once.Ended || once.Before == "" {
		t.Errorf("one pass: %+v", once)
	}
	var late revived // nothing leaves: the time is over before all have gone round
	s.ask("operator", "POST", "/v1/dead/retry?class=calls&wait=300ms", "", "Accept", inLines).last(t, &late)
	if late.Retried != 0 || late.Left != nil || !late.Ended {
		t.Errorf("in 300 ms: %+v", late)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, "POST", s.server.URL+"/v1/dead/retry?class=calls&wait=10m", nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set(personHeader, "operator")
	r.Header.Set("Accept", inLines)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	lines := bufio.NewScanner(answer.Body)
	var so revived
	for n := 0; lines.Scan(); n++ {
		if err := json.Unmarshal(lines.Bytes(), &so); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		if n == 0 && so.Ended {
			t.Errorf("the first line is the last: %s", lines.Text())
		}
		if _, err := s.client.Buckets().Purge(ctx, "calls", "k"); err != nil { // there is room again
			t.Fatal(err)
		}
	}
	if so.Retried != 3 || so.Left == nil || *so.Left != 0 || !so.Ended {
		t.Errorf("to the end: %+v, %v", so, lines.Err())
	}

	for query, accept := range map[string]string{"class=calls&wait=1s": "application/json", "class=calls&wait=11m": inLines, "class=calls&wait=x": inLines, "wait=1s": inLines} {
		s.ask("operator", "POST", "/v1/dead/retry?"+query, "", "Accept", accept).want(t, 400, map[string]any{"reason": "invalid"})
	}
	s.ask("operator", "POST", "/v1/dead/retry?class=nosuch", "", "Accept", inLines).want(t, 404, map[string]any{"reason": "unknown_class"})
	s.ask("viewer", "POST", "/v1/dead/retry?class=calls", "", "Accept", inLines).want(t, 403, map[string]any{"reason": "denied"})
}

// last reads the last line of an answer.
func (a said) last(tb testing.TB, to any) {
	tb.Helper()
	lines := strings.Split(strings.TrimSuffix(a.body, "\n"), "\n")
	if err := json.Unmarshal([]byte(lines[len(lines)-1]), to); err != nil || a.status != 200 || a.header.Get("Content-Type") != inLines {
		tb.Fatalf("%d %v %q: %v", a.status, a.header, a.body, err)
	}
}

// late remembers until when an answer may be written.
type late struct {
	*httptest.ResponseRecorder
	until time.Time
}

func (l *late) SetWriteDeadline(at time.Time) error {
	l.until = at
	return nil
}

// An answer that is waited for can still be written when it comes.
func TestLongAnswers(t *testing.T) {
	t.Parallel()
	s := realSite(t)
	s.class("calls", 10, func(c *queue.Class) { c.Retention = time.Hour })
	receipt, err := s.client.Submit(t.Context(), queue.Job{Class: "calls", Key: "k", ID: "1", Payload: []byte("1")})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.Cancel(t.Context(), receipt.Ref); err != nil {
		t.Fatal(err)
	}
	handler := api.New(api.Options{Desk: s.desk})
	ctx := access.With(t.Context(), access.Person{Name: "ann", Role: access.Admin})
	for path, least := range map[string]time.Duration{
		"/v1/jobs/" + receipt.Ref + "/end?wait=60s": time.Minute, "/v1/dead/retry?class=calls": 30 * time.Second, "/v1/audit": 5 * time.Minute,
		"/v1/classes/calls/pause": 5 * time.Minute, "/v1/classes/calls/purge?confirm=0": 5 * time.Minute, "/v1/dead/purge?class=calls&confirm=0": 5 * time.Minute,
	} {
		method := http.MethodPost
		if strings.Contains(path, "end") || strings.Contains(path, "audit") {
			method = http.MethodGet
		}
		w := &late{ResponseRecorder: httptest.NewRecorder()}
		handler.ServeHTTP(w, httptest.NewRequestWithContext(ctx, method, path, nil))
		if w.Code != 200 || time.Until(w.until) < least {
			t.Errorf("%s: %d, to be written within %v, want more than %v: %s", path, w.Code, time.Until(w.until), least, w.Body)
		}
	}
}
