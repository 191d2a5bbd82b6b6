package bridge_test

import (
	"context"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spout-queue/spout/cmd/internal/bridge"
	"github.com/spout-queue/spout/cmd/internal/natsconn"
	"github.com/spout-queue/spout/queue"
)

// claimed are the consumers of the stream.
func (s *site) claimed() (names []string) {
	stream, err := s.js.Stream(s.tb.Context(), s.config.Name)
	if err != nil {
		return nil
	}
	list := stream.ConsumerNames(s.tb.Context())
	for name := range list.Name() {
		names = append(names, name)
	}
	return names
}

// carrier is who carries the class calls.
func (s *site) carrier() string {
	for _, name := range s.claimed() {
		if id, ok := strings.CutSuffix(name, "-calls"); ok {
			return id
		}
	}
	return ""
}

// While Redis is away messages wait in the stream, and go in, in order, when it is back; the bridge is alive and not ready.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	s := newSite(t, class("calls", 1000))
	b, _ := s.bridge()
	s.publish("calls", "k", "0")
	until(t, "the first is admitted", func() bool { return s.left() == 0 })
	if err := b.Ready(); err != nil {
		t.Errorf("not ready: %v", err)
	}
	if err := s.redis.Client(t).Save(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.redis.Kill()
	for _, id := range numbers(50)[1:] {
		s.publish("calls", "k", id)
	}
	if err := b.Ready(); err == nil || !strings.Contains(err.Error(), "redis") {
		t.Errorf("ready without redis: %v", err)
	}
	if n := s.left(); n != 49 {
		t.Errorf("%d messages wait, want 49", n)
	}
	s.redis.Restart()
	until(t, "all are admitted", func() bool { return s.left() == 0 })
	if diff := cmp.Diff(numbers(50), s.ids("calls", "k")); diff != "" {
		t.Error(diff)
	}
	until(t, "it is ready", func() bool { return b.Ready() == nil })
}

// A bridge that lost NATS is not ready, and goes on where it was when NATS is back.
func TestNATSAway(t *testing.T) {
	t.Parallel()
	s := newSite(t, class("calls", 1000))
	b, _ := s.bridge()
	s.publish("calls", "k", "0")
	until(t, "the first is admitted", func() bool { return s.left() == 0 })
	s.nats.Stop()
	until(t, "it notices", func() bool { return b.Ready() != nil })
	s.nats.Restart()
	until(t, "it is ready", func() bool { return b.Ready() == nil })
	until(t, "it goes on", func() bool {
		_, err := s.js.Publish(t.Context(), s.config.Subjects.Jobs("calls", "k"), []byte(`{"key":"k","id":"1","payload":1}`))
		return err == nil
	})
	until(t, "the second is admitted", func() bool { return s.level("calls", "k") == 2 })
}

