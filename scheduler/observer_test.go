package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// told collects what an observer is told of attempts.
type told struct {
	mu    sync.Mutex
	lines []string
}

func (t *told) add(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.lines = append(t.lines, fmt.Sprintf(format, args...))
}

func (t *told) all() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Join(t.lines, "\n")
}

type spanKey struct{}

// observer tells what becomes of each job, with how late it started and how long it waited in whole seconds.
func (t *told) observer() scheduler.Observer {
	return scheduler.Observer{
		Started: func(ctx context.Context, a *scheduler.Attempt) context.Context {
			waited, first := a.Waited()
			t.add("start %s attempt %d late %v waited %v first %v", a.ID, a.Attempt, a.Lateness.Round(time.Second), waited.Round(time.Second), first)
			return context.WithValue(ctx, spanKey{}, a.ID)
		},
		Ended: func(ctx context.Context, a *scheduler.Attempt, e scheduler.End) {
			t.add("end %v attempt %d %s %s%s after %v", ctx.Value(spanKey{}), a.Attempt, e.Outcome, e.Error, e.Reason, e.Run.Round(time.Second))
		},
		Returned: func(a *scheduler.Attempt, why scheduler.ReturnReason) { t.add("back %s %s", a.ID, why) },
		Buried:   func(a *scheduler.Attempt, why string) { t.add("dead %s: %s", a.ID, why) },
	}
}

func TestObserver(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := miniSite(t)
		s.class(t, "a", 10*time.Second, func(c *queue.Class) {
			c.Retry = queue.Retry{MaxAttempts: 2, Backoff: time.Second, MaxBackoff: time.Second, Order: queue.Hold}
		})
		for _, id := range []string{"fails", "works"} {
			job := queue.Job{Class: "a", Key: "k", ID: id, Type: "test", Payload: []byte("0")}
			if _, err := s.client.Submit(t.Context(), job); err != nil {
				t.Fatal(err)
			}
		}
		var seen told
		s.work(t, 0, func(ctx context.Context, task *asynq.Task) error {
			pause(2 * time.Second)
			if ctx.Value(spanKey{}) == "fails" {
				return errors.New("no")
			}
			return nil
		}, scheduler.Options{Observers: []scheduler.Observer{{}, seen.observer()}})
		s.await(t, "a/k", 3)
		pause(time.Minute)
		want := `start fails attempt 1 late 0s waited 0s first true
end fails attempt 1 fail no after 2s
start fails attempt 2 late 0s waited 10s first false
end fails attempt 2 fail no after 2s
dead fails: no
start works attempt 1 late 0s waited 20s first true
end works attempt 1 done  after 2s`
		if diff := cmp.Diff(want, seen.all()); diff != "" {
			t.Error(diff)
		}
	})
}

func TestWorkerMetrics(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewPedanticRegistry()
	s := newSite(t, redistest.Start(t).Client(t), 2)
	s.class(t, "a", time.Millisecond)
	s.submit(t, "a/k", 3)
	reg.MustRegister(scheduler.NewAsynqCollector(s.rdb))
	w := s.work(t, 0, nil, scheduler.Options{
		Concurrency: 7, Metrics: scheduler.NewMetrics(reg, func(context.Context) string { return "4bf92f3577b34da6a3ce929d0e0e4736" }),
	})
	s.await(t, "a/k", 3)
	if b := s.books(t, "a"); b.Done != 3 {
		t.Fatalf("books %+v, want 3 done", b)
	}
	if err := w.Ready(); err != nil {
		t.Errorf("the worker is not ready: %v", err)
	}
	if err := w.Live(); err != nil {
		t.Errorf("the worker does not live: %v", err)
	}
	w.stop(t)
	want := `
# HELP spout_attempts_total Attempts that this worker started and that ended, by outcome.
# TYPE spout_attempts_total counter
spout_attempts_total{class="a",outcome="back"} 0
spout_attempts_total{class="a",outcome="cancelled"} 0
spout_attempts_total{class="a",outcome="dead"} 0
spout_attempts_total{class="a",outcome="done"} 3
spout_attempts_total{class="a",outcome="fail"} 0
spout_attempts_total{class="a",outcome="held"} 0
# HELP spout_slots Attempts that this worker may run at once.
# TYPE spout_slots gauge
spout_slots 7
# HELP spout_slots_used Attempts that this worker runs.
# TYPE spout_slots_used gauge
spout_slots_used 0
# HELP spout_unsettled_verdicts Verdicts that Redis has not taken yet.
# TYPE spout_unsettled_verdicts gauge
spout_unsettled_verdicts 0
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "spout_attempts_total", "spout_slots", "spout_slots_used",
		"spout_unsettled_verdicts"); err != nil {
		t.Error(err)
	}
	problems, err := testutil.GatherAndLint(reg)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	traced, lists := 0, 0
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, b := range m.GetHistogram().GetBucket() {
				if b.GetExemplar() != nil {
					traced++
				}
			}
			if f.GetName() == "spout_asynq_tasks" {
				lists++
				if m.GetGauge().GetValue() != 0 {
					t.Errorf("asynq keeps tasks of ours: %v", m)
				}
			}
		}
	}
	if traced == 0 || lists != 7 {
		t.Errorf("%d exemplars and %d lists of asynq's, want some and 7", traced, lists)
	}
}

func TestNotReadyWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	s := newSite(t, server.Client(t), 1)
	w := s.work(t, 0, nil, scheduler.Options{ShutdownTimeout: time.Millisecond})
	ready := func(want bool) {
		t.Helper()
		deadline := time.After(patience)
		for (w.Ready() == nil) != want {
			select {
			case <-deadline:
				t.Fatalf("ready: %v, want %v", w.Ready(), want)
			case <-time.After(20 * time.Millisecond):
			}
		}
	}
	ready(true)
	server.Kill()
	ready(false)
	if err := w.Live(); err != nil {
		t.Errorf("a worker without Redis should live on: %v", err)
	}
	server.Restart()
	ready(true)
}
