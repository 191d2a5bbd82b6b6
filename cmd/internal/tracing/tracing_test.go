package tracing_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/spout-queue/spout/cmd/internal/tracing"
	"github.com/spout-queue/spout/handlers"
	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// upstream answers 500 once and then 200, and keeps the traceparents it was sent.
type upstream struct {
	mu   sync.Mutex
	seen []string
}

func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.seen = append(u.seen, r.Header.Get("traceparent"))
	if len(u.seen) == 1 {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

// work runs a traced worker until stop is called.
func work(t *testing.T, client *queue.Client, traced *tracing.Tracing) (stop func()) {
	t.Helper()
	call := handlers.NewHTTPCall(handlers.HTTPOptions{FreshUntil: scheduler.FreshUntil, Observe: traced.Request})
	t.Cleanup(call.CloseIdleConnections)
	mux := handlers.NewMux()
	mux.Handle(handlers.HTTPCallType, call)
	// Patient: this machine may be busy, and a stale departure would be another attempt in the trace.
	worker, err := scheduler.New(client, mux, scheduler.Options{Freshness: 20 * time.Second, Observers: []scheduler.Observer{traced.Observer()}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestTrace follows one job from its submission through the queue and a worker to the service that it calls, twice.
func TestTrace(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	up := &upstream{}
	service := httptest.NewServer(up)
	defer service.Close()
	client, err := queue.Open(t.Context(), server.Client(t), queue.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	class := queue.NewClass("c", 10, queue.Rate{Limit: 1, Period: time.Millisecond})
	class.HTTP.AllowPrivate = true
	class.Retention = time.Hour
	class.Retry.Backoff, class.Retry.MaxBackoff = time.Millisecond, time.Millisecond
	if _, err := client.Classes().Put(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	exporter := tracetest.NewInMemoryExporter()
	traced, err := tracing.New("test", sdktrace.NewSimpleSpanProcessor(exporter))
	if err != nil {
		t.Fatal(err)
	}
	job := queue.Job{Class: "c", Key: "k", ID: "1", Payload: []byte(`{"url":"` + service.URL + `/people/ada?token=secret"}`)}
	ctx, told := traced.Submit(t.Context(), &job)
	receipt, err := client.Submit(ctx, job)
	told(receipt, err)
	if err != nil {
		t.Fatal(err)
	}
	stop := work(t, client, traced)
	defer stop()
	if _, err := client.Await(t.Context(), receipt.Ref); err != nil {
		t.Fatal(err)
	}
	stop()
	got := shape(exporter.GetSpans(), strings.TrimPrefix(service.URL, "http://"), receipt.Ref)
	want := golden(t, got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the trace has another shape; write it anew with UPDATE=1, if that is meant:\n%s", diff)
	}
	for i, sent := range sentTo(exporter.GetSpans()) {
		if up.seen[i] != sent {
			t.Errorf("the service was sent the traceparent %q by call %d, want %q", up.seen[i], i, sent)
		}
	}
	for _, span := range exporter.GetSpans() {
		if text := fmt.Sprint(span); strings.Contains(text, "secret") || strings.Contains(text, "ada") {
			t.Errorf("the url is in the trace: %s", text)
		}
	}
}

// TestWaitBehindAHold: what a hold took is told apart from the line and the worker.
func TestWaitBehindAHold(t *testing.T) {
	t.Parallel()
	client, err := queue.Open(t.Context(), redistest.Start(t).Client(t), queue.Options{Shards: 1})
	if err != nil {
		t.Fatal(err)
	}
	class := queue.NewClass("c", 10, queue.Rate{Limit: 10, Period: time.Second})
	class.Retention = time.Hour
	if _, err := client.Classes().Put(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	if err := client.Buckets().Hold(t.Context(), "c", "k", time.Now().Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	exporter := tracetest.NewInMemoryExporter()
	traced, err := tracing.New("test", sdktrace.NewSimpleSpanProcessor(exporter))
	if err != nil {
		t.Fatal(err)
	}
	var last queue.Receipt
	for n := range 3 {
		job := queue.Job{Class: "c", Key: "k", ID: fmt.Sprint(n), Payload: []byte(`{"url":"http://192.0.2.1"}`)} // refused: dead at once
		if last, err = client.Submit(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	stop := work(t, client, traced)
	defer stop()
	if _, err := client.Await(t.Context(), last.Ref); err != nil {
		t.Fatal(err)
	}
	stop()
	attempts := 0
	for _, s := range exporter.GetSpans() {
		if s.Name != "attempt" {
			continue
		}
		attempts++
		seconds := map[string]float64{}
		for _, a := range s.Attributes {
			seconds[string(a.Key)] = a.Value.AsFloat64()
		}
		hold, bucket := seconds["spout.wait.hold_seconds"], seconds["spout.wait.bucket_seconds"]
		if hold < .5 || hold > 1.01 {
			t.Errorf("%v: %v s behind the hold, want nearly 1", s.Attributes, hold)
		}
		if bucket > 5 {
			t.Errorf("%v: %v s in the bucket, want some tenths", s.Attributes, bucket)
		}
	}
	if attempts != 3 {
		t.Errorf("%d attempts, want 3", attempts)
	}
}

// sentTo are the contexts of the outbound calls, as a header.
func sentTo(spans tracetest.SpanStubs) (headers []string) {
	for _, s := range spans {
		if s.Name == "http:call" {
			headers = append(headers, fmt.Sprintf("00-%s-%s-01", s.SpanContext.TraceID(), s.SpanContext.SpanID()))
		}
	}
	return headers
}

// shape is what the spans tell, without what differs each time: every trace by number, each span with its parent, links and
// attributes.
func shape(spans tracetest.SpanStubs, host, ref string) string {
	slices.SortStableFunc(spans, func(a, b tracetest.SpanStub) int { return a.StartTime.Compare(b.StartTime) })
	names := map[string]string{}
	traces := map[string]int{}
	for _, s := range spans {
		id := s.SpanContext.TraceID().String()
		if traces[id] == 0 {
			traces[id] = len(traces) + 1
		}
		names[s.SpanContext.SpanID().String()] = fmt.Sprintf("%s of trace %d", s.Name, traces[id])
	}
	var out strings.Builder
	for _, s := range spans {
		fmt.Fprintf(&out, "%s, %s", names[s.SpanContext.SpanID().String()], s.SpanKind)
		if s.Parent.IsValid() {
			fmt.Fprintf(&out, ", below %s", names[s.Parent.SpanID().String()])
		}
		for _, l := range s.Links {
			fmt.Fprintf(&out, ", linked to %s", names[l.SpanContext.SpanID().String()])
		}
		if d := s.Status.Description; d != "" {
			fmt.Fprintf(&out, ", %s: %s", s.Status.Code, d)
		}
		out.WriteString("\n")
		for _, a := range s.Attributes {
			value := strings.NewReplacer(host, "HOST", ref, "REF").Replace(a.Value.String())
			if strings.HasPrefix(string(a.Key), "spout.wait") {
				value = "…"
			}
			fmt.Fprintf(&out, "    %s = %s\n", a.Key, value)
		}
	}
	return out.String()
}

// golden is what the shape should be.
func golden(t *testing.T, got string) string {
	t.Helper()
	const file = "testdata/trace.txt"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(want)
}

// TestRun: what many jobs are submitted in is one span, which each of them carries.
func TestRun(t *testing.T) {
	t.Parallel()
	exporter := tracetest.NewInMemoryExporter()
	traced, err := tracing.New("test", sdktrace.NewSimpleSpanProcessor(exporter))
	if err != nil {
		t.Fatal(err)
	}
	ctx, carried, end := traced.Run(t.Context(), "bulk")
	end()
	span := exporter.GetSpans()[0].SpanContext
	if want := fmt.Sprintf("00-%s-%s-01", span.TraceID(), span.SpanID()); carried != want || traced.ID(ctx) != span.TraceID().String() {
		t.Errorf("the jobs carry %q of trace %s, want %q", carried, traced.ID(ctx), want)
	}
	if _, carried, _ := tracing.Off().Run(t.Context(), "bulk"); carried != "" {
		t.Errorf("without traces the jobs carry %q", carried)
	}
}

func TestTell(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		waited, held, late time.Duration
		want               string
	}{
		{41200 * time.Millisecond, 3200 * time.Millisecond, 0, "41.2 s = 38.0 bucket + 3.2 hold + 0.0 worker"},
		{time.Second, 0, 300 * time.Millisecond, "1.0 s = 0.7 bucket + 0.0 hold + 0.3 worker"},
		{time.Second, 5 * time.Second, 300 * time.Millisecond, "1.0 s = 0.0 bucket + 0.7 hold + 0.3 worker"},
		{160 * time.Millisecond, 40 * time.Millisecond, 40 * time.Millisecond, "0.2 s = 0.1 bucket + 0.0 hold + 0.1 worker"},
		{0, 0, -time.Millisecond, "0.0 s = 0.0 bucket + 0.0 hold + 0.0 worker"},
	} {
		if got := tracing.Tell(test.waited, test.held, test.late).String(); got != test.want {
			t.Errorf("waited %v, held %v, late %v: %q, want %q", test.waited, test.held, test.late, got, test.want)
		}
	}
}

func TestOnlyWhenAsked(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		env  string
		on   bool
		fail string
	}{
		{"", false, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", true, ""},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://127.0.0.1:1/v1/traces", true, ""},
		{"OTEL_TRACES_EXPORTER=otlp", true, ""},
		{"OTEL_TRACES_EXPORTER=none OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", false, ""},
		{"OTEL_SDK_DISABLED=true OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", false, ""},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=collector:4318", false, "OTEL_EXPORTER_OTLP_ENDPOINT is no address"},
		{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http:///v1/traces", false, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is no address"},
		{"OTEL_TRACES_EXPORTER=none OTEL_EXPORTER_OTLP_ENDPOINT=nonsense", false, ""},
		{"OTEL_TRACES_EXPORTER=zipkin", false, `OTEL_TRACES_EXPORTER is "zipkin"`},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1 OTEL_EXPORTER_OTLP_PROTOCOL=grpc", false, "only http/protobuf is known"},
	} {
		env := map[string]string{}
		for pair := range strings.FieldsSeq(test.env) {
			name, value, _ := strings.Cut(pair, "=")
			env[name] = value
		}
		traced, err := tracing.Open(t.Context(), func(name string) string { return env[name] }, "test", slog.New(slog.DiscardHandler))
		if got := fmt.Sprint(err); traced.On() != test.on || test.fail != "" && !strings.Contains(got, test.fail) || test.fail == "" && err != nil {
			t.Errorf("%s: on %v, %v; want on %v, %q", test.env, traced.On(), err, test.on, test.fail)
		}
		if err := traced.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
