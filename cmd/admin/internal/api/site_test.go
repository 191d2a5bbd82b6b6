package api_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/api"
	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// site is an API with a store of its own. Who asks says so in a header, as whoever stands in front of the API has found out.
type site struct {
	tb       testing.TB
	rdb      *redis.Client
	client   *queue.Client
	desk     *desk.Desk
	server   *httptest.Server
	base     string
	document *description
}

const personHeader = "Test-Person"

// person reads viewer, operator, admin, none, or a role and its classes, as in admin=other.
func person(header string) access.Person {
	role, classes, limited := strings.Cut(header, "=")
	switch role {
	case "none":
		return access.Person{}
	case "":
		role = "admin"
	}
	p := access.Person{Name: "test-" + role, Role: access.Role(role)}
	if limited {
		p.Classes = strings.Split(classes, ",")
	}
	return p
}

func newSite(tb testing.TB, rdb *redis.Client, change ...func(*api.Options)) *site {
	tb.Helper()
	client, err := queue.Open(tb.Context(), rdb, queue.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelError}))
	s := &site{tb: tb, rdb: rdb, client: client, desk: desk.New(client, "http", log)}
	o := api.Options{Desk: s.desk, Log: log, Heartbeat: 20 * time.Millisecond}
	for _, c := range change {
		c(&o)
	}
	s.base = o.Base
	handler := api.New(o)
	s.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(access.With(r.Context(), person(r.Header.Get(personHeader)))))
	}))
	tb.Cleanup(s.server.Close)
	s.document = document(tb, s)
	return s
}

func realSite(tb testing.TB, change ...func(*api.Options)) *site {
	tb.Helper()
	return newSite(tb, redistest.Start(tb).Client(tb), change...)
}

// class stores a class that lets one job go in a minute.
func (s *site) class(name string, capacity int, change ...func(*queue.Class)) {
	s.tb.Helper()
	class := queue.NewClass(name, capacity, queue.Rate{Limit: 1, Period: time.Minute})
	for _, c := range change {
		c(&class)
	}
	if _, err := s.client.Classes().Put(s.tb.Context(), class); err != nil {
		s.tb.Fatal(err)
	}
}

// said is an answer.
type said struct {
	status int
	header http.Header
	body   string
}

// ask sends a request as somebody; header has names and values.
func (s *site) ask(who, method, path, body string, header ...string) said {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(s.tb.Context(), 2*time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.server.URL+s.base+path, strings.NewReader(body))
	if err != nil {
		s.tb.Fatalf("%s %s: %v", method, path, err)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	r.Header.Set(personHeader, who)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	// Answers are looked at as they are: where one leads is for the caller to say.
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	answer, err := client.Do(r)
	if err != nil {
		s.tb.Fatalf("%s %s: %v", method, path, err)
	}
	defer answer.Body.Close() //nolint:errcheck // only read
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		s.tb.Fatalf("%s %s: %v", method, path, err)
	}
	if s.document != nil {
		s.document.check(s.tb, r, answer, data)
	}
	return said{answer.StatusCode, answer.Header, string(data)}
}

// want fails the test unless the answer has a status and its body these fields.
func (a said) want(tb testing.TB, status int, fields map[string]any) {
	tb.Helper()
	if a.status != status {
		tb.Errorf("status %d, want %d: %s", a.status, status, a.body)
		return
	}
	var got map[string]any
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		tb.Errorf("%s: %v", a.body, err)
		return
	}
	for name, want := range fields {
		if n, isInt := want.(int); isInt {
			want = float64(n)
		}
		if got[name] != want {
			tb.Errorf("%s is %v, want %v: %s", name, got[name], want, a.body)
		}
	}
}

func (a said) read(tb testing.TB, to any) {
	tb.Helper()
	if err := json.Unmarshal([]byte(a.body), to); err != nil {
		tb.Fatalf("%s: %v", a.body, err)
	}
}
