package console_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/console"
	"github.com/spout-queue/spout/queue"
)

// user is who has a session of the program around the console.
type user struct{ Email string }

// sessions stand for those of the program around the console.
type sessions struct{}

// User is who asks.
func (sessions) User(r *http.Request) (user, bool) {
	email := r.Header.Get("Test-Session")
	return user{email}, email != ""
}

// mount is the code of docs/admin.md.
func mount(ctx context.Context, mux *http.ServeMux, client *queue.Client, log *slog.Logger, session sessions, running *sync.WaitGroup) error {
	c, err := console.New(console.Options{
		Client: client, Base: "/spout", Hosts: []string{"ops.example.com"}, Log: log,
		Authenticate: func(r *http.Request) (access.Person, error) {
			user, ok := session.User(r) // yours
			if !ok {
				return access.Person{}, access.ErrAnonymous
			}
			return access.Person{Name: user.Email, Role: access.Operator}, nil
		},
	})
	if err != nil {
		return err
	}
	running.Go(func() { c.Run(ctx) }) // samples what the dashboard shows, while somebody looks, until ctx ends
	mux.Handle("/spout/", c)
	return nil
}

// The dashboard and the API as a part of somebody's own server, which knows who asks.
func Example() {
	store, err := miniredis.Run()
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	rdb := redis.NewClient(&redis.Options{Addr: store.Addr()})
	defer rdb.Close() //nolint:errcheck // it is the end
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	client, err := queue.Open(ctx, rdb, queue.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	mux := http.NewServeMux()
	if err := mount(ctx, mux, client, slog.New(slog.DiscardHandler), sessions{}, &running); err != nil {
		fmt.Println(err)
		return
	}
	server := httptest.NewServer(mux)
	defer server.Close()
	for _, path := range []string{"/spout/", "/spout/v1/classes", "/elsewhere"} {
		for _, email := range []string{"", "ann@example.com"} {
			r, err := http.NewRequest(http.MethodGet, server.URL+path, nil)
			if err != nil {
				fmt.Println(err)
				return
			}
			r.Header.Set("Test-Session", email)
			answer, err := http.DefaultClient.Do(r)
			if err != nil {
				fmt.Println(err)
				return
			}
			_ = answer.Body.Close()
			fmt.Printf("%s %q %d\n", path, email, answer.StatusCode)
		}
	}
	// Output:
	// /spout/ "" 401
	// /spout/ "ann@example.com" 200
	// /spout/v1/classes "" 401
	// /spout/v1/classes "ann@example.com" 200
	// /elsewhere "" 404
	// /elsewhere "ann@example.com" 404
}

// What docs/admin.md shows is what runs here.
func TestDocs(t *testing.T) {
	t.Parallel()
	docs, err := os.ReadFile("../../../docs/admin.md")
	if err != nil {
		t.Fatal(err)
	}
	code, err := os.ReadFile("example_test.go")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, found := strings.Cut(string(docs), "```go\n")
	shown, _, closed := strings.Cut(shown, "```")
	if !found || !closed || !strings.Contains(words(string(code)), words(shown)) {
		t.Errorf("docs/admin.md shows what does not run here:\n%s", shown)
	}
}

// words is a text with the same blank between all its words.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }
