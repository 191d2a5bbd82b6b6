package handlers_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/handlers"
	"github.com/spout-queue/spout/internal/redistest"
)

type result struct {
	Status     int         `json:"status"`
	Headers    http.Header `json:"headers"`
	Body       *string     `json:"body"`
	BodyBase64 *string     `json:"body_base64"`
	Truncated  bool        `json:"truncated"`
}

func readResult(t *testing.T, data []byte) (r result, body string) {
	t.Helper()
	if err := json.Unmarshal(data, &r); err != nil || len(data) > 64<<10 {
		t.Fatalf("%d bytes: %v in %.200s", len(data), err, data)
	}
	switch {
	case r.Body != nil && r.BodyBase64 == nil:
		return r, *r.Body
	case r.Body == nil && r.BodyBase64 != nil:
		b, err := base64.StdEncoding.DecodeString(*r.BodyBase64)
		if err != nil {
			t.Fatal(err)
		}
		return r, string(b)
	}
	t.Fatalf("body in two places or in none: %.200s", data)
	return r, ""
}

func TestResult(t *testing.T) {
	t.Parallel()
	many := http.Header{}
	for i := range 400 {
		many.Set(fmt.Sprintf("X-%03d", i), strings.Repeat("é", 30))
	}
	for name, test := range map[string]struct {
		header http.Header
		body   string
		check  func(t *testing.T, r result, body string)
	}{
		"text": {http.Header{"Content-Type": {"text/plain"}}, "é <b>", func(t *testing.T, r result, body string) {
			t.Helper()
			if r.Status != 200 || r.Body == nil || body != "é <b>" || r.Truncated || r.Headers.Get("Content-Type") != "text/plain" {
				t.Errorf("%+v", r)
			}
		}},
		"nothing": {nil, "", func(t *testing.T, r result, body string) {
			t.Helper()
			if r.Body == nil || body != "" || r.Truncated || r.Headers != nil {
				t.Errorf("%+v", r)
			}
		}},
		"bytes": {nil, "\x00\xff", func(t *testing.T, r result, body string) {
			t.Helper()
			if r.BodyBase64 == nil || body != "\x00\xff" {
				t.Errorf("%+v", r)
			}
		}},
		"long text, cut in a character": {nil, "x" + strings.Repeat("é", 40<<10), func(t *testing.T, r result, body string) {
			t.Helper()
			if r.Body == nil || len(body) != 40<<10-1 || !r.Truncated || !utf8.ValidString(body) {
				t.Errorf("%d bytes, truncated %v, text %v", len(body), r.Truncated, r.Body != nil)
			}
		}},
		"just as long as may be": {nil, strings.Repeat("x", 40<<10), func(t *testing.T, r result, body string) {
			t.Helper()
			if len(body) != 40<<10 || r.Truncated {
				t.Errorf("%d bytes, truncated %v", len(body), r.Truncated)
			}
		}},
		"text that grows when written": {nil, strings.Repeat("\x01", 40<<10), func(t *testing.T, r result, body string) {
			t.Helper()
			if r.BodyBase64 == nil || len(body) != 40<<10 {
				t.Errorf("%d bytes, text %v", len(body), r.Body != nil)
			}
		}},
		"long bytes": {nil, strings.Repeat("\xff", 2<<20), func(t *testing.T, r result, body string) {
			t.Helper()
			if r.BodyBase64 == nil || len(body) != 40<<10 || !r.Truncated {
				t.Errorf("%d bytes, truncated %v", len(body), r.Truncated)
			}
		}},
		"headers of the connection and cookies": {http.Header{
			"Connection": {"X-Hop, close"}, "X-Hop": {"1"}, "Keep-Alive": {"1"}, "Transfer-Encoding": {"chunked"}, "Set-Cookie": {"a=b"}, "Set-Cookie2": {"a"},
			"Proxy-Authenticate": {"x"}, "Upgrade": {"h2c"}, "Trailer": {"x"}, "Content-Length": {"3"}, "Etag": {`"a"`}, "Vary": {"a", "b"}, "X-Bytes": {"\xff"},
		}, "abc", func(t *testing.T, r result, _ string) {
			t.Helper()
			want := http.Header{"Content-Length": {"3"}, "Etag": {`"a"`}, "Vary": {"a", "b"}, "X-Bytes": {"\uFFFD"}}
			if diff := cmp.Diff(want, r.Headers); diff != "" {
				t.Errorf("headers (-want +got):\n%s", diff)
			}
		}},
		"many headers": {many, strings.Repeat("\xff", 2<<20), func(t *testing.T, r result, _ string) {
			t.Helper()
			if n := len(r.Headers); n < 50 || n > 150 || r.Headers.Get("X-000") == "" {
				t.Errorf("%d headers", n)
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			data := handlers.Result(test.header, test.body)
			r, body := readResult(t, data)
			test.check(t, r, body)
		})
	}
}

// FuzzResult: whatever a service sends, the result is JSON of at most 64 KiB that holds the beginning of its body.
func FuzzResult(f *testing.F) {
	f.Add("text/plain", "hello", 1)
	f.Add("\xff\"", "\xff\x00", 30_000)
	f.Add("é", "é", 25_000)
	f.Fuzz(func(t *testing.T, header, piece string, times int) {
		body := strings.Repeat(piece, min(max(times, 0), 100_000/max(len(piece), 1)))
		data := handlers.Result(http.Header{"A": {header}, "B": {body}}, body)
		_, got := readResult(t, data)
		if !strings.HasPrefix(body, got) || len(got) < min(len(body), 40<<10-3) {
			t.Errorf("%d bytes of %d, or not its beginning", len(got), len(body))
		}
	})
}

// resultOf processes a task as an asynq server does, so that it has a ResultWriter, and returns what was written.
func resultOf(t *testing.T, h asynq.Handler, task *asynq.Task) (result []byte, err error) {
	t.Helper()
	rdb := redistest.MiniClient(t)
	redisOpt := asynq.RedisClientOpt{Addr: rdb.Options().Addr}
	client := asynq.NewClient(redisOpt)
	defer client.Close() //nolint:errcheck // of this test
	info, err := client.EnqueueContext(t.Context(), task, asynq.Retention(time.Hour), asynq.MaxRetry(0))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	srv := asynq.NewServer(redisOpt, asynq.Config{Concurrency: 1, LogLevel: asynq.FatalLevel, TaskCheckInterval: 10 * time.Millisecond})
	if err := srv.Start(asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		err := h.ProcessTask(ctx, task)
		ended <- err
		return err
	})); err != nil {
		t.Fatal(err)
	}
	err = <-ended
	srv.Shutdown()
	inspector := asynq.NewInspector(redisOpt)
	defer inspector.Close() //nolint:errcheck // of this test
	info, lost := inspector.GetTaskInfo(info.Queue, info.ID)
	if lost != nil {
		t.Fatal(lost)
	}
	return bytes.Clone(info.Result), err
}

