// Package tracing follows a job from its submission to the calls that its attempts make, with OpenTelemetry. It is off unless
// the standard variables say where traces go.
//
// A submission is a span, whose context travels in the job. An attempt is a root of its own, linked to it, since it may run
// hours later, and several times. It tells the wait apart: in the bucket, behind a hold, for a worker.
package tracing

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"
)

// Tracing makes spans. One that is off makes none, and costs next to nothing.
type Tracing struct {
	tracer trace.Tracer
	carry  propagation.TraceContext
	close  func(context.Context) error
	on     bool
}

// Off makes no spans.
func Off() *Tracing {
	return &Tracing{tracer: noop.NewTracerProvider().Tracer(""), close: func(context.Context) error { return nil }}
}

// Open reads the standard variables: OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT turn traces on, or
// OTEL_TRACES_EXPORTER=otlp, which means a collector on this machine. OTEL_SDK_DISABLED=true and OTEL_TRACES_EXPORTER=none keep
// them off. The libraries read the rest of them by themselves. Traces that cannot be sent are dropped, and log
// is told of that once a minute.
func Open(ctx context.Context, getenv func(string) string, program string, log *slog.Logger) (*Tracing, error) {
	wanted, err := wanted(getenv)
	if err != nil || !wanted {
		return Off(), err
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return Off(), fmt.Errorf("send traces: %w", err)
	}
	lost := newLosses(log)
	otel.SetErrorHandler(lost) // the libraries know only one place for this, for the whole process
	t, err := New(program, sdktrace.NewBatchSpanProcessor(exporter))
	if err != nil {
		return t, err
	}
	shutdown := t.close
	t.close = func(ctx context.Context) error { return errors.Join(shutdown(ctx), lost.untold()) }
	return t, nil
}

// wanted tells whether traces are asked for, and what of it cannot be had.
func wanted(getenv func(string) string) (bool, error) {
	exporter := getenv("OTEL_TRACES_EXPORTER")
	endpoint := getenv("OTEL_EXPORTER_OTLP_ENDPOINT") != "" || getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	switch {
	case strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true"), exporter == "none":
		return false, nil
	case exporter != "" && exporter != "otlp":
		return false, fmt.Errorf("OTEL_TRACES_EXPORTER is %q; otlp and none are known", exporter)
	case exporter == "" && !endpoint:
		return false, nil
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		if text := getenv(name); text != "" && !isAddress(text) {
			return false, fmt.Errorf("%s is no address such as http://127.0.0.1:4318", name)
		}
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if protocol := getenv(name); protocol != "" {
			if !strings.HasPrefix(protocol, "http/") {
				return false, fmt.Errorf("%s is %q; only http/protobuf is known, mostly on port 4318", name, protocol)
			}
			break
		}
	}
	return true, nil
}

// isAddress keeps off what the libraries would take and never reach.
func isAddress(text string) bool {
	to, err := url.Parse(text)
	return err == nil && (to.Scheme == "http" || to.Scheme == "https") && to.Host != ""
}

// New makes spans for a processor. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES say what the program is called,
// OTEL_TRACES_SAMPLER which traces are kept.
func New(program string, to sdktrace.SpanProcessor) (*Tracing, error) {
	what, err := resource.Merge(resource.NewSchemaless(attribute.String("service.name", "spout-"+program)), resource.Environment())
	if err != nil && !errors.Is(err, resource.ErrPartialResource) {
		return Off(), fmt.Errorf("read OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithResource(what), sdktrace.WithSpanProcessor(to))
	return &Tracing{tracer: provider.Tracer("github.com/spout-queue/spout"), close: provider.Shutdown, on: true}, nil
}

// On tells whether spans are made.
func (t *Tracing) On() bool { return t.on }

const closeTime = 5 * time.Second

// Close sends what is left, for 5 s at most, also when ctx has ended.
func (t *Tracing) Close(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	return t.close(ctx)
}

// ID names the trace of a context that is kept, empty for none: an exemplar must lead somewhere.
func (t *Tracing) ID(ctx context.Context) string {
	of := trace.SpanContextFromContext(ctx)
	if !of.IsValid() || !of.IsSampled() {
		return ""
	}
	return of.TraceID().String()
}

// context of a span as text, in the form of the header traceparent.
func (t *Tracing) text(ctx context.Context) string {
	carrier := propagation.MapCarrier{}
	t.carry.Inject(ctx, carrier)
	return carrier.Get("traceparent")
}

// read is the inverse of text.
func (t *Tracing) read(text string) trace.SpanContext {
	ctx := t.carry.Extract(context.Background(), propagation.MapCarrier{"traceparent": text})
	return trace.SpanContextFromContext(ctx)
}

// fail marks a span. The text of an error may hold what a service sent, so it is not put into a trace; its kind is.
func fail(span trace.Span, kind string) {
	span.SetStatus(statusError, kind)
}
