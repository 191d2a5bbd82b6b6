package bridge_test

import (
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spout-queue/spout/cmd/internal/bridge"
)

// logged is a log that can be looked at.
type logged struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logged) all() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (l *logged) says(text string) bool { return strings.Contains(l.all(), text) }

// A stream that is changed into one that loses messages is told of while it lasts.
func TestStreamChanged(t *testing.T) {
	t.Parallel()
	s := newSite(t, class("calls", 10))
	var log logged
	s.bridge(func(o *bridge.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	s.publish("calls", "k", "1")
	until(t, "the class is carried", func() bool { return s.left() == 0 })
	stream, err := s.js.Stream(t.Context(), s.config.Name)
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.MaxAge = time.Hour
	if _, err := s.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	until(t, "the log tells of it", func() bool { return log.says("it drops messages after 1h0m0s") })
	s.publish("calls", "k", "2")
	until(t, "the class is carried", func() bool { return s.left() == 0 })
	config.MaxAge = 0
	if _, err := s.js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	until(t, "the log tells of it", func() bool { return log.says("looks after the stream again") })
}

// A consumer that somebody else made for the messages of a class is left alone, and told of: the class is carried once it is
// gone.
func TestForeignConsumer(t *testing.T) {
	t.Parallel()
	s := newSite(t, class("calls", 10))
	_, stop := s.bridge()
	stop() // it made the stream
	stream, err := s.js.Stream(t.Context(), s.config.Name)
	if err != nil {
		t.Fatal(err)
	}
	const name = "peek-calls"
	if _, err := stream.CreateConsumer(t.Context(), jetstream.ConsumerConfig{
		Durable: name, FilterSubjects: s.config.Filters("calls"), AckPolicy: jetstream.AckExplicitPolicy,
	}); err != nil {
		t.Fatal(err)
	}
	var log logged
	s.bridge(func(o *bridge.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	s.publish("calls", "k", "1")
	until(t, "the log tells of it", func() bool { return log.says("nats consumer rm SPOUT_JOBS " + name) })
	until(t, "the rest is carried", func() bool { return len(s.claimed()) == 2 })
	if !slices.Contains(s.claimed(), name) || s.level("calls", "k") != 0 {
		t.Errorf("there are the consumers %v", s.claimed())
	}
	if err := stream.DeleteConsumer(t.Context(), name); err != nil {
		t.Fatal(err)
	}
	until(t, "the class is carried", func() bool { return s.level("calls", "k") == 1 && s.left() == 0 })
	until(t, "the log tells of it", func() bool { return log.says("looks after the stream again") })
}
