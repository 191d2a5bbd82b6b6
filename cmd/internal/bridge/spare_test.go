package bridge_test

import (
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/cmd/internal/bridge"
)

const waitsForClass = "the class of messages is not in redis; they wait"

// A Redis that has no classes, as when it lost its data, ends no messages: they go in once the classes are applied again.
func TestNoClasses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	var log logged
	s.bridge(func(o *bridge.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	until(t, "the bridge is there", func() bool { return s.claimed() != nil })
	for _, id := range numbers(10) {
		s.publish("calls", "k", id)
	}
	s.send("spout.v1.jobs.calls.k", []byte(`no job`))
	until(t, "the log tells", func() bool { return log.says(waitsForClass) && log.says("no classes at all") })
	until(t, "what is no job is ended", func() bool { return s.left() == 10 })
	if _, err := s.client.Classes().Put(t.Context(), class("calls", 100)); err != nil {
		t.Fatal(err)
	}
	until(t, "all are admitted", func() bool { return s.left() == 0 })
	if diff := cmp.Diff(numbers(10), s.ids("calls", "k")); diff != "" {
		t.Error(diff)
	}
	until(t, "the log tells", func() bool { return log.says("wait for it no longer") })
}

// A class that is removed and made again, or lost together with others that are there again sooner, finds its messages.
func TestClassReturns(t *testing.T) {
	t.Parallel()
	s := newSite(t, class("calls", 100), class("other", 1))
	var log logged
	s.bridge(func(o *bridge.Options) { o.Log = slog.New(slog.NewTextHandler(&log, nil)) })
	s.publish("calls", "k", "0")
	until(t, "the first is admitted", func() bool { return s.left() == 0 })
	if err := s.redis.Client(t).FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.client.Classes().Put(t.Context(), class("other", 1)); err != nil {
		t.Fatal(err)
	}
	for _, id := range numbers(10) {
		s.publish("calls", "k", id)
	}
	until(t, "the log tells", func() bool { return log.says(waitsForClass) })
	if n := s.left(); n != 10 {
		t.Errorf("%d messages wait", n)
	}
	if _, err := s.client.Classes().Put(t.Context(), class("calls", 100)); err != nil {
		t.Fatal(err)
	}
	until(t, "all are admitted", func() bool { return s.left() == 0 })
	if diff := cmp.Diff(numbers(10), s.ids("calls", "k")); diff != "" {
		t.Error(diff)
	}
}