// TestDoneLeavesAResult: and what is not done leaves none.
func TestDoneLeavesAResult(t *testing.T) {
	t.Parallel()
	srv := newService(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		if r.URL.Path == "/missing" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = io.WriteString(w, "hello")
	})
	h := newCall(t, handlers.HTTPOptions{})
	for name, test := range map[string]struct {
		payload object
		want    int // status, 0 for none
	}{
		"200":          {object{"url": srv.URL}, 200},
		"404":          {object{"url": srv.URL + "/missing"}, 0},
		"404 accepted": {object{"url": srv.URL + "/missing", "accept": "any"}, 404},
	} {
		data, err := resultOf(t, h, task(t, test.payload))
		if (err == nil) != (test.want > 0) || len(data) > 0 != (test.want > 0) {
			t.Errorf("%s: %v and a result of %d bytes", name, err, len(data))
		}
		if err != nil {
			continue
		}
		if r, body := readResult(t, data); r.Status != test.want || body != "hello" || r.Headers.Get("Content-Type") != "text/plain" {
			t.Errorf("%s: %s", name, data)
		}
	}
}

// TestAcceptAny: all is done but what is held and what breaks off.
func TestAcceptAny(t *testing.T) {
	t.Parallel()
	for status, done := range map[int]bool{200: true, 302: true, 400: true, 404: true, 429: false, 500: true, 503: true} {
		srv := newService(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
		err := newCall(t, handlers.HTTPOptions{}).ProcessTask(t.Context(), task(t, object{"url": srv.URL, "accept": "any"}))
		if (err == nil) != done {
			t.Errorf("%d: %v", status, err)
		}
	}
}
