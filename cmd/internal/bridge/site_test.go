package bridge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spout-queue/spout/cmd/internal/bridge"
	"github.com/spout-queue/spout/cmd/internal/jobstream"
	"github.com/spout-queue/spout/cmd/internal/natsconn"
	"github.com/spout-queue/spout/internal/natstest"
	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// site is a Redis, a NATS, and what a producer needs of both.
type site struct {
	tb     testing.TB
	redis  *redistest.Server
	nats   *natstest.Server
	client *queue.Client
	nc     *nats.Conn
	js     jetstream.JetStream
	config jobstream.Config
}

func newSite(tb testing.TB, classes ...queue.Class) *site {
	tb.Helper()
	return newSiteOn(tb, natstest.Start(tb), classes...)
}

func newSiteOn(tb testing.TB, broker *natstest.Server, classes ...queue.Class) *site {
	tb.Helper()
	s := &site{tb: tb, redis: redistest.Start(tb), nats: broker, config: jobstream.Default()}
	s.client = s.open()
	s.nc = s.nats.Client(tb)
	var err error
	if s.js, err = jetstream.New(s.nc); err != nil {
		tb.Fatal(err)
	}
	for _, class := range classes {
		if _, err := s.client.Classes().Put(tb.Context(), class); err != nil {
			tb.Fatal(err)
		}
	}
	return s
}

func (s *site) open() *queue.Client {
	s.tb.Helper()
	client, err := queue.Open(s.tb.Context(), s.redis.Client(s.tb), queue.Options{})
	if err != nil {
		s.tb.Fatal(err)
	}
	return client
}

// class that lets go of a job when a test says so: one departure in an hour.
func class(name string, capacity int) queue.Class {
	c := queue.NewClass(name, capacity, queue.Rate{Limit: 1, Period: time.Hour})
	c.Dedup = time.Hour
	return c
}

// bridge runs one until the test ends or stop is called.
func (s *site) bridge(change ...func(*bridge.Options)) (b *bridge.Bridge, stop func()) {
	s.tb.Helper()
	log := slog.New(slog.NewTextHandler(testLog{s.tb}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	conn, err := natsconn.Connect(s.tb.Context(), natsconn.Options{URL: s.nats.URL, Log: log})
	if err != nil {
		s.tb.Fatal(err)
	}
	o := bridge.Options{
		NATS: conn, Queue: s.open(), Stream: s.config, Requests: true, Durable: true, RequestTime: 4 * time.Second, Log: log,
	}
	for _, f := range change {
		f(&o)
	}
	b, err = bridge.New(s.tb.Context(), o)
	if err != nil {
		s.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.tb.Context()))
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx) }()
	done := false
	stop = func() {
		if done {
			return
		}
		done = true
		cancel()
		if err := <-ended; err != nil {
			s.tb.Errorf("the bridge ended with %v", err)
		}
		conn.Close()
	}
	s.tb.Cleanup(stop)
	return b, stop
}

// testLog shows what a bridge logs when SPOUT_TEST_LOG is set.
type testLog struct{ tb testing.TB }

func (l testLog) Write(p []byte) (int, error) {
	if os.Getenv("SPOUT_TEST_LOG") != "" {
		fmt.Fprintf(os.Stderr, "%s: %s", l.tb.Name(), p)
	}
	return len(p), nil
}

// publish puts a job into the stream.
func (s *site) publish(class, key, id string) {
	s.tb.Helper()
	s.send(s.config.Subjects.Jobs(class, key), line(s.tb, map[string]any{"key": key, "id": id, "payload": map[string]string{"n": id}}))
}

func (s *site) send(subject string, data []byte) {
	s.tb.Helper()
	if _, err := s.js.Publish(s.tb.Context(), subject, data); err != nil {
		s.tb.Fatalf("publish to %s: %v", subject, err)
	}
}

func line(tb testing.TB, job map[string]any) []byte {
	tb.Helper()
	data, err := json.Marshal(job)
	if err != nil {
		tb.Fatal(err)
	}
	return data
}

// until waits for something to become true.
func until(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(60 * time.Second)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			tb.Fatalf("not in time: %s", what)
		}
	}
}

// left is how many messages wait in the stream.
func (s *site) left() uint64 {
	stream, err := s.js.Stream(s.tb.Context(), s.config.Name)
	if err != nil {
		return 1 << 62
	}
	return stream.CachedInfo().State.Msgs
}

func (s *site) level(class, key string) int {
	b, err := s.client.Buckets().Get(s.tb.Context(), class, key)
	if err != nil {
		return -1
	}
	return b.Level
}

// ids of the jobs of a bucket, in line.
func (s *site) ids(class, key string) (ids []string) {
	jobs, err := s.client.Jobs(s.tb.Context(), class, key, false, 1000)
	if err != nil {
		s.tb.Fatal(err)
	}
	for _, j := range jobs {
		ids = append(ids, j.ID)
	}
	return ids
}

// purge empties a bucket.
func (s *site) purge(class, key string) {
	s.tb.Helper()
	if _, err := s.client.Buckets().Purge(s.tb.Context(), class, key); err != nil {
		s.tb.Fatal(err)
	}
}
