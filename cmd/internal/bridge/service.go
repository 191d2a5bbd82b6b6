package bridge

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/queue"
)

const (
	// serviceName is what nats micro ls shows, and where bridges ask each other for a sign of life.
	serviceName    = "spout"
	serviceVersion = "1.0.0"
	// requestsMost is how many requests are answered at once; more wait in their subscriptions.
	requestsMost = 1024
	// batchMost is the most lines of a batch.
	batchMost = 1000
)

// HeaderRetryAfter has whole seconds, rounded up, as in HTTP.
const HeaderRetryAfter = "Retry-After"

// service answers requests.
type service struct {
	b      *Bridge
	meters *meters
	places chan struct{} // one for each clerk
	work   chan func()
}

// serve opens the micro service: with all its endpoints, or, without requests, with none, so that others see that it lives.
func (b *Bridge) serve(ctx context.Context) (micro.Service, error) {
	s := &service{b: b, meters: newMeters(b.o.Queue), places: make(chan struct{}, requestsMost), work: make(chan func())}
	svc, err := micro.AddService(b.o.NATS.Conn, micro.Config{
		Name: serviceName, Version: serviceVersion, Description: "puts jobs into buckets with a fixed outflow, or says when to come back",
		Metadata:     map[string]string{"prefix": string(b.o.Stream.Subjects), "stream": b.o.Stream.Name, "installation": b.o.Queue.Prefix()},
		StatsHandler: func(*micro.Endpoint) any { return b.stats() },
		ErrorHandler: func(_ micro.Service, err *micro.NATSError) {
			b.o.Log.Warn("nats", slog.String("subject", err.Subject), slog.String("error", err.Description))
		},
	})
	if err != nil {
		return nil, fmt.Errorf("open the service: %w", err)
	}
	if !b.o.Requests {
		return svc, nil
	}
	group := svc.AddGroup(string(b.o.Stream.Subjects))
	for _, e := range []struct {
		name, subject string
		handle        func(context.Context, micro.Request)
	}{
		{"submit", "submit.*", s.submit},
		{"submit-batch", "submit.*.batch", s.batch},
		{"submit-nowhere", "submit", s.nowhere},
		{"meter-check", "meter.check", s.check},
	} {
		if err := group.AddEndpoint(e.name, s.endpoint(ctx, e.handle), micro.WithEndpointSubject(e.subject)); err != nil {
			return nil, errors.Join(fmt.Errorf("open endpoint %s: %w", e.subject, err), svc.Stop())
		}
	}
	return svc, nil
}

func (b *Bridge) stats() any {
	return map[string]int64{
		"admitted": b.counts.admitted.Load(), "duplicate": b.counts.duplicate.Load(), "rejected": b.counts.rejected.Load(),
		"events_dropped": b.o.Events.Dropped(),
	}
}

// endpoint answers requests side by side, since those of one subscription come one after the other: so they share round
// trips to Redis.
func (s *service) endpoint(ctx context.Context, handle func(context.Context, micro.Request)) micro.Handler {
	return micro.HandlerFunc(func(r micro.Request) {
		task := func() {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.b.o.RequestTime)
			defer cancel()
			handle(ctx, r)
		}
		select {
		case s.work <- task:
			return
		default:
		}
		select {
		case s.work <- task:
		case s.places <- struct{}{}:
			go s.clerk(task)
		}
	})
}

// idleTime is how long a clerk waits for the next request.
const idleTime = 10 * time.Second

// clerk answers requests one after the other. They stay for a while: a new goroutine would have to grow its stack each time.
func (s *service) clerk(task func()) {
	defer func() { <-s.places }()
	idle := time.NewTimer(idleTime)
	defer idle.Stop()
	for {
		task()
		idle.Reset(idleTime)
		select {
		case task = <-s.work:
		case <-idle.C:
			return
		}
	}
}

// class is the one that a subject names.
func (s *service) class(r micro.Request) string {
	class, _, _ := strings.Cut(r.Subject()[len(s.b.o.Stream.Subjects.Submit("")):], ".")
	return class
}

func (s *service) submit(ctx context.Context, r micro.Request) {
	job, err := parse(s.class(r), nats.Header(r.Headers()), r.Data())
	var receipt queue.Receipt
	if err == nil {
		receipt, err = s.b.o.Queue.Submit(ctx, job)
		job.ID = receipt.ID
	}
	s.b.tell(job, receipt, err)
	if err != nil {
		s.refuse(r, err)
		return
	}
	data, err := receipt.MarshalJSON()
	if err != nil {
		panic(err) // a shape of strings and numbers always marshals
	}
	s.sent(r.Respond(data))
}

func (s *service) nowhere(_ context.Context, r micro.Request) {
	s.refuse(r, fmt.Errorf("%w: subject %s names no class; send to %s", queue.ErrInvalid, r.Subject(), s.b.o.Stream.Subjects.Submit("<class>")))
}

// refuse answers with a micro error: the code of the reason, when to come back, and the rejection's object.
func (s *service) refuse(r micro.Request, err error) {
	rejection := answer.Rejection{Err: err}
	data, failed := rejection.MarshalJSON()
	if failed != nil {
		data = nil
	}
	header := micro.Headers{}
	if full, ok := errors.AsType[*queue.FullError](err); ok && !full.Paused {
		header[HeaderRetryAfter] = []string{seconds(full.RetryAfter)}
	}
	s.sent(r.Error(strconv.Itoa(answer.Code(err)), string(answer.Reason(err))+": "+oneLine(err), data, micro.WithHeaders(header)))
}

// seconds is a duration in whole seconds, rounded up.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((max(d, 0)+time.Second-1)/time.Second), 10)
}

// sent notes an answer that nobody gets: who asked repeats the question.
func (s *service) sent(err error) {
	if err != nil {
		s.b.o.Log.Debug("an answer could not be sent", slog.String("error", err.Error()))
	}
}

// batch answers job lines with as many lines, each a receipt or a rejection with the number of its line.
func (s *service) batch(ctx context.Context, r micro.Request) {
	lines := bytes.Split(bytes.TrimRight(r.Data(), "\r\n"), []byte("\n"))
	if len(lines) > batchMost {
		s.refuse(r, fmt.Errorf("%w: the batch has %d lines; %d are read", queue.ErrTooLarge, len(lines), batchMost))
		return
	}
	class := s.class(r)
	jobs := make([]queue.Job, 0, len(lines))
	results := make([]queue.Result, len(lines))
	var at []int
	for i, line := range lines {
		job, err := parse(class, nil, line)
		if err != nil {
			results[i].Err = err
			s.b.tell(queue.Job{Class: class}, queue.Receipt{}, err)
			continue
		}
		if job.ID == "" {
			job.ID = rand.Text() // here, so that an answer of unknown has it
		}
		jobs, at = append(jobs, job), append(at, i)
	}
	for i, result := range s.b.o.Queue.SubmitMany(ctx, jobs) {
		results[at[i]] = result
		s.b.tell(jobs[i], result.Receipt, result.Err)
	}
	s.sent(r.Respond(answers(results)))
}

func answers(results []queue.Result) []byte {
	var b bytes.Buffer
	for i, r := range results {
		var said json.Marshaler = r.Receipt
		if r.Err != nil {
			said = answer.Rejection{Err: r.Err}
		}
		line, err := answer.OfLine{Line: i + 1, Answer: said}.MarshalJSON()
		if err != nil {
			panic(err) // shapes of strings and numbers always marshal
		}
		b.Write(line)
		b.WriteByte('\n')
	}
	return b.Bytes()
}
