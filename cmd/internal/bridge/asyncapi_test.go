package bridge_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v3"

	"github.com/spout-queue/spout/cmd/internal/bridge"
	"github.com/spout-queue/spout/cmd/internal/events"
	"github.com/spout-queue/spout/cmd/internal/jobstream"
)

// api is docs/asyncapi.yaml.
type api struct {
	t        *testing.T
	compiler *jsonschema.Compiler
	// Channels by their addresses, with the messages of each.
	channels map[string][]string
}

func readAPI(t *testing.T) *api {
	t.Helper()
	text, err := os.ReadFile("../../../docs/asyncapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	var shape struct {
		Channels map[string]struct {
			Address  string
			Messages map[string]any
		}
	}
	if err := json.Unmarshal(data, &shape); err != nil {
		t.Fatal(err)
	}
	plain, err := jsonschema.UnmarshalJSON(strings.NewReader(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	a := &api{t: t, compiler: jsonschema.NewCompiler(), channels: map[string][]string{}}
	a.compiler.DefaultDraft(jsonschema.Draft7)
	a.compiler.AssertFormat()
	if err := a.compiler.AddResource("asyncapi.json", plain); err != nil {
		t.Fatal(err)
	}
	for _, c := range shape.Channels {
		for message := range c.Messages {
			a.channels[c.Address] = append(a.channels[c.Address], message)
		}
	}
	return a
}

var parameter = regexp.MustCompile(`\\\{\w+\\\}`)

// of is the message of the channel that has a subject.
func (a *api) of(subject string) string {
	for address, messages := range a.channels {
		pattern := parameter.ReplaceAllString(regexp.QuoteMeta(address), `[^.]+`)
		if address != "" && regexp.MustCompile("^"+pattern+"$").MatchString(subject) && len(messages) == 1 {
			return messages[0]
		}
	}
	a.t.Fatalf("no channel has the subject %s", subject)
	return ""
}

func (a *api) check(schema string, value any) {
	a.t.Helper()
	compiled, err := a.compiler.Compile("asyncapi.json#/components/" + schema)
	if err != nil {
		a.t.Fatal(err)
	}
	if err := compiled.Validate(value); err != nil {
		a.t.Errorf("%s: %v\n%v", schema, err, value)
	}
}

// message holds a message against what the document says of it.
func (a *api) message(name string, m *nats.Msg, more ...string) {
	a.t.Helper()
	if name != "rejectedCopy" && name != "meterError" {
		a.json("messages/"+name+"/payload", string(m.Data))
	}
	for _, part := range more {
		if part != "headers" {
			continue
		}
		headers := map[string]any{}
		for name, values := range m.Header {
			headers[name] = values[0]
		}
		a.check("messages/"+name+"/headers", headers)
	}
}

func (a *api) json(schema, text string) {
	a.t.Helper()
	value, err := jsonschema.UnmarshalJSON(strings.NewReader(text))
	if err != nil {
		a.t.Fatalf("%s: %v: %s", schema, err, text)
	}
	a.check(schema, value)
}

// Every kind of message is as docs/asyncapi.yaml says: those of the bridge, and those that it takes.
func TestAsyncAPI(t *testing.T) {
	t.Parallel()
	a := readAPI(t)
	s := newSite(t, class("calls", 1))
	told := make(chan *nats.Msg, 100)
	for _, subject := range []string{"spout.v1.event.>", "spout.v1.rejected.>"} {
		if _, err := s.nc.ChanSubscribe(subject, told); err != nil {
			t.Fatal(err)
		}
	}
	s.bridge(func(o *bridge.Options) { o.Events = events.New(o.NATS, jobstream.DefaultPrefix, "spout/bridge") })
	s.answering()

	const job = `{"class":"calls","key":"k","id":"1","type":"http:call","payload":{},"max_wait":"2h","not_before":"2026-01-31T18:00:00Z"}`
	a.json("messages/"+a.of("spout.v1.submit.calls")+"/payload", job)
	a.message("receipt", s.ask("submit.calls", job))
	a.message("receipt", s.ask("submit.calls", job))
	a.message("rejection", s.ask("submit.calls", `{"key":"k","payload":1}`), "headers")
	a.message("rejection", s.ask("submit.nosuch", `{"key":"k","payload":1}`), "headers")
	for line := range strings.Lines(string(s.ask("submit.calls.batch", "{}\n"+job).Data)) {
		a.json("schemas/answerLine", line)
	}
	const question = `{"key":"a","cost":1,"limit":"1/60s","capacity":1,"algorithm":"gcra","peek":false}`
	a.json("messages/"+a.of("spout.v1.meter.check")+"/payload", question)
	a.message("decision", s.ask("meter.check", question))
	a.message("decision", s.ask("meter.check", question))
	a.message("meterError", s.ask("meter.check", `{}`), "headers")

	const durable = `{"key":"a.b","payload":1}`
	a.json("messages/"+a.of("spout.v1.jobs.calls.a%2Eb")+"/payload", durable)
	s.send("spout.v1.jobs.calls.a%2Eb", []byte(durable))
	s.send("spout.v1.jobs.calls.k", []byte(`{}`))
	seen := map[string]bool{}
	for len(seen) < 3 {
		select {
		case m := <-told:
			name := a.of(m.Subject)
			a.message(name, m, "headers")
			seen[m.Subject] = true
		case <-time.After(30 * time.Second):
			t.Fatalf("heard only %v", seen)
		}
	}
}

// The end of a job is told as the document says.
func TestAsyncAPIResult(t *testing.T) {
	t.Parallel()
	a := readAPI(t)
	var sent []*nats.Msg
	p := events.New(sender(func(m *nats.Msg) { sent = append(sent, m) }), jobstream.DefaultPrefix, "spout/worker")
	for _, e := range []events.Event{
		{What: events.Started, Class: "calls", Key: "k", ID: "a.b", Ref: "0-x", Attempt: 1},
		{What: events.Failed, Class: "calls", Key: "k", ID: "a.b", Ref: "0-x", Attempt: 1, Error: "no"},
		{What: events.Held, Class: "calls", Key: "k", ID: "a.b", Ref: "0-x", Attempt: 1, Error: "no", Until: time.Now(), WholeClass: true},
		{What: events.Dropped, Class: "calls", Key: "k", ID: "5", Ref: "0-x", Final: true},
		{What: events.Done, Class: "calls", Key: "k", ID: "a.b", Ref: "0-x", Attempt: 2, Final: true, Result: []byte(`{"status":200}`)},
		{What: events.Done, Class: "calls", Key: "k", ID: "2", Ref: "0-x", Attempt: 2, Final: true, Result: []byte("plain")},
		{What: events.Dead, Class: "calls", Key: "k", ID: "3", Ref: "0-x", Attempt: 5, Final: true, Error: "no"},
		{What: events.Expired, Class: "calls", Key: "k", ID: "4", Ref: "0-x", Final: true},
	} {
		p.Publish(e)
	}
	flush(t, p)
	for _, m := range sent {
		a.message(a.of(m.Subject), m, "headers")
	}
	if len(sent) != 13 {
		t.Errorf("%d messages", len(sent))
	}
}
