package e2e

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// TestFrozenWorker stops one of two workers for longer than others wait for it: what it had is done by the other one, and
// what it does and says when it goes on counts for nothing.
func TestFrozenWorker(t *testing.T) {
	t.Parallel()
	const frozen = 20 * time.Second
	s := newSite(t, working)
	l := lines{class: "calls", buckets: 20, jobs: 30, interval: time.Second}
	s.fill(l)
	first := s.worker()
	s.worker()
	s.up.await(t, l.total()/10)

	at := first.freeze()
	pass(t, frozen)
	first.thaw()
	s.drained(l)
	s.checkFaulted(l, []fault{{pid: first.pid(), from: at, to: at}})
}

// TestDeafHandlersAtStop stops a worker whose calls hang and one whose handlers ignore their context: both leave in time, and
// others do what they had.
func TestDeafHandlersAtStop(t *testing.T) {
	t.Parallel()
	var well atomic.Bool
	s := newSite(t, func(c call) reply {
		switch deaf := strings.HasPrefix(c.bucket, "deaf/"); {
		case well.Load():
			return reply{}
		case deaf:
			return reply{deaf: true}
		default:
			return reply{after: time.Minute}
		}
	})
	hung := lines{class: "hung", buckets: 12, jobs: 6, interval: time.Second}
	deaf := lines{class: "deaf", buckets: 12, jobs: 6, interval: time.Second, typ: "ok:call"}
	s.fill(hung, deaf)

	start := func() []*worker {
		w := []*worker{
			s.worker("--classes", "hung", "--shutdown-timeout", "2s"),
			s.start("testworker", "-classes", "deaf", "-shutdown-timeout", "2s"),
		}
		t.Cleanup(w[1].dismiss)
		return w
	}
	old := start()
	s.up.await(t, 30)
	var faults []fault
	for _, w := range old {
		from := time.Now()
		w.stop()
		faults = append(faults, fault{w.pid(), from, w.end})
		// 2 s of its own, 2 s of asynq's for handlers that never return, and what a busy machine needs to take its leave.
		if took := w.end.Sub(from); took > 7*time.Second {
			t.Errorf("%s took %v to stop", w.cmd.Path, took)
		}
	}
	well.Store(true)
	start()
	s.drained(hung, deaf)
	s.checkFaulted(hung, faults)
	s.checkFaulted(deaf, faults)
}
