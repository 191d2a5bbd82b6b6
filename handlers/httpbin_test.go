package handlers_test

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/mccutchen/go-httpbin/v2/httpbin"

	"github.com/spout-queue/spout/handlers"
)

// newHTTPBin returns the url of a go-httpbin that also has a bomb: 10 MiB of gzip that are 10 GiB.
func newHTTPBin(t *testing.T) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/", httpbin.New(httpbin.WithMaxDuration(time.Minute), httpbin.WithMaxBodySize(100<<20)))
	mux.HandleFunc("/bomb", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z, _ := gzip.NewWriterLevel(w, gzip.BestSpeed)
		piece := make([]byte, 1<<20)
		for range 10 << 10 {
			if _, err := z.Write(piece); err != nil {
				return
			}
		}
		_ = z.Close()
	})
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	return srv.URL
}

func TestHTTPBin(t *testing.T) {
	t.Parallel()
	base := newHTTPBin(t)
	h := newCall(t, handlers.HTTPOptions{})
	for path, test := range map[string]struct {
		settings string
		timeout  time.Duration
		fails    string
		check    func(r result, body string) bool
	}{
		"/status/204": {"", time.Minute, "", func(r result, body string) bool { return r.Status == 204 && body == "" }},
		"/status/418": {"", time.Minute, "answered 418", nil},
		"/status/429": {"", time.Minute, "answered 429 Too Many Requests; it does not say until when", nil},
		"/status/503": {"", time.Minute, "answered 503", nil},
		"/gzip":       {"", time.Minute, "", func(_ result, body string) bool { return strings.Contains(body, `"gzipped": true`) }},
		"/deflate":    {"", time.Minute, "", func(r result, _ string) bool { return r.BodyBase64 != nil }}, // not asked for, so not unpacked
		"/delay/30":   {"", 100 * time.Millisecond, "ended before there was a complete answer", nil},
		"/drip?duration=30s&numbytes=30&code=200&delay=0": {"", 300 * time.Millisecond, "ended before there was a complete answer", nil},
		"/drip?duration=50ms&numbytes=5&delay=0":          {"", time.Minute, "", func(_ result, body string) bool { return body == "*****" }},
		"/bytes/100000": {"", time.Minute, "", func(r result, body string) bool {
			return r.Truncated && len(body) == 40<<10 && r.BodyBase64 != nil
		}},
		"/stream-bytes/100000":     {"", time.Minute, "", func(r result, body string) bool { return r.Truncated && len(body) == 40<<10 }},
		"/range/90000000":          {"", time.Minute, "", func(r result, body string) bool { return r.Truncated && len(body) == 40<<10 }},
		"/bomb":                    {"", time.Minute, "", func(r result, body string) bool { return r.Truncated && len(body) == 40<<10 }},
		"/redirect/3":              {`,"redirects":3`, time.Minute, "", func(r result, _ string) bool { return r.Status == 200 }},
		"/absolute-redirect/3":     {`,"redirects":2`, time.Minute, "redirects are not followed further", nil},
		"/encoding/utf8":           {"", time.Minute, "", func(r result, body string) bool { return r.Body != nil && strings.Contains(body, "∮") }},
		"/image/png":               {"", time.Minute, "", func(r result, body string) bool { return r.BodyBase64 != nil && strings.HasPrefix(body, "\x89PNG") }},
		"/response-headers?X-A=":   {"", time.Minute, "", func(r result, _ string) bool { return len(r.Headers["X-A"]) == 1 }},
		"/unstable?failure_rate=1": {"", time.Minute, "answered 500", nil},
	} {
		t.Run(strings.NewReplacer("/", " ", "?", " ").Replace(path), func(t *testing.T) {
			t.Parallel()
			data, err := resultOf(t, withTimeout{h, test.timeout}, taskIn(t, object{"url": base + path}, `{"allow_private":true`+test.settings+`}`))
			switch {
			case test.fails == "" && err != nil:
				t.Fatal(err)
			case test.fails != "":
				if err == nil || !strings.Contains(err.Error(), test.fails) {
					t.Errorf("got %v, want %q", err, test.fails)
				}
				return
			}
			if r, body := readResult(t, data); !test.check(r, body) {
				t.Errorf("result %.500s", data)
			}
		})
	}
}

// TestBombTakesNoMemory: of what unpacks to 10 GiB only a little is read, and less kept.
func TestBombTakesNoMemory(t *testing.T) {
	base := newHTTPBin(t)
	h := newCall(t, handlers.HTTPOptions{})
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 5 {
		if err := h.ProcessTask(t.Context(), task(t, object{"url": base + "/bomb"})); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if took := after.TotalAlloc - before.TotalAlloc; took > 64<<20 { // of both sides, over all calls
		t.Errorf("%d MiB were allocated for 5 calls", took>>20)
	}
}

// TestIDsAreSent: the same key on each attempt, unless the job has its own or the class is anonymous.
func TestIDsAreSent(t *testing.T) {
	t.Parallel()
	base := newHTTPBin(t)
	h := newCall(t, handlers.HTTPOptions{})
	for name, test := range map[string]struct {
		headers  object
		settings string
		want     [2]string
	}{
		"as usual":        {nil, "", [2]string{"0-ref", "3"}},
		"one of its own":  {object{"idempotency-key": "mine"}, "", [2]string{"mine", "3"}},
		"no false number": {object{"Spout-Attempt": "99"}, "", [2]string{"0-ref", "3"}},
		"anonymous":       {nil, `,"anonymous":true`, [2]string{"", ""}},
		"anonymous, own":  {object{"Idempotency-Key": "mine"}, `,"anonymous":true`, [2]string{"mine", ""}},
	} {
		job := taskIn(t, object{"url": base + "/headers", "headers": test.headers}, `{"allow_private":true`+test.settings+`}`)
		job.Headers()["Spout-Ref"], job.Headers()["Spout-Attempt"] = "0-ref", "3"
		data, err := resultOf(t, h, job)
		if err != nil {
			t.Fatal(err)
		}
		_, body := readResult(t, data)
		var seen struct{ Headers http.Header }
		if err := json.Unmarshal([]byte(body), &seen); err != nil {
			t.Fatal(err)
		}
		if got := [2]string{seen.Headers.Get("Idempotency-Key"), seen.Headers.Get("Spout-Attempt")}; got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

// withTimeout is a class's timeout, which the scheduler gives each context.
type withTimeout struct {
	*handlers.HTTPCall
	timeout time.Duration
}

func (w withTimeout) ProcessTask(ctx context.Context, task *asynq.Task) error {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	return w.HTTPCall.ProcessTask(ctx, task)
}
