package scheduler_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"go.uber.org/goleak"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/scheduler"
)

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.MiniClient(t), 1)
	ok := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return nil })
	for name, c := range map[string]struct {
		handler asynq.Handler
		o       scheduler.Options
		says    string
	}{
		"concurrency":      {ok, scheduler.Options{Concurrency: -1}, "concurrency -1"},
		"more concurrency": {ok, scheduler.Options{Concurrency: 10_001}, "concurrency 10001"},
		"shutdown":         {ok, scheduler.Options{ShutdownTimeout: -time.Second}, "shutdown timeout -1s"},
		"freshness":        {ok, scheduler.Options{Freshness: time.Microsecond}, "freshness 1µs"},
		"more freshness":   {ok, scheduler.Options{Freshness: time.Hour}, "freshness 1h"},
		"handler":          {nil, scheduler.Options{}, "no handler"},
	} {
		if w, err := scheduler.New(s.client, c.handler, c.o); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, %v", name, w, err)
		}
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	s := newSite(t, redistest.MiniClient(t), 1)
	a, b := s.work(t, 0, nil, scheduler.Options{}), s.work(t, 1, nil, scheduler.Options{})
	if a.Name() == "" || a.Name() == b.Name() {
		t.Errorf("two workers are named %q and %q", a.Name(), b.Name())
	}
}

// Not parallel, so that nothing else starts goroutines meanwhile.
func TestRunLeavesNothingRunning(t *testing.T) {
	s := newSite(t, redistest.MiniClient(t), 2)
	s.class(t, "a", time.Millisecond)
	before := goleak.IgnoreCurrent()
	release := make(chan struct{})
	w := s.work(t, 0, handlersAtStop(release), scheduler.Options{ShutdownTimeout: time.Millisecond})
	for i := range 8 {
		s.submit(t, fmt.Sprintf("a/%d", i), 1) // in both shards
		s.await(t, fmt.Sprintf("a/%d", i), 1)
	}
	w.stop(t)
	close(release)
	_ = w.rdb.Close()
	// Handlers and miniredis take a moment; goleak retries.
	goleak.VerifyNone(t, before)
}
