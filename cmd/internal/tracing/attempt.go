package tracing

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

const statusError = codes.Error

// Submit begins the span of a submission, below the one that the job came with, and puts its context into the job. end is told
// the answer.
func (t *Tracing) Submit(ctx context.Context, job *queue.Job) (_ context.Context, end func(queue.Receipt, error)) {
	if !t.on {
		return ctx, func(queue.Receipt, error) {}
	}
	if from := t.read(job.Trace); from.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, from)
	}
	ctx, span := t.tracer.Start(ctx, "submit", trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		attribute.String("spout.class", job.Class), attribute.String("spout.key", job.Key),
	))
	job.Trace = t.text(ctx)
	return ctx, func(receipt queue.Receipt, err error) {
		if err != nil {
			span.SetAttributes(attribute.String("spout.reason", string(queue.ReasonOf(err))))
			fail(span, string(queue.ReasonOf(err)))
		} else {
			span.SetAttributes(attribute.String("spout.status", string(receipt.Status)), attribute.String("spout.ref", receipt.Ref),
				attribute.Int("spout.position", receipt.Position))
		}
		span.End()
	}
}

// Run begins the span of many submissions, and returns its context as jobs carry it.
func (t *Tracing) Run(ctx context.Context, name string) (_ context.Context, carried string, end func()) {
	if !t.on {
		return ctx, "", func() {}
	}
	ctx, span := t.tracer.Start(ctx, name, trace.WithSpanKind(trace.SpanKindProducer))
	return ctx, t.text(ctx), func() { span.End() }
}

// Observer makes a span of each attempt.
func (t *Tracing) Observer() scheduler.Observer {
	return scheduler.Observer{Started: t.started, Ended: t.ended}
}

func (t *Tracing) started(ctx context.Context, a *scheduler.Attempt) context.Context {
	options := []trace.SpanStartOption{
		trace.WithNewRoot(), trace.WithSpanKind(trace.SpanKindConsumer),
		trace.WithAttributes(
			attribute.String("spout.class", a.Class), attribute.String("spout.key", a.Key), attribute.String("spout.ref", a.Ref),
			attribute.String("spout.type", a.Type), attribute.Int("spout.attempt", a.Attempt),
		),
	}
	if from := t.read(a.Trace); from.IsValid() {
		options = append(options, trace.WithLinks(trace.Link{SpanContext: from}))
	}
	ctx, span := t.tracer.Start(ctx, "attempt", options...)
	if waited, first := a.Waited(); first {
		w := Tell(waited, a.Held, a.Lateness)
		span.SetAttributes(
			attribute.String("spout.wait", w.String()), attribute.Float64("spout.wait.bucket_seconds", w.Bucket.Seconds()),
			attribute.Float64("spout.wait.hold_seconds", w.Hold.Seconds()), attribute.Float64("spout.wait.worker_seconds", w.Worker.Seconds()),
		)
	}
	return ctx
}

func (t *Tracing) ended(ctx context.Context, _ *scheduler.Attempt, e scheduler.End) {
	span := trace.SpanFromContext(ctx)
	span.SetAttributes(attribute.String("spout.outcome", string(e.Outcome)))
	if e.Outcome != queue.Done && e.Outcome != queue.Back {
		fail(span, string(e.Outcome))
	}
	span.End()
}

// Wait is why a job waited from when it joined its line until its start.
type Wait struct {
	Bucket, Hold, Worker time.Duration
}

// Tell tells a wait apart: how long holds kept the bucket from letting go meanwhile, how late the start was after it was due,
// and the rest, which is the line and its rate.
func Tell(waited, held, late time.Duration) Wait {
	late = min(max(late, 0), waited)
	held = min(max(held, 0), waited-late)
	return Wait{Bucket: waited - late - held, Hold: held, Worker: late}
}

// String is as in "41.2 s = 38.0 bucket + 3.2 hold + 0.0 worker". It is where one part ends and the next begins that is
// rounded, so that the parts always add up.
func (w Wait) String() string {
	const tenth = 100 * time.Millisecond
	bucket := w.Bucket.Round(tenth)
	hold := (w.Bucket + w.Hold).Round(tenth)
	all := (w.Bucket + w.Hold + w.Worker).Round(tenth)
	return fmt.Sprintf("%.1f s = %.1f bucket + %.1f hold + %.1f worker",
		all.Seconds(), bucket.Seconds(), (hold - bucket).Seconds(), (all - hold).Seconds())
}

// Request begins the span of an outbound call, which takes its context along. end is told the answer, or that there was
// none. Neither path nor query of the url is told: they may name people.
func (t *Tracing) Request(req *http.Request) (end func(*http.Response, error)) {
	if !t.on {
		return func(*http.Response, error) {}
	}
	ctx, span := t.tracer.Start(req.Context(), "http:call", trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("http.request.method", req.Method), attribute.String("server.address", req.URL.Host),
	))
	if req.Header.Get("traceparent") == "" { // unless the job has one of its own
		t.carry.Inject(ctx, propagation.HeaderCarrier(req.Header))
	}
	return func(resp *http.Response, err error) {
		switch {
		case err != nil:
			fail(span, "no answer")
		case resp.StatusCode >= 400:
			fail(span, resp.Status)
			fallthrough
		default:
			span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
		}
		span.End()
	}
}
