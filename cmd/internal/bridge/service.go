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
	"github.com/spout-queue/spout/cmd/internal/metercheck"
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
	micro.Service
	b      *Bridge
	meters *metercheck.Meters
	desk   *desk
	places chan struct{} // one for each request that has come and is not answered
	// unheard: there are requests without a reply subject.
	unheard outage
}

// serve opens the micro service: with all its endpoints, or, without requests, with none, so that others see that it lives.
func (b *Bridge) serve(ctx context.Context) (*service, error) {
	s := &service{b: b, meters: metercheck.New(b.o.Queue), places: make(chan struct{}, requestsMost)}
	s.desk = &desk{s: s, ctx: context.WithoutCancel(ctx)} // what has come is answered when the bridge stops, too
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
	s.Service = svc
	if b.o.Requests {
		err = s.listen(ctx)
	}
	if err == nil {
		err = b.mayListen()
	}
	if err != nil {
		return nil, errors.Join(err, svc.Stop())
	}
	return s, nil
}

// listen opens the endpoints.
func (s *service) listen(ctx context.Context) error {
	group := s.AddGroup(string(s.b.o.Stream.Subjects))
	for _, e := range []struct {
		name, subject string
		handle        micro.HandlerFunc
	}{
		{"submit", "submit.*", s.submit},
		{"submit-batch", "submit.*.batch", s.checked(s.aside(ctx, s.batch))},
		{"submit-nowhere", "submit", s.nowhere},
		{"meter-check", "meter.check", s.aside(ctx, s.check)},
	} {
		if err := group.AddEndpoint(e.name, e.handle, micro.WithEndpointSubject(e.subject)); err != nil {
			return fmt.Errorf("open endpoint %s: %w", e.subject, err)
		}
	}
	return nil
}

// mayListen tells that the account may not have what the service subscribed to. It would be deaf, and look as if it served.
func (b *Bridge) mayListen() error {
	if err := b.o.NATS.FlushTimeout(tryTime); err != nil {
		return nil //nolint:nilerr // the connection is lost, and made again
	}
	err := b.o.NATS.LastError()
	if errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), "Subscription") {
		return fmt.Errorf("the account may not listen: %w; docs/nats.md has what it needs", err)
	}
	return nil
}

func (b *Bridge) stats() any {
	return map[string]int64{
		"admitted": b.counts.admitted.Load(), "duplicate": b.counts.duplicate.Load(), "rejected": b.counts.rejected.Load(),
		"events_dropped": b.o.Events.Dropped(),
	}
}

// aside answers requests side by side, since those of one subscription come one after the other.
func (s *service) aside(ctx context.Context, handle func(context.Context, micro.Request)) micro.HandlerFunc {
	return func(r micro.Request) {
		s.places <- struct{}{}
		go func() {
			defer func() { <-s.places }()
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.b.o.RequestTime)
			defer cancel()
			handle(ctx, r)
		}()
	}
}

// finish lets no more requests in, and waits, not for ever, until those that have come are answered.
func (s *service) finish() {
	if err := errors.Join(s.Stop(), s.b.o.NATS.FlushTimeout(time.Second)); err != nil { // now none is on its way any more
		s.b.o.Log.Debug("could not leave in order", slog.String("error", err.Error()))
	}
	tick := time.NewTicker(quietTime)
	defer tick.Stop()
	for deadline := time.Now().Add(finishTime); time.Now().Before(deadline); {
		<-tick.C // those that came last have been taken up since
		if len(s.places) == 0 {
			return
		}
	}
}

// quietTime is how long a request may be between its subscription and its handler.
const quietTime = 20 * time.Millisecond

// class is the one that a subject names.
func (s *service) class(r micro.Request) string {
	class, _, _ := strings.Cut(r.Subject()[len(s.b.o.Stream.Subjects.Submit("")):], ".")
	return class
}

func (s *service) submit(r micro.Request) {
	job, err := parse(s.class(r), nats.Header(r.Headers()), r.Data())
	if err != nil {
		s.b.tell(job, queue.Receipt{}, err)
		s.refuseAtOnce(r, err)
		return
	}
	s.places <- struct{}{}
	s.desk.take(request{s.replyTo(r), job})
}

// replyTo is where the answer to a request goes; empty for nowhere. It is the asker who says where, and the bridge who may publish
// there: subjects of the server ($JS.API.…) or of this installation are not for answers, or who may only ask could purge the stream.
func (s *service) replyTo(r micro.Request) string {
	reply := r.Reply()
	if strings.HasPrefix(reply, "$") || strings.HasPrefix(reply, string(s.b.o.Stream.Subjects)+".") {
		return ""
	}
	return reply
}

