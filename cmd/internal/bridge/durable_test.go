package bridge_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spout-queue/spout/cmd/internal/bridge"
	"github.com/spout-queue/spout/cmd/internal/natsconn"
	"github.com/spout-queue/spout/internal/natstest"
	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// worker drains all classes until the test ends, and tells the ids that it ran, by key, in the order in which they left their bucket:
// handlers that begin in order may note it in another on a busy machine.
func (s *site) worker() (ran func(key string) []string) {
	s.tb.Helper()
	var mu sync.Mutex
	seen := map[string]map[string]string{} // key -> stamp of the departure -> id
	w, err := scheduler.New(s.open(), asynq.HandlerFunc(func(ctx context.Context, task *asynq.Task) error {
		name, _ := asynq.GetTaskID(ctx)
		_, stamp, _ := strings.Cut(name, ":")
		mu.Lock()
		defer mu.Unlock()
		key := task.Headers()["Spout-Key"]
		if seen[key] == nil {
			seen[key] = map[string]string{}
		}
		seen[key][stamp] = task.Headers()["Spout-Id"]
		return nil
	}), scheduler.Options{Concurrency: 32, ShutdownTimeout: time.Second})
	if err != nil {
		s.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.tb.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = w.Run(ctx)
	}()
	s.tb.Cleanup(func() { cancel(); <-ended })
	return func(key string) (ids []string) {
		mu.Lock()
		defer mu.Unlock()
		for _, stamp := range slices.Sorted(maps.Keys(seen[key])) { // microseconds since 1970: all of one length
			ids = append(ids, seen[key][stamp])
		}
		return ids
	}
}

func numbers(n int) (ids []string) {
	for i := range n {
		ids = append(ids, fmt.Sprint(i))
	}
	return ids
}

// What waited in the stream before any bridge ran goes in, each key in order; any key is legal.
func TestDurable(t *testing.T) {
	t.Parallel()
	s := newSite(t, class("calls", 1000))
	keys := []string{"a", "a.b", "*", ">", "with space", "ключ/🔑", "%41", strings.Repeat("x", 256)}
	_, stop := s.bridge()
	stop() // it made the stream
	for _, id := range numbers(50) {
		for _, key := range keys {
			s.publish("calls", key, id)
		}
	}
	if n := s.left(); n != uint64(50*len(keys)) {
		t.Fatalf("%d messages wait", n)
	}
	s.bridge()
	until(t, "all messages are acknowledged", func() bool { return s.left() == 0 })
	for _, key := range keys {
		if diff := cmp.Diff(numbers(50), s.ids("calls", key)); diff != "" {
			t.Errorf("key %q: %s", key, diff)
		}
	}
}

// A full bucket keeps its order, and each of its messages goes in as room opens.
func TestFull(t *testing.T) {
	t.Parallel()
	c := queue.NewClass("calls", 5, queue.Rate{Limit: 50, Period: time.Second})
	c.Dedup = time.Hour
	s := newSite(t, c)
	s.bridge()
	ran := s.worker()
	keys := []string{"a", "b", "c"}
	for _, id := range numbers(100) {
		for _, key := range keys {
			s.publish("calls", key, id)
		}
	}
	for _, key := range keys {
		until(t, "all ran", func() bool { return len(ran(key)) >= 100 })
	}
	for _, key := range keys {
		if diff := cmp.Diff(numbers(100), ran(key)); diff != "" {
			t.Errorf("key %s: %s", key, diff)
		}
	}
	until(t, "all messages are acknowledged", func() bool { return s.left() == 0 })
}

// Behind a key with a long backlog, another is admitted at once; a slow class does not delay another at all.
func TestFullKeyDelaysNoOther(t *testing.T) { //nolint:paralleltest // it measures time
	s := newSite(t, class("slow", 3), class("fast", 3))
	_, stop := s.bridge()
	stop()
	const backlog = 20_000 // the most that the stream takes of a key
	for i := range backlog {
		if _, err := s.js.PublishAsync(s.config.Subjects.Jobs("slow", "full"), fmt.Appendf(nil, `{"key":"full","id":"%d","payload":1}`, i), jetstream.WithStallWait(time.Minute)); err != nil {
			t.Fatal(err)
		}
	}
	<-s.js.PublishAsyncComplete()
	s.publish("slow", "other", "1")
	s.bridge()
	const bound = 10 * time.Second // as docs/nats.md tells
	begin := time.Now()
	s.publish("fast", "k", "1")
	until(t, "the other key is admitted", func() bool { return s.level("slow", "other") == 1 && s.level("fast", "k") == 1 })
	if took := time.Since(begin); took > bound {
		t.Errorf("it took %v", took)
	}
	s.publish("slow", "other", "2")
	until(t, "the other key is admitted", func() bool { return s.level("slow", "other") == 2 })
	if diff := cmp.Diff(numbers(3), s.ids("slow", "full")); diff != "" {
		t.Error(diff)
	}
	until(t, "what was admitted is acknowledged", func() bool { return s.left() == backlog-3 })
}

