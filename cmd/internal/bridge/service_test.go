package bridge_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/spout-queue/spout/cmd/internal/bridge"
	"github.com/spout-queue/spout/cmd/internal/events"
	"github.com/spout-queue/spout/cmd/internal/jobstream"
	"github.com/spout-queue/spout/cmd/internal/natsconn"
	"github.com/spout-queue/spout/internal/natstest"
	"github.com/spout-queue/spout/queue"
)

// ask sends a request below the prefix.
func (s *site) ask(subject, body string, header ...string) *nats.Msg {
	s.tb.Helper()
	m := nats.NewMsg(string(s.config.Subjects) + "." + subject)
	m.Data = []byte(body)
	for i := 0; i < len(header); i += 2 {
		m.Header.Set(header[i], header[i+1])
	}
	reply, err := s.nc.RequestMsg(m, 30*time.Second)
	if err != nil {
		s.tb.Fatalf("%s: %v", subject, err)
	}
	return reply
}

// answering waits until a bridge serves.
func (s *site) answering() {
	s.tb.Helper()
	until(s.tb, "a bridge serves", func() bool {
		_, err := s.nc.Request(string(s.config.Subjects)+".submit", nil, 5*time.Second)
		return err == nil
	})
}

// A request is answered with the receipt of the SDK, or with a micro error and the rejection of every door. The table is that of
// design.md, section 7.
func TestRequests(t *testing.T) {
	t.Parallel()
	open, draining, impatient := class("calls", 2), class("closed", 2), class("impatient", 10)
	impatient.MaxWait = time.Second
	s := newSite(t, open, draining, impatient)
	if err := s.client.Buckets().Drain(t.Context(), "closed", "k"); err != nil {
		t.Fatal(err)
	}
	s.bridge()
	s.answering()

	reply := s.ask("submit.calls", `{"key":"k","id":"1","payload":{"n":1}}`)
	var receipt struct {
		Status   string
		ID, Ref  string
		Position int
	}
	if err := json.Unmarshal(reply.Data, &receipt); err != nil || receipt.Status != "admitted" || receipt.ID != "1" || receipt.Position != 1 {
		t.Fatalf("got %s, %v", reply.Data, err)
	}
	if same := s.ask("submit.calls", `{"payload":{"n":1}}`, bridge.HeaderKey, "k", bridge.HeaderID, "1"); !strings.Contains(string(same.Data), `"status":"duplicate"`) {
		t.Errorf("the same by headers: %s", same.Data)
	}
	s.ask("submit.calls", `{"key":"k","payload":1}`)
	s.ask("submit.impatient", `{"key":"k","payload":1}`)

	for _, test := range []struct {
		name, subject, body string
		code                string
		reason              queue.Reason
		retry               bool
	}{
		{"full", "submit.calls", `{"key":"k","payload":2}`, "429", queue.ReasonFull, true},
		{"would expire", "submit.impatient", `{"key":"k","payload":2}`, "429", queue.ReasonWouldExpire, true},
		{"draining", "submit.closed", `{"key":"k","payload":2}`, "409", queue.ReasonDraining, false},
		{"conflict", "submit.calls", `{"key":"k","id":"1","payload":3}`, "409", queue.ReasonConflict, false},
		{"malformed", "submit.calls", `{`, "400", queue.ReasonInvalid, false},
		{"missing key", "submit.calls", `{"payload":1}`, "400", queue.ReasonInvalid, false},
		{"too few tokens", "submit", `{"key":"k","payload":1}`, "400", queue.ReasonInvalid, false},
		{"another class", "submit.calls", `{"class":"closed","key":"k","payload":1}`, "400", queue.ReasonInvalid, false},
		{"unknown class", "submit.nosuch", `{"key":"k","payload":1}`, "404", queue.ReasonUnknownClass, false},
		{"2 MB", "submit.calls", `{"key":"k","payload":"` + strings.Repeat("x", 2<<20) + `"}`, "413", queue.ReasonTooLarge, false},
	} {
		reply := s.ask(test.subject, test.body)
		var rejection struct {
			Status  string
			Reason  queue.Reason
			RetryMS *int64 `json:"retry_after_ms"`
			Detail  string
		}
		err := json.Unmarshal(reply.Data, &rejection)
		if err != nil || rejection.Status != "rejected" || rejection.Reason != test.reason || rejection.Detail == "" ||
			reply.Header.Get(micro.ErrorCodeHeader) != test.code || !strings.HasPrefix(reply.Header.Get(micro.ErrorHeader), string(test.reason)+": ") {
			t.Errorf("%s: got %v %s, %v; want %s %s", test.name, reply.Header, reply.Data, err, test.code, test.reason)
		}
		if got := reply.Header.Get(bridge.HeaderRetryAfter); (got != "") != test.retry || (rejection.RetryMS != nil) != test.retry {
			t.Errorf("%s: Retry-After is %q", test.name, got)
		}
	}
	s.redis.Kill()
	if reply := s.ask("submit.calls", `{"key":"k","id":"9","payload":1}`); !slices.Contains([]string{"503", "504"}, reply.Header.Get(micro.ErrorCodeHeader)) {
		t.Errorf("without redis: got %v", reply.Header)
	}
}