func (s *service) nowhere(r micro.Request) {
	s.refuseAtOnce(r, fmt.Errorf("%w: subject %s names no class; send to %s", queue.ErrInvalid, r.Subject(), s.b.o.Stream.Subjects.Submit("<class>")))
}

// refuseAtOnce refuses before the handler returns, so that micro counts it.
func (s *service) refuseAtOnce(r micro.Request, err error) {
	if s.replyTo(r) == "" {
		s.sent(nats.ErrMsgNoReply)
		return
	}
	header, data := refusal(err)
	s.sent(r.Error(header.Get(micro.ErrorCodeHeader), header.Get(micro.ErrorHeader), data, micro.WithHeaders(micro.Headers(header))))
}

// refusal is a micro error: the code of the reason, when to come back, and the rejection's object.
func refusal(err error) (nats.Header, []byte) {
	data, failed := answer.Rejection{Err: err}.MarshalJSON()
	if failed != nil {
		panic(failed) // a shape of strings and numbers always marshals
	}
	header := errorHeader(answer.Code(err), string(answer.Reason(err))+": "+oneLine(err))
	if full, ok := errors.AsType[*queue.FullError](err); ok && !full.Paused {
		header.Set(HeaderRetryAfter, seconds(full.RetryAfter))
	}
	return header, data
}

// errorHeader is that of a micro error.
func errorHeader(code int, text string) nats.Header {
	return nats.Header{micro.ErrorCodeHeader: {strconv.Itoa(code)}, micro.ErrorHeader: {text}}
}

// send sends the answer to a request whose handler may have returned. The methods of micro's requests are for before: they note
// errors where micro reads them at the same time.
func (s *service) send(m *nats.Msg) { s.sent(s.b.o.NATS.PublishMsg(m)) }

// seconds is a duration in whole seconds, rounded up.
func seconds(d time.Duration) string {
	return strconv.FormatInt(int64((max(d, 0)+time.Second-1)/time.Second), 10)
}

// sent notes an answer that nobody gets: who asked repeats the question, unless nobody did.
func (s *service) sent(err error) {
	switch {
	case err == nil:
	case !errors.Is(err, nats.ErrMsgNoReply) && !errors.Is(err, nats.ErrBadSubject): // a request has a reply subject, a message none
		s.b.o.Log.Debug("an answer could not be sent", slog.String("error", err.Error()))
	case s.unheard.tell(true):
		s.b.o.Log.Warn("a message came where requests are answered: nobody hears what became of its job; send a request, or publish to the stream",
			slog.String("stream", s.b.o.Stream.Subjects.Jobs("<class>", "")+"<key token>"))
	}
}

// checked refuses what is no batch.
func (s *service) checked(batch micro.HandlerFunc) micro.HandlerFunc {
	return func(r micro.Request) {
		if err := checkBatch(r); err != nil {
			s.refuseAtOnce(r, err)
			return
		}
		batch(r)
	}
}

func checkBatch(r micro.Request) error {
	h := nats.Header(r.Headers())
	switch n := len(linesOf(r)); {
	case len(bytes.TrimSpace(r.Data())) == 0:
		return fmt.Errorf("%w: the batch is empty; it must be job lines", queue.ErrInvalid)
	case n > batchMost:
		return fmt.Errorf("%w: the batch has %d lines; %d are read", queue.ErrTooLarge, n, batchMost)
	case h.Get(HeaderKey) != "" || h.Get(HeaderID) != "":
		return fmt.Errorf("%w: the headers %s and %s are for a single job; in a batch each line has its own key and id", queue.ErrInvalid, HeaderKey, HeaderID)
	}
	return nil
}

func linesOf(r micro.Request) [][]byte {
	return bytes.Split(bytes.TrimRight(r.Data(), "\r\n"), []byte("\n"))
}

// batch answers job lines with as many lines, each a receipt or a rejection with the number of its line.
func (s *service) batch(ctx context.Context, r micro.Request) {
	lines, class := linesOf(r), s.class(r)
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
	m := &nats.Msg{Subject: s.replyTo(r), Data: answers(results)}
	if most := s.b.o.NATS.MaxPayload(); int64(len(m.Data)) > most {
		m.Header, m.Data = refusal(fmt.Errorf("%w: the jobs were submitted, but the answer has %d bytes and this NATS carries %d: send fewer lines, with the same ids",
			queue.ErrUnknown, len(m.Data), most))
	}
	s.send(m)
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