// Messages that are no jobs are ended with a reason and a copy, once.
func TestRejected(t *testing.T) {
	t.Parallel()
	s := newSite(t, class("calls", 10))
	copies := make(chan *nats.Msg, 100)
	if _, err := s.nc.ChanSubscribe(string(s.config.Subjects)+".rejected.>", copies); err != nil {
		t.Fatal(err)
	}
	s.bridge()
	prefix := string(s.config.Subjects)
	for _, test := range []struct {
		name, subject string
		data          string
		to            string // rejected.<to>
		reason, says  string
	}{
		{"malformed", prefix + ".jobs.calls.k", `{"key":`, "calls", "invalid", "not JSON"},
		{"empty", prefix + ".jobs.calls.k", ``, "calls", "invalid", "empty"},
		{"missing key", prefix + ".jobs.calls.k", `{"payload":1}`, "calls", "invalid", `field "key" is missing`},
		{"missing payload", prefix + ".jobs.calls.k", `{"key":"k"}`, "calls", "invalid", `field "payload" is missing`},
		{"unknown field", prefix + ".jobs.calls.k", `{"key":"k","payload":1,"maxwait":"1s"}`, "calls", "invalid", "unknown field"},
		{"another class", prefix + ".jobs.calls.k", `{"class":"mails","key":"k","payload":1}`, "calls", "invalid", "class is"},
		{"another token", prefix + ".jobs.calls.other", `{"key":"a.b","payload":1}`, "calls", "invalid", "a%2Eb"},
		{"unknown class", prefix + ".jobs.nosuch.k", `{"key":"k","payload":1}`, "nosuch", "unknown_class", "nosuch"},
		{"no class at all", prefix + ".jobs", `{"key":"k","payload":1}`, "_", "invalid", "jobs.<class>"},
		{"too few tokens", prefix + ".jobs.calls", `{"key":"k","payload":1}`, "calls", "invalid", "jobs.<class>"},
		{"too many tokens", prefix + ".jobs.calls.a.b", `{"key":"a.b","payload":1}`, "calls", "invalid", "jobs.<class>"},
		{"class of nobody", prefix + ".jobs._.k", `{"key":"k","payload":1}`, "_", "invalid", "class"},
		{"illegal class", prefix + ".jobs.C@lls.k", `{"key":"k","payload":1}`, "C@lls", "invalid", "class"},
		{"payload above the class's", prefix + ".jobs.calls.k", `{"key":"k","payload":"` + strings.Repeat("x", 300<<10) + `"}`, "calls", "too_large", "max_payload"},
		{"2 MB", prefix + ".jobs.calls.k", `{"key":"k","payload":"` + strings.Repeat("x", 2<<20) + `"}`, "calls", "too_large", "bytes"},
	} {
		s.send(test.subject, []byte(test.data))
		var c *nats.Msg
		select {
		case c = <-copies:
		case <-time.After(30 * time.Second):
			t.Fatalf("%s: no copy", test.name)
		}
		h := c.Header
		if c.Subject != prefix+".rejected."+test.to || h.Get(bridge.HeaderReason) != test.reason ||
			!strings.Contains(h.Get(bridge.HeaderDetail), test.says) || h.Get(bridge.HeaderSubject) != test.subject || string(c.Data) != test.data {
			t.Errorf("%s: got %s %v with %d bytes; want rejected.%s, %s, %q", test.name, c.Subject, h, len(c.Data), test.to, test.reason, test.says)
		}
		until(t, test.name+" is gone", func() bool { return s.left() == 0 })
	}
	s.publish("calls", "k", "good")
	until(t, "a good one goes in", func() bool { return s.level("calls", "k") == 1 })
	if len(copies) > 0 {
		t.Errorf("%d messages were rejected twice", len(copies))
	}
}

