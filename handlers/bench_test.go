package handlers_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/handlers"
)

// BenchmarkHTTPCall is a call to a service in the same process; its part of the time is in it too.
func BenchmarkHTTPCall(b *testing.B) {
	srv := newService(b, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, `{"id":7,"state":"paid"}`)
	})
	h := newCall(b, handlers.HTTPOptions{})
	job := asynq.NewTaskWithHeaders(handlers.HTTPCallType,
		[]byte(`{"method":"POST","url":"`+srv.URL+`/orders?page=7","body":"{\"order\":7}","headers":{"Content-Type":"application/json","Authorization":"Bearer abc"}}`),
		map[string]string{
			"Spout-Class": "orders", "Spout-Key": "k", "Spout-Ref": "0-AAAAAAAAAAAAAAAAAAAAAA", "Spout-Attempt": "1",
			"Spout-Http": `{"allow_private":true,"hosts":["127.0.0.1"],"max_hold":"10m"}`,
		})
	b.ReportAllocs()
	for b.Loop() {
		if err := h.ProcessTask(b.Context(), job); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkResult is what keeping an answer costs.
func BenchmarkResult(b *testing.B) {
	header := http.Header{"Content-Type": {"application/json"}, "Date": {"Sat, 21 Nov 2026 18:00:00 GMT"}, "Etag": {`"abc"`}, "Content-Length": {"1024"}}
	body := `{"text":"` + strings.Repeat("x", 1000) + `"}`
	b.ReportAllocs()
	for b.Loop() {
		_ = handlers.Result(header, body)
	}
}