func TestBatch(t *testing.T) {
	t.Parallel()
	s := newSite(t, class("calls", 2))
	s.bridge()
	s.answering()
	reply := s.ask("submit.calls.batch", strings.Join([]string{
		`{"key":"k","id":"1","payload":1}`, `{"key":"k"}`, `{"key":"k","id":"2","payload":1}`, `{"key":"k","id":"3","payload":1}`,
	}, "\n")+"\n")
	var got []string
	for line := range strings.Lines(string(reply.Data)) {
		var a struct {
			Line           int
			Status, Reason string
		}
		if err := json.Unmarshal([]byte(line), &a); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(a.Line, a.Status, a.Reason))
	}
	if want := "1admitted 2rejectedinvalid 3admitted 4rejectedfull"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
	for _, test := range []struct {
		name, body string
		header     []string
		code       string
	}{
		{"1,001 lines", strings.Repeat("{}\n", 1001), nil, "413"},
		{"empty", "", nil, "400"},
		{"blank", " \r\n\n", nil, "400"},
		{"one id for all lines", `{"key":"k","payload":1}`, []string{bridge.HeaderID, "1"}, "400"},
		{"one key for all lines", `{"payload":1}`, []string{bridge.HeaderKey, "k"}, "400"},
	} {
		if reply := s.ask("submit.calls.batch", test.body, test.header...); reply.Header.Get(micro.ErrorCodeHeader) != test.code {
			t.Errorf("%s: %v %s", test.name, reply.Header, reply.Data)
		}
	}
	if n := s.errorsOf("submit-batch"); n != 5 {
		t.Errorf("the statistics have %d errors, want 5", n)
	}
}

// errorsOf is how many requests to an endpoint were errors, as nats micro stats shows it.
func (s *site) errorsOf(endpoint string) int {
	s.tb.Helper()
	reply, err := s.nc.Request("$SRV.STATS.spout", nil, 10*time.Second)
	if err != nil {
		s.tb.Fatal(err)
	}
	var stats micro.Stats
	if err := json.Unmarshal(reply.Data, &stats); err != nil {
		s.tb.Fatal(err)
	}
	at := slices.IndexFunc(stats.Endpoints, func(e *micro.EndpointStats) bool { return e.Name == endpoint })
	if at < 0 {
		s.tb.Fatalf("no endpoint %s in %s", endpoint, reply.Data)
	}
	return stats.Endpoints[at].NumErrors
}

