package console_test

import (
	"net/http"
	"testing"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/spout-queue/spout/cmd/admin/console"
	"github.com/spout-queue/spout/cmd/internal/tracing"
	"github.com/spout-queue/spout/queue"
)

// TestTrace: a submission goes on with the trace of its request, for as long as the job lives.
func TestTrace(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	traced, err := tracing.New("test", sdktrace.NewSimpleSpanProcessor(exporter))
	if err != nil {
		t.Fatal(err)
	}
	client := open(t)
	if _, err := client.Classes().Put(t.Context(), queue.NewClass("c", 1, queue.Rate{Limit: 1, Period: time.Hour})); err != nil {
		t.Fatal(err)
	}
	url := start(t, console.Options{Client: client, Trace: traced.Submit})
	const caller, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	job := `{"class":"c","key":"k","id":"1","type":"none","payload":1}`
	for _, want := range []int{202, 429} {
		r := request(t, http.MethodPost, url+"/v1/jobs", job, "Content-Type: application/json", "Traceparent: 00-"+caller+"-"+parent+"-01")
		if got, body := do(t, r); got.StatusCode != want {
			t.Fatalf("POST /v1/jobs: %d, want %d: %s", got.StatusCode, want, body)
		}
		job = `{"class":"c","key":"k","id":"2","type":"none","payload":1}`
	}
	spans := exporter.GetSpans()
	if len(spans) != 2 {
		t.Fatalf("%d spans, want one of each submission", len(spans))
	}
	for i, span := range spans {
		if span.Name != "submit" || span.SpanContext.TraceID().String() != caller || span.Parent.SpanID().String() != parent {
			t.Errorf("submission %d is %s of %s below %s", i+1, span.Name, span.SpanContext.TraceID(), span.Parent.SpanID())
		}
	}
	departed, err := client.Job(t.Context(), refOf(t, spans[0]))
	if err != nil || departed.ID != "1" {
		t.Errorf("the span names job %q, %v", departed.ID, err)
	}
}

// refOf is the job that a span tells of.
func refOf(t *testing.T, span tracetest.SpanStub) string {
	t.Helper()
	for _, a := range span.Attributes {
		if a.Key == "spout.ref" {
			return a.Value.AsString()
		}
	}
	t.Fatal("the span names no job")
	return ""
}
