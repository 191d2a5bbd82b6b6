package e2e

import (
	"strings"
	"sync"
	"testing"
	"time"
)

// TestPoison has jobs that panic, hang and end the process of their worker: each is dead after its limit, with the reason, and
// all others are done.
func TestPoison(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	limits := "timeout: 1s, max_crashes: 2, retry: {max_attempts: 4, backoff: 100ms, max_backoff: 500ms}"
	ok := lines{class: "ok", buckets: 3, jobs: 70, interval: 500 * time.Millisecond, more: limits, typ: "ok:call"}
	poison := lines{class: "poison", interval: 500 * time.Millisecond, more: limits}
	s.apply(ok, poison)
	reasons := map[string]string{ // by type
		"poison:panic": "panic", "poison:loop": "", "poison:exit": "crash", "poison:goroutine": "crash",
	}
	var jobs strings.Builder
	for typ := range reasons {
		for _, id := range []string{"1", "2"} {
			jobs.WriteString(jobLine(t, map[string]any{"class": "poison", "key": typ, "id": id, "type": typ, "payload": 1}))
		}
	}
	s.run("producer", "bulk", "-f", write(t, "poison.jsonl", jobs.String()))
	s.submit(s.program, ok)

	supervisors := []*supervisor{s.supervise(), s.supervise()}
	s.drained(ok, poison)
	var deaths []fault
	for _, v := range supervisors {
		deaths = append(deaths, v.stop()...)
	}
	t.Logf("%d processes died", len(deaths))

	dead := s.dead("poison")
	if len(dead) != 2*len(reasons) {
		t.Errorf("%d dead jobs, want %d: %+v", len(dead), 2*len(reasons), dead)
	}
	for _, j := range dead {
		if !strings.Contains(j.Error, reasons[j.Type]) || j.Error == "" {
			t.Errorf("%s %s is dead for another reason: %q", j.Type, j.ID, j.Error)
		}
	}
	s.checkFaulted(ok, deaths)
}

// supervisor runs a testworker and starts another one whenever it dies.
type supervisor struct {
	quit chan struct{}
	loop sync.WaitGroup

	deaths []fault // read after stop
}

func (s *site) supervise() *supervisor {
	s.tb.Helper()
	v := &supervisor{quit: make(chan struct{})}
	w := s.start("testworker", "-shutdown-timeout", "2s")
	v.loop.Go(func() { v.run(s, w) })
	s.tb.Cleanup(func() { v.stop() })
	return v
}

func (v *supervisor) run(s *site, w *worker) {
	for {
		select {
		case <-w.exited:
			w.inspect()
			v.deaths = append(v.deaths, fault{w.pid(), w.end, w.end})
			w = s.start("testworker", "-shutdown-timeout", "2s")
		case <-v.quit:
			w.stop()
			return
		}
	}
}

// stop ends the supervisor and its worker, and tells which processes died.
func (v *supervisor) stop() []fault {
	select {
	case <-v.quit:
	default:
		close(v.quit)
	}
	v.loop.Wait()
	return v.deaths
}