// A bucket that is broken in Redis holds up its own messages only.
func TestSickBucket(t *testing.T) {
	t.Parallel()
	c := queue.NewClass("calls", 100, queue.Rate{Limit: 10, Period: time.Second}) // what waits comes back soon
	s := newSite(t, c)
	var log logged
	s.bridge(func(o *bridge.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	s.publish("calls", "bad", "0")
	until(t, "it is admitted", func() bool { return s.left() == 0 })
	rdb := s.redis.Client(t)
	lines, err := rdb.Keys(t.Context(), "*:line:calls/bad").Result()
	if err != nil || len(lines) != 1 {
		t.Fatalf("%v, %v", lines, err)
	}
	if err := rdb.Set(t.Context(), lines[0], "not a line", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.publish("calls", "bad", "1")
	s.publish("calls", "bad", "2")
	for _, id := range numbers(20) {
		s.publish("calls", "good", id)
		until(t, "the others are admitted", func() bool { return s.left() == 2 })
	}
	if log.says("redis does not take jobs") {
		t.Errorf("the log:\n%s", log.all())
	}
	if err := rdb.Del(t.Context(), lines[0]).Err(); err != nil {
		t.Fatal(err)
	}
	if err := s.client.Buckets().Resume(t.Context(), "calls", "bad"); err != nil {
		t.Fatal(err)
	}
	until(t, "its messages go in when it is mended", func() bool { return s.left() == 0 })
	if diff := cmp.Diff([]string{"1", "2"}, s.ids("calls", "bad")); diff != "" {
		t.Error(diff)
	}
}

// A bridge that is told to stop while NATS is away does not wait for it, however many classes it carries.
func TestStopWithoutNATS(t *testing.T) {
	t.Parallel()
	var classes []queue.Class
	for _, id := range numbers(30) {
		classes = append(classes, class("calls-"+id, 10))
	}
	s := newSite(t, classes...)
	_, stop := s.bridge()
	until(t, "it carries all classes", func() bool { return len(s.claimed()) == 31 })
	s.nats.Stop()
	begin := time.Now()
	stop()
	if took := time.Since(begin); took > 20*time.Second {
		t.Errorf("it took %v to stop", took)
	}
}

// Of two bridges one carries a class; when it is gone, stopped or not, the other does, with what was not admitted.
func TestTakeOver(t *testing.T) {
	t.Parallel()
	s := newSite(t, class("calls", 3))
	var first *natsconn.Conn
	s.bridge(func(o *bridge.Options) { first = o.NATS })
	until(t, "the first carries the class", func() bool { return s.carrier() != "" })
	owner := s.carrier()
	for _, id := range numbers(10) {
		s.publish("calls", "k", id)
	}
	until(t, "the bucket is full", func() bool { return s.level("calls", "k") == 3 })
	_, stop := s.bridge()
	if now := s.carrier(); now != owner {
		t.Errorf("%s carries the class, and %s did", now, owner)
	}
	first.Close() // as a crash: nothing is given back
	until(t, "the second carries the class", func() bool {
		now := s.carrier()
		return now != "" && now != owner
	})
	s.purge("calls", "k")
	second := s.carrier()
	s.bridge()
	stop()
	until(t, "the third carries the class", func() bool {
		now := s.carrier()
		return now != "" && now != second
	})
	until(t, "the next are admitted", func() bool { return s.level("calls", "k") == 3 })
	if diff := cmp.Diff([]string{"3", "4", "5"}, s.ids("calls", "k")); diff != "" {
		t.Error(diff)
	}
	if n := s.left(); n != 4 {
		t.Errorf("%d messages wait, want 4", n)
	}
}

// What was purged from the stream holds nobody up: here the first of a full key.
func TestPurgedStream(t *testing.T) {
	t.Parallel()
	s := newSite(t, class("calls", 1))
	s.bridge()
	for _, id := range numbers(5) {
		s.publish("calls", "k", id)
	}
	until(t, "the bucket is full", func() bool { return s.left() == 4 })
	stream, err := s.js.Stream(t.Context(), s.config.Name)
	if err != nil {
		t.Fatal(err)
	}
	if err := stream.Purge(t.Context(), jetstream.WithPurgeSubject(s.config.Subjects.Jobs("calls", "k"))); err != nil {
		t.Fatal(err)
	}
	s.publish("calls", "other", "1")
	until(t, "another key is admitted", func() bool { return s.level("calls", "other") == 1 })
	until(t, "nothing waits", func() bool { return s.left() == 0 })
}

// A class that is made after its messages have come takes them.
func TestLateClass(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.bridge()
	until(t, "the bridge is there", func() bool { return s.claimed() != nil })
	if _, err := s.client.Classes().Put(context.Background(), class("late", 3)); err != nil {
		t.Fatal(err)
	}
	s.publish("late", "k", "1")
	until(t, "it is admitted", func() bool { return s.level("late", "k") == 1 })
}

// A message without an id is the same job however often it is delivered.
func TestIDOfMessage(t *testing.T) {
	t.Parallel()
	s := newSite(t, class("calls", 3))
	s.bridge()
	s.send(s.config.Subjects.Jobs("calls", "k"), []byte(`{"key":"k","payload":1}`))
	until(t, "it is admitted", func() bool { return s.level("calls", "k") == 1 })
	if ids := s.ids("calls", "k"); !strings.HasPrefix(ids[0], s.config.Name+"-1-") {
		t.Errorf("its id is %v", ids)
	}
}