// Servers take messages on subjects that are patterns. They are answered as any other that is no job, and take no class from those who
// carry it.
func TestRejectedPatterns(t *testing.T) {
	t.Parallel()
	s := newSite(t, class("calls", 100))
	copies := make(chan *nats.Msg, 10)
	if _, err := s.nc.ChanSubscribe("spout.v1.rejected._", copies); err != nil { // a pattern names no class
		t.Fatal(err)
	}
	_, stop := s.bridge()
	stop() // it made the stream
	subjects := map[string]bool{"spout.v1.jobs.*.k": true, "spout.v1.jobs.>.k": true, "spout.v1.jobs.*.*": true, "spout.v1.jobs.>.>": true, "spout.v1.jobs.calls.>": true}
	for _, id := range numbers(10) {
		s.publish("calls", "k", id)
	}
	for subject := range subjects {
		s.send(subject, []byte(`{"key":"k","payload":1}`))
	}
	s.bridge()
	s.bridge()
	for len(subjects) > 0 {
		select {
		case c := <-copies:
			subject := c.Header.Get(bridge.HeaderSubject)
			if !subjects[subject] || c.Header.Get(bridge.HeaderReason) != "invalid" {
				t.Errorf("got %v", c.Header)
			}
			delete(subjects, subject)
		case <-time.After(30 * time.Second):
			t.Fatalf("no copies of %v", subjects)
		}
	}
	until(t, "nothing is left", func() bool { return s.left() == 0 })
	if diff := cmp.Diff(numbers(10), s.ids("calls", "k")); diff != "" {
		t.Error(diff)
	}
	if s.carrier() == "" {
		t.Errorf("nobody carries the class; there are %v", s.claimed())
	}
}

// A header that says two things says nothing; headers that are too long for a copy with the reason are left out of it.
func TestRejectedHeaders(t *testing.T) {
	t.Parallel()
	s := newSiteOn(t, natstest.Start(t, func(o *server.Options) { o.MaxPayload = 8192 }), class("calls", 10))
	copies := make(chan *nats.Msg, 10)
	if _, err := s.nc.ChanSubscribe("spout.v1.rejected.>", copies); err != nil {
		t.Fatal(err)
	}
	s.bridge()
	for _, test := range []struct {
		name   string
		header nats.Header
		says   string
		left   bool
	}{
		{"two keys", nats.Header{bridge.HeaderKey: {"k", "l"}, "More": {"x"}}, "the header Spout-Key is there twice", true},
		{"two ids", nats.Header{bridge.HeaderKey: {"k", "k"}, bridge.HeaderID: {"1", "2"}, "More": {"x"}}, "the header Spout-Id is there twice", true},
		{"long", nats.Header{"More": {strings.Repeat("x", 8120)}}, `field "key" is missing`, false},
	} {
		m := &nats.Msg{Subject: "spout.v1.jobs.calls.k", Header: test.header, Data: []byte(`{"payload":1}`)}
		if _, err := s.js.PublishMsg(t.Context(), m); err != nil {
			t.Fatal(err)
		}
		select {
		case c := <-copies:
			if !strings.Contains(c.Header.Get(bridge.HeaderDetail), test.says) || (c.Header.Get("More") != "") != test.left {
				t.Errorf("%s: %d headers, %s", test.name, len(c.Header), c.Header.Get(bridge.HeaderDetail))
			}
		case <-time.After(30 * time.Second):
			t.Errorf("%s: no copy", test.name)
		}
	}
}

// The permissions that docs/nats.md names are enough for a bridge.
func TestPermissions(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../../docs/nats.md")
	if err != nil {
		t.Fatal(err)
	}
	_, text2, _ := strings.Cut(string(text), "An account needs: subscribe to ")
	subscribe, rest, _ := strings.Cut(text2, "; publish to ")
	publish, _, _ := strings.Cut(rest, ". nats-server")
	quoted := func(text string) (subjects []string) {
		for i, part := range strings.Split(text, "`") {
			if i%2 == 1 {
				subjects = append(subjects, part)
			}
		}
		return subjects
	}
	users := []*server.User{
		{Username: "all", Password: "x"},
		{Username: "bridge", Password: "x", Permissions: &server.Permissions{
			Subscribe: &server.SubjectPermission{Allow: quoted(subscribe)}, Publish: &server.SubjectPermission{Allow: quoted(publish)},
		}},
	}
	s := newSiteOn(t, natstest.Start(t, func(o *server.Options) { o.Users, o.NoAuthUser = users, "all" }), class("calls", 10))
	if _, err := s.nc.Subscribe("spout.v1.rejected.>", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	s.bridge(func(o *bridge.Options) {
		conn, err := natsconn.Connect(t.Context(), natsconn.Options{URL: strings.Replace(s.nats.URL, "://", "://bridge:x@", 1), Log: o.Log})
		if err != nil {
			t.Fatal(err)
		}
		o.NATS.Close()
		o.NATS = conn
		t.Cleanup(conn.Close)
	})
	s.answering()
	s.ask("submit.calls", `{"key":"k","id":"1","payload":1}`)
	s.publish("calls", "k", "2")
	s.send("spout.v1.jobs.calls.k", []byte(`{}`))
	s.send("spout.v1.jobs.nosuch.k", []byte(`{"key":"k","payload":1}`))
	until(t, "all is answered", func() bool { return s.level("calls", "k") == 2 && s.left() == 0 })
}
