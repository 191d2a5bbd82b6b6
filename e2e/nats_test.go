package e2e

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/spout-queue/spout/internal/natstest"
	"github.com/spout-queue/spout/scheduler"
)

const (
	overNATS     = 20_000 // messages of TestBridge,
	natsKeys     = 50     // of so many keys
	bridgeKills  = 10
	natsRestarts = 3
	redisKills   = 2
)

// TestBridge publishes to the stream while bridges are killed and NATS and Redis are restarted: every message is admitted, once,
// in the order of its key, and a class that stands still delays no other.
func TestBridge(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, "--appendonly", "yes")
	broker := natstest.Start(t)
	s.run("admin", "class", "apply", "-f", write(t, "classes.yaml", `classes:
  calls: {capacity: 10, rate: 20/1s, dedup: 1h, max_crashes: 50}
  still: {capacity: 10, rate: 1/1d, dedup: 1h}
`))
	bridge := func() *worker {
		w := s.start("producer", "bridge", "--nats", broker.URL)
		t.Cleanup(w.dismiss)
		return w
	}
	bridges := []*worker{bridge(), bridge(), bridge()}
	runs := s.record()
	var published sync.WaitGroup
	for key := range natsKeys {
		published.Go(func() { publishAll(t, broker, "calls", key, overNATS/natsKeys) })
	}
	published.Go(func() { publishAll(t, broker, "still", 0, 500) })

	for kill := range bridgeKills {
		pass(t, 1500*time.Millisecond)
		bridges[kill%len(bridges)].kill()
		bridges[kill%len(bridges)] = bridge()
		if kill%3 == 2 && kill/3 < natsRestarts {
			broker.Restart()
		}
		if kill%4 == 3 && kill/4 < redisKills {
			s.server.Restart()
		}
		b, _ := s.books("calls")
		t.Logf("after kill %d: %d admitted, %d done", kill+1, b.Admitted, b.Done)
	}
	published.Wait()
	until(t, "all jobs are done", func() bool {
		b, ok := s.books("calls")
		return ok && b.Done >= overNATS
	})
	if b, _ := s.books("calls"); b.Admitted != overNATS || b.Done != overNATS {
		t.Errorf("%d messages, and the books say %+v", overNATS, b)
	}
	runs.check(t)
	if b, _ := s.books("still"); b.Admitted < 10 || b.Admitted > 11 {
		t.Errorf("a class with a capacity of 10 that stands still admitted %d", b.Admitted)
	}
	s.audit()
}

// publishAll publishes the messages of a key in order, each until the stream has it.
func publishAll(t *testing.T, broker *natstest.Server, class string, key, n int) {
	t.Helper()
	js, err := jetstream.New(broker.Client(t))
	if err != nil {
		t.Error(err)
		return
	}
	for i := range n {
		id := fmt.Sprintf("%s/k%d/%d", class, key, i)
		body := fmt.Appendf(nil, `{"key":"k%d","id":"%d","type":"count","payload":{"n":%d}}`, key, i, i)
		for t.Context().Err() == nil {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			_, err := js.Publish(ctx, fmt.Sprintf("spout.v1.jobs.%s.k%d", class, key), body, jetstream.WithMsgID(id))
			cancel()
			if err == nil {
				break
			}
			select {
			case <-time.After(20 * time.Millisecond):
			case <-t.Context().Done():
			}
		}
	}
}

// runs are the ids that ran, by key, in order, the first time of each.
type runs struct {
	mu   sync.Mutex
	seen map[string][]int
}

// record drains all classes in this process until the test ends: the jobs do nothing.
func (s *site) record() *runs {
	s.tb.Helper()
	r := &runs{seen: map[string][]int{}}
	w, err := scheduler.New(s.client, asynq.HandlerFunc(func(_ context.Context, task *asynq.Task) error {
		id, err := strconv.Atoi(task.Headers()["Spout-Id"])
		if err != nil {
			return err
		}
		r.ran(task.Headers()["Spout-Key"], id)
		return nil
	}), scheduler.Options{ShutdownTimeout: 2 * time.Second})
	if err != nil {
		s.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(s.tb.Context()))
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	s.tb.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.tb.Errorf("the worker ended with %v", err)
		}
	})
	return r
}

func (r *runs) ran(key string, id int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slices.Contains(r.seen[key], id) {
		r.seen[key] = append(r.seen[key], id)
	}
}

// check wants all jobs of each key, in order.
func (r *runs) check(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	for key := range natsKeys {
		ids := r.seen["k"+strconv.Itoa(key)]
		if len(ids) != overNATS/natsKeys {
			t.Errorf("key k%d: %d of %d jobs ran", key, len(ids), overNATS/natsKeys)
		}
		for i, id := range ids {
			if i > 0 && id < ids[i-1] {
				t.Errorf("key k%d: %d ran after %d", key, id, ids[i-1])
				break
			}
		}
	}
}
