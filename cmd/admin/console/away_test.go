package console_test

import (
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/cmd/admin/console"
	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// TestRedisAway: a submission that Redis does not hear of is refused as unavailable, and told to the log once.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr, MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	client, err := queue.Open(t.Context(), rdb, queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Classes().Put(t.Context(), queue.NewClass("c", 1, queue.Rate{Limit: 1, Period: time.Hour})); err != nil {
		t.Fatal(err)
	}
	log := &lines{}
	url := start(t, console.Options{Client: client, Log: slog.New(slog.NewTextHandler(log, nil))})
	server.Kill()
	r := request(t, http.MethodPost, url+"/v1/jobs", `{"class":"c","key":"k","type":"none","payload":1}`, "Content-Type: application/json")
	head, body := do(t, r)
	if head.StatusCode != http.StatusServiceUnavailable || !strings.Contains(body, `"reason":"unavailable"`) {
		t.Errorf("it says %s %s", head.Status, body)
	}
	if n := strings.Count(log.String(), "a request could not be answered"); n != 1 {
		t.Errorf("the log tells it %d times, want once:\n%s", n, log)
	}
}

// TestPagesAway: no page tells where Redis is. The log does.
func TestPagesAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, err := queue.Open(t.Context(), server.Client(t), queue.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Classes().Put(t.Context(), queue.NewClass("c", 1, queue.Rate{Limit: 1, Period: time.Hour})); err != nil {
		t.Fatal(err)
	}
	log := &lines{}
	url := start(t, console.Options{Client: client, Log: slog.New(slog.NewTextHandler(log, nil))})
	server.Kill()
	_, port, _ := strings.Cut(server.Addr, ":")
	for _, path := range []string{
		"/", "/classes", "/class?name=c", "/bucket?class=c&key=k", "/job?ref=0-7mVXhJkUQpDZ6v5YbX1m0w", "/dead", "/dead?class=c", "/workers", "/changes", "/submit",
	} {
		_, body := do(t, request(t, http.MethodGet, url+path, "", "Accept: text/html"))
		if strings.Contains(body, port) || strings.Contains(body, "dial tcp") {
			t.Errorf("%s tells where Redis is: %s", path, body)
		}
	}
	form := "class=c&key=k&payload=1&shape=json&type=test"
	if _, body := do(t, request(t, http.MethodPost, url+"/submit", form, "Content-Type: application/x-www-form-urlencoded")); strings.Contains(body, port) {
		t.Errorf("the form tells where Redis is: %s", body)
	}
	if !strings.Contains(log.String(), port) {
		t.Errorf("the log does not tell what went wrong:\n%s", log)
	}
}
