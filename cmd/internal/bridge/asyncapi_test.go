package bridge_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
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
	doc      apiDoc
	checked  map[string]bool // messages that were held against a real one
}

type apiDoc struct {
	Channels map[string]struct {
		Address    string
		Messages   map[string]any
		Parameters map[string]struct{ Enum []string }
	}
	Components struct{ Messages map[string]any }
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
	a := &api{t: t, compiler: jsonschema.NewCompiler(), checked: map[string]bool{}}
	if err := json.Unmarshal(data, &a.doc); err != nil {
		t.Fatal(err)
	}
	plain, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	a.compiler.DefaultDraft(jsonschema.Draft7)
	a.compiler.AssertFormat()
	a.official(plain)
	if err := a.compiler.AddResource("asyncapi.json", plain); err != nil {
		t.Fatal(err)
	}
	return a
}

// official holds the document against the schema of AsyncAPI itself. See testdata/asyncapi.
func (a *api) official(doc any) {
	a.t.Helper()
	const sum = "abc1287c0fa718215a084b33a8c098aa580361f483759c1cbdf34a1928eded3b"
	file, err := os.ReadFile("testdata/asyncapi/3.0.0.json.gz")
	if err != nil {
		a.t.Fatal(err)
	}
	unzipped, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		a.t.Fatal(err)
	}
	text, err := io.ReadAll(unzipped)
	if err != nil {
		a.t.Fatal(err)
	}
	if got := fmt.Sprintf("%x", sha256.Sum256(text)); got != sum {
		a.t.Fatalf("the schema has the SHA-256 %s, not %s", got, sum)
	}
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		a.t.Fatal(err)
	}
	if err := a.compiler.AddResource("official.json", schema); err != nil {
		a.t.Fatal(err)
	}
	compiled, err := a.compiler.Compile("official.json")
	if err != nil {
		a.t.Fatal(err)
	}
	if err := compiled.Validate(doc); err != nil {
		a.t.Errorf("docs/asyncapi.yaml is no AsyncAPI 3.0 document: %v", err)
	}
}

var parameter = regexp.MustCompile(`\\\{(\w+)\\\}`)