// The answer to a batch that NATS does not carry is an answer all the same.
func TestBatchAnswerTooLong(t *testing.T) {
	t.Parallel()
	s := newSiteOn(t, natstest.Start(t, func(o *server.Options) { o.MaxPayload = 4096 }), class("calls", 1000))
	s.bridge()
	s.answering()
	reply := s.ask("submit.calls.batch", strings.Repeat(`{"key":"k","payload":1}`+"\n", 100))
	if reply.Header.Get(micro.ErrorCodeHeader) != "504" || !strings.Contains(string(reply.Data), "send fewer lines") {
		t.Errorf("got %v %s", reply.Header, reply.Data)
	}
	if n := s.level("calls", "k"); n != 100 {
		t.Errorf("%d jobs are in the bucket", n)
	}
}

// Who publishes where requests are answered has the job submitted, and the log tells that nobody heard the answer.
func TestNoReply(t *testing.T) {
	t.Parallel()
	s := newSite(t, class("calls", 10))
	var log logged
	s.bridge(func(o *bridge.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	s.answering()
	if err := s.nc.Publish("spout.v1.submit.calls", []byte(`{"key":"k","payload":1}`)); err != nil {
		t.Fatal(err)
	}
	until(t, "the job is admitted", func() bool { return s.level("calls", "k") == 1 })
	until(t, "the log tells", func() bool { return log.says("nobody hears what became of its job") })
}

// Who may only ask cannot have the bridge publish where that one may: the answer to a request goes to no subject of the server, nor to
// one of ours.
func TestForeignReply(t *testing.T) {
	t.Parallel()
	s := newSite(t, class("calls", 1))
	var log logged
	s.bridge(func(o *bridge.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	s.answering()
	heard := make(chan *nats.Msg, 100)
	if _, err := s.nc.ChanSubscribe("spout.v1.event.>", heard); err != nil {
		t.Fatal(err)
	}
	s.publish("calls", "k", "1")
	s.publish("calls", "k", "2")
	until(t, "the second waits", func() bool { return s.left() == 1 })
	for _, reply := range []string{"$JS.API.STREAM.PURGE.SPOUT_JOBS", "spout.v1.event.calls.done"} {
		for _, ask := range []struct{ subject, body string }{
			{"submit.calls", `{"key":"other","id":"3","payload":1}`},
			{"submit.calls", `{`},
			{"submit", ``},
			{"submit.calls.batch", ``},
			{"submit.calls.batch", `{"key":"other","id":"3","payload":1}`},
			{"meter.check", `{}`},
			{"meter.check", `{"key":"a","limit":"2/1h"}`},
		} {
			if err := s.nc.PublishRequest("spout.v1."+ask.subject, reply, []byte(ask.body)); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, "the log tells", func() bool { return log.says("nobody hears what became of its job") })
	for _, subject := range []string{"submit.calls", "submit", "submit.calls.batch", "meter.check"} { // behind all of those
		s.ask(subject, ``)
	}
	if n := s.level("calls", "other"); n != 1 {
		t.Errorf("%d jobs were submitted", n)
	}
	if n := s.left(); n != 1 || len(heard) > 0 {
		t.Errorf("%d messages are left in the stream; %d answers went astray", n, len(heard))
	}
}

// JetStream that is away is told of once, not with every try.
func TestWaitsQuietly(t *testing.T) {
	t.Parallel()
	s := newSiteOn(t, natstest.Start(t, func(o *server.Options) { o.JetStream = false }))
	var log logged
	o := bridge.Options{Queue: s.open(), Stream: s.config, Durable: true, Log: slog.New(slog.NewTextHandler(&log, nil))}
	var err error
	if o.NATS, err = natsconn.Connect(t.Context(), natsconn.Options{URL: s.nats.URL, Log: o.Log}); err != nil {
		t.Fatal(err)
	}
	defer o.NATS.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := bridge.New(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	if text := log.all(); strings.Count(text, "waiting for jetstream") != 1 {
		t.Errorf("the log:\n%s", text)
	}
}

func TestMeterCheck(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.bridge()
	s.answering()
	type decision struct {
		Conform          bool
		Limit, Remaining int64
		RetryMS          *int64 `json:"retry_after_ms"`
		Never            bool
	}
	for i, test := range []struct {
		body    string
		conform bool
		left    int64
		retry   bool
	}{
		{`{"key":"a","limit":"2/1h"}`, true, 1, false},
		{`{"key":"a","limit":"2/1h","peek":true}`, true, 1, false},
		{`{"key":"a","limit":"2/1h"}`, true, 0, false},
		{`{"key":"a","limit":"2/1h"}`, false, 0, true},
		{`{"key":"b","limit":"2/1h","cost":3}`, false, 2, false},
		{`{"key":"a","limit":"2/1h","algorithm":"fixed-window"}`, true, 1, false},
	} {
		reply := s.ask("meter.check", test.body)
		var d decision
		if err := json.Unmarshal(reply.Data, &d); err != nil {
			t.Fatalf("%s: %v %v", test.body, reply.Header, err)
		}
		if d.Conform != test.conform || d.Remaining != test.left || (d.RetryMS != nil) != test.retry || (reply.Header.Get("Retry-After") != "") != test.retry {
			t.Errorf("%d: %s: got %s %v", i, test.body, reply.Data, reply.Header)
		}
	}
	for _, body := range []string{``, `{}`, `{"key":"a"}`, `{"key":"a","limit":"x"}`, `{"key":"","limit":"1/1s"}`, `{"key":"a","limit":"1/1s","algorithm":"x"}`, `{"key":"a","limit":"1/1s","more":1}`} {
		if reply := s.ask("meter.check", body); reply.Header.Get(micro.ErrorCodeHeader) != "400" {
			t.Errorf("%s: got %v %s", body, reply.Header, reply.Data)
		}
	}
}

// The service is what the nats command line finds.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.bridge()
	s.answering()
	reply, err := s.nc.Request("$SRV.INFO.spout", nil, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	var info micro.Info
	if err := json.Unmarshal(reply.Data, &info); err != nil {
		t.Fatal(err)
	}
	var subjects []string
	for _, e := range info.Endpoints {
		subjects = append(subjects, e.Subject)
	}
	if got := strings.Join(subjects, " "); got != "spout.v1.submit.* spout.v1.submit.*.batch spout.v1.submit spout.v1.meter.check" {
		t.Errorf("the endpoints are %s", got)
	}
}

// What passes through is told, with the attributes of CloudEvents.
func TestEvents(t *testing.T) {
	t.Parallel()
	s := newSite(t, class("calls", 1))
	heard := make(chan *nats.Msg, 10)
	if _, err := s.nc.ChanSubscribe("spout.v1.event.>", heard); err != nil {
		t.Fatal(err)
	}
	s.bridge(func(o *bridge.Options) { o.Events = events.New(o.NATS, jobstream.DefaultPrefix, "spout/bridge") })
	s.answering()
	s.ask("submit.calls", `{"key":"a.b","id":"1","payload":1}`)
	s.ask("submit.calls", `{"key":"a.b","id":"2","payload":1}`)
	s.publish("calls", "other", "3")
	for _, want := range []struct{ subject, kind, of, data string }{
		{"spout.v1.event.calls.admitted", "spout.job.admitted", "calls/a%2Eb", `"id":"1"`},
		{"spout.v1.event.calls.rejected", "spout.job.rejected", "calls/a%2Eb", `"reason":"full"`},
		{"spout.v1.event.calls.admitted", "spout.job.admitted", "calls/other", `"id":"3"`},
	} {
		var m *nats.Msg
		select {
		case m = <-heard:
		case <-time.After(30 * time.Second):
			t.Fatalf("not heard: %+v", want)
		}
		h := m.Header
		if m.Subject != want.subject || h.Get("ce-type") != want.kind || h.Get("ce-subject") != want.of || h.Get("ce-specversion") != "1.0" ||
			h.Get("ce-source") != "spout/bridge" || h.Get("ce-id") == "" || !strings.Contains(string(m.Data), want.data) {
			t.Errorf("got %s %v %s; want %+v", m.Subject, h, m.Data, want)
		}
	}
}
