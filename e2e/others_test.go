package e2e

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/hibiken/asynq"
)

// TestOtherHands has somebody use asynq's own tools on the Redis of a running installation: what they enqueue there is not
// ours to run, what they pause goes on, and what they cancel is tried again.
func TestOtherHands(t *testing.T) {
	t.Parallel()
	slow := call{"calls/k0", 3, 1} // until somebody cancels it
	s := newSite(t, func(c call) reply {
		if c == slow {
			return reply{after: time.Minute}
		}
		return reply{}
	})
	l := lines{class: "calls", buckets: 3, jobs: 40, interval: 250 * time.Millisecond, more: "timeout: 60s, retry: {backoff: 50ms}"}
	s.fill(l)
	asynqs := asynq.RedisClientOpt{Addr: s.server.Addr}
	inspector := asynq.NewInspector(asynqs)
	t.Cleanup(func() { _ = inspector.Close() })

	s.foreign(asynqs, "spout", "default")
	s.worker()
	s.worker()
	s.up.await(t, 20)
	s.foreign(asynqs, "spout", "default")
	if err := inspector.PauseQueue("spout"); err != nil {
		t.Fatal(err)
	}
	var ids []string // asynq tells of running tasks with its heartbeat, every 5 s
	until(t, "asynq's tools show the slow call", func() bool {
		ids = s.running(inspector)
		return len(ids) > 0
	})
	cancelled := time.Now()
	for _, id := range ids {
		if err := inspector.CancelProcessing(id); err != nil {
			t.Fatal(err)
		}
	}
	s.drained(l)

	s.checkFaulted(l, []fault{{from: cancelled, to: time.Now()}})
	if n := len(slices.DeleteFunc(s.up.calls(slow.bucket), func(a arrival) bool { return a.number != slow.number })); n != 2 {
		t.Errorf("the cancelled job was called %d times, want 2", n)
	}
	if n := len(s.up.calls("foreign")); n > 0 {
		t.Errorf("%d foreign tasks were run", n)
	}
	for _, queue := range []string{"spout", "default"} {
		if info, err := inspector.GetQueueInfo(queue); err != nil || info.Pending != 2*foreignTasks {
			t.Errorf("asynq's queue %s was touched: %+v, %v", queue, info, err)
		}
	}
}

const foreignTasks = 10

// foreign enqueues tasks that our workers could run if they took them.
func (s *site) foreign(opt asynq.RedisClientOpt, queues ...string) {
	s.tb.Helper()
	client := asynq.NewClient(opt)
	defer client.Close() //nolint:errcheck // nothing left to lose
	payload, err := json.Marshal(map[string]string{"method": "GET", "url": s.url("foreign", 0)})
	if err != nil {
		s.tb.Fatal(err)
	}
	for _, queue := range queues {
		for range foreignTasks {
			if _, err := client.Enqueue(asynq.NewTask("http:call", payload), asynq.Queue(queue)); err != nil {
				s.tb.Fatal(err)
			}
		}
	}
}

// running are the ids of the tasks that asynq's tools see running.
func (s *site) running(inspector *asynq.Inspector) (ids []string) {
	s.tb.Helper()
	servers, err := inspector.Servers()
	if err != nil {
		s.tb.Fatal(err)
	}
	for _, server := range servers {
		for _, w := range server.ActiveWorkers {
			ids = append(ids, w.TaskID)
		}
	}
	return ids
}
