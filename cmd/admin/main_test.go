package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/api"
	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/cmd/internal/transcript"
	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"admin": main})
}

func TestTranscripts(t *testing.T) {
	t.Parallel()
	transcript.Run(t, start)
}

// TestTranscriptsAPI: through the API, the commands answer the same.
func TestTranscriptsAPI(t *testing.T) {
	t.Parallel()
	transcript.RunAPI(t, start, serveAPI)
}

// TestAPIDenies: who may not do a thing is told so, with the exit status for it.
func TestAPIDenies(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, err := queue.Open(t.Context(), server.Client(t), queue.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"mail", "sms"} {
		if _, err := client.Classes().Put(t.Context(), queue.NewClass(name, 10, queue.Rate{Limit: 1000, Period: 1e9})); err != nil {
			t.Fatal(err)
		}
	}
	viewer := serveAPITo(t, server.Addr, access.Person{Name: "ann", Role: access.Viewer})
	nobody := serveAPITo(t, server.Addr, access.Person{})
	ofMail := serveAPITo(t, server.Addr, access.Person{Name: "bob", Role: access.Operator, Classes: []string{"mail"}})

	admin, expect := commands(t, server.Addr)
	expect(0, "mail ", "--api", viewer, "class", "ls")
	expect(77, "admin: access: denied: ann is viewer, and this takes operator", "--api", viewer, "bucket", "pause", "mail/a")
	expect(77, `{"status":"rejected","reason":"denied","detail":`, "--api", viewer, "bucket", "pause", "mail/a", "-o", "json")
	expect(77, "denied", "--api", viewer, "class", "rm", "mail", "--purge")
	expect(77, `"reason":"unauthenticated"`, "--api", nobody, "class", "ls", "-o", "json")
	expect(0, "class mail is paused", "--api", ofMail, "bucket", "pause", "mail")
	expect(77, "takes admin", "--api", ofMail, "bucket", "purge", "mail", "--yes")
	expect(65, `unknown class: "sms"`, "--api", ofMail, "bucket", "pause", "sms")
	if _, out := admin("--api", ofMail, "class", "ls", "-o", "json"); strings.Contains(out, "sms") {
		t.Errorf("a class that does not exist for them is listed:\n%s", out)
	}
}

func start(tb testing.TB) (transcript.Server, string) {
	tb.Helper()
	server := redistest.Start(tb)
	return server, server.Addr
}

// serveAPI serves the API to an admin.
func serveAPI(tb testing.TB, address string) string {
	tb.Helper()
	return serveAPITo(tb, address, access.Person{Name: "tester", Role: access.Admin})
}

func serveAPITo(tb testing.TB, address string, me access.Person) string {
	tb.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: address, MaxRetries: -1})
	tb.Cleanup(func() { _ = rdb.Close() })
	client, err := queue.Open(tb.Context(), rdb, queue.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	handler := api.New(api.Options{Desk: desk.New(client, "http", log), Log: log})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(w, r.WithContext(access.With(r.Context(), me)))
	}))
	tb.Cleanup(server.Close)
	return server.URL
}