// of is the message of the channel that has a subject, with values for its parameters that the channel knows.
func (a *api) of(subject string) string {
	a.t.Helper()
	for _, channel := range a.doc.Channels {
		pattern := regexp.MustCompile("^" + parameter.ReplaceAllString(regexp.QuoteMeta(channel.Address), `(?P<$1>[^.]+)`) + "$")
		values := pattern.FindStringSubmatch(subject)
		if channel.Address == "" || values == nil {
			continue
		}
		for i, name := range pattern.SubexpNames() {
			if known := channel.Parameters[name].Enum; known != nil && !slices.Contains(known, values[i]) {
				a.t.Errorf("%s: %s is none of %v", subject, values[i], known)
			}
		}
		for message := range channel.Messages {
			return message
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
func (a *api) message(name string, m *nats.Msg) {
	a.t.Helper()
	a.checked[name] = true
	headers := map[string]any{}
	for name, values := range m.Header {
		headers[name] = values[0]
	}
	if message, _ := a.doc.Components.Messages[name].(map[string]any); message["headers"] != nil {
		a.check("messages/"+name+"/headers", headers)
	} else if len(headers) > 0 {
		a.t.Errorf("%s: headers %v, of which the document knows nothing", name, headers)
	}
	switch name {
	case "rejectedCopy": // anything at all
	case "meterError":
		if len(m.Data) > 0 {
			a.t.Errorf("%s: %s", name, m.Data)
		}
	case "jobLines", "answerLines":
		a.check("messages/"+name+"/payload", string(m.Data))
	default:
		a.json("messages/"+name+"/payload", string(m.Data))
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

// answerLine is a receipt or a rejection with the number of its line.
func (a *api) answerLine(line string) {
	a.t.Helper()
	a.json("schemas/answerLine", line)
	var object map[string]any
	if err := json.Unmarshal([]byte(line), &object); err != nil {
		a.t.Fatal(err)
	}
	delete(object, "line")
	if object["status"] == "rejected" {
		a.check("schemas/rejection", object)
	} else {
		a.check("schemas/receipt", object)
	}
}

// The document is one of AsyncAPI, and every message that it names is as it says: those that the bridge takes, its answers, and
// what is told.
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

	ask := func(subject, body string) *nats.Msg {
		t.Helper()
		subject = "spout.v1." + subject
		m := &nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{}}
		if strings.HasPrefix(body, "{") {
			a.message(a.of(subject), m)
		}
		return s.ask(strings.TrimPrefix(subject, "spout.v1."), body)
	}
	const job = `{"class":"calls","key":"k","id":"1","type":"http:call","payload":{},"max_wait":"2h","not_before":"2026-01-31T18:00:00Z"}`
	a.message("receipt", ask("submit.calls", job))
	a.message("receipt", ask("submit.calls", job))
	a.message("rejection", ask("submit.calls", `{"key":"k","payload":1}`))
	a.message("rejection", ask("submit.nosuch", `{"key":"k","payload":1}`))
	a.message("rejection", ask("submit.calls", `not JSON`))
	lines := ask("submit.calls.batch", "{}\n"+job)
	a.message("answerLines", lines)
	for line := range strings.Lines(string(lines.Data)) {
		a.answerLine(line)
	}
	const question = `{"key":"a","cost":1,"limit":"1/60s","capacity":1,"algorithm":"gcra","peek":false}`
	a.message("decision", ask("meter.check", question))
	a.message("decision", ask("meter.check", question))
	a.message("decision", ask("meter.check", `{"key":"b","limit":"1/60s","cost":2}`))
	a.message("meterError", ask("meter.check", `[]`))

	durable := nats.NewMsg("spout.v1.jobs.calls.a%2Eb")
	durable.Data = []byte(`{"payload":{}}`)
	durable.Header = nats.Header{bridge.HeaderKey: {"a.b"}, bridge.HeaderID: {"1"}, "Nats-Msg-Id": {"calls/a.b/1"}}
	a.message(a.of(durable.Subject), durable)
	if _, err := s.js.PublishMsg(t.Context(), durable); err != nil {
		t.Fatal(err)
	}
	s.send("spout.v1.jobs.calls.k", []byte(`{}`))
	awaited := map[string]bool{"spout.v1.event.calls.admitted": true, "spout.v1.event.calls.rejected": true, "spout.v1.rejected.calls": true}
	for len(awaited) > 0 {
		select {
		case m := <-told:
			a.message(a.of(m.Subject), m)
			delete(awaited, m.Subject)
		case <-time.After(30 * time.Second):
			t.Fatalf("not heard: %v", awaited)
		}
	}
	a.ends()
	for name := range a.doc.Components.Messages {
		if !a.checked[name] {
			t.Errorf("no real message %s was looked at", name)
		}
	}
}

// ends holds what a worker tells of jobs against the document, every kind of it.
func (a *api) ends() {
	a.t.Helper()
	var sent []*nats.Msg
	p := events.New(sender(func(m *nats.Msg) { sent = append(sent, m) }), jobstream.DefaultPrefix, "spout/worker")
	for _, e := range []events.Event{
		{What: events.Started, Class: "calls", Key: "k", ID: "a.b", Ref: "0-x", Attempt: 1},
		{What: events.Failed, Class: "calls", Key: "k", ID: "a.b", Ref: "0-x", Attempt: 1, Error: "no"},
		{What: events.Held, Class: "calls", Key: "k", ID: "a.b", Ref: "0-x", Attempt: 1, Error: "no", Until: time.Now(), WholeClass: true},
		{What: events.Dropped, Class: "calls", Key: "k", ID: "5", Ref: "0-x"},
		{What: events.Done, Class: "calls", Key: "k", ID: "a.b", Ref: "0-x", Attempt: 2, Result: []byte(`{"status":200}`)},
		{What: events.Done, Class: "calls", Key: "k", ID: "2", Ref: "0-x", Attempt: 2, Result: []byte("plain")},
		{What: events.Dead, Class: "calls", Key: "k", ID: "3", Ref: "0-x", Attempt: 5, Error: "no"},
		{What: events.Expired, Class: "calls", Key: "k", ID: "4", Ref: "0-x"},
		{What: events.Cancelled, Class: "calls", Key: "k", ID: "6", Ref: "0-x"},
	} {
		p.Publish(e)
	}
	flush(a.t, p)
	for _, m := range sent {
		a.message(a.of(m.Subject), m)
	}
	if len(sent) != 15 {
		a.t.Errorf("%d messages", len(sent))
	}
}
