package scheduler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
)

// An ending is a way in which a task can end.
type ending struct {
	options   []asynq.Option // of the message, beyond the feed's own
	handle    func(context.Context, *asynq.Task) error
	meanwhile func(*testing.T, *rig) // while handle runs
	says      string                 // what asynq logs when it takes this way
	result    string                 // id and data
}

func endings() map[string]func() ending {
	returning := func(err error, says string, options ...asynq.Option) func() ending {
		return func() ending {
			return ending{options: options, says: says, handle: func(context.Context, *asynq.Task) error { return err }}
		}
	}
	const archived = "Retry exhausted for task"
	failed := errors.New("failed")
	return map[string]func() ending{
		"ok":            returning(nil, ""),
		"error":         returning(failed, archived),
		"skip retry":    returning(fmt.Errorf("%w: %w", failed, asynq.SkipRetry), archived, asynq.MaxRetry(3)),
		"revoke":        returning(fmt.Errorf("%w: %w", failed, asynq.RevokeTask), "revoke task"),
		"retries left":  returning(failed, "", asynq.MaxRetry(3)),
		"retention":     returning(nil, "", asynq.Retention(time.Hour)),
		"asynq's limit": deadline,
		"panic":         panics,
		"own timeout":   ownTimeout,
		"cancelled":     cancelled,
		"deaf":          deafToCancel,
		"result":        writesResult,
	}
}

func deadline() ending {
	return ending{
		options: []asynq.Option{asynq.Deadline(time.Now().Add(-time.Hour))}, // cannot happen to our tasks
		says:    "Retry exhausted for task",
	}
}

func panics() ending {
	return ending{
		says:   "recovering from panic",
		handle: func(context.Context, *asynq.Task) error { panic("boom") },
	}
}

func ownTimeout() ending {
	return ending{
		says: "Retry exhausted for task",
		handle: func(ctx context.Context, _ *asynq.Task) error {
			ctx, cancel := context.WithTimeout(ctx, time.Millisecond)
			defer cancel()
			<-ctx.Done()
			return ctx.Err()
		},
	}
}

func cancelled() ending {
	over := make(chan struct{})
	return ending{
		says: "Retry exhausted for task",
		handle: func(ctx context.Context, _ *asynq.Task) error {
			<-ctx.Done()
			close(over)
			return ctx.Err()
		},
		meanwhile: func(t *testing.T, r *rig) {
			t.Helper()
			cancelUntil(t, r, "end", over)
		},
	}
}

// deafToCancel shows that a slot is free before its handler has returned.
func deafToCancel() ending {
	release := make(chan struct{})
	return ending{
		says:   "Retry exhausted for task",
		handle: func(context.Context, *asynq.Task) error { <-release; return nil },
		meanwhile: func(t *testing.T, r *rig) {
			t.Helper()
			freed := make(chan struct{})
			t.Cleanup(func() { close(release) })
			go func() {
				defer close(freed)
				for len(r.tasks) > 0 && t.Context().Err() == nil { // until the slot takes the probe
					<-time.After(time.Millisecond)
				}
			}()
			r.mustPut(t, task{ID: "next", Type: "next"})
			cancelUntil(t, r, "end", freed)
		},
	}
}

func writesResult() ending {
	return ending{
		result: "end" + "done",
		handle: func(_ context.Context, at *asynq.Task) error {
			data := []byte("done")
			n, err := at.ResultWriter().Write(data)
			copy(data, "gone") // the buffer is the handler's again
			if n != len(data) {
				return fmt.Errorf("wrote %d bytes", n)
			}
			return err
		},
	}
}

// cancelUntil cancels the task until done: there is no telling when asynq's
// subscription has begun.
func cancelUntil(t *testing.T, r *rig, id string, done <-chan struct{}) {
	t.Helper()
	inspector := asynq.NewInspectorFromRedisClient(r.rdb)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	for {
		if err := inspector.CancelProcessing(id); err != nil {
			t.Fatal(err)
		}
		select {
		case <-done:
			return
		case <-ctx.Done():
			t.Fatal("not cancelled")
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// However a task ends, asynq leaves nothing of it behind and its slot is free
// for the next.
func TestEveryEndLeavesRedisAlone(t *testing.T) {
	t.Parallel()
	for name, connect := range backends() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := connect(t)
			for name, end := range endings() { // one after the other: each looks at all keys
				t.Run(name, func(t *testing.T) { testEnding(t, rdb, end()) })
			}
		})
	}
}

func testEnding(t *testing.T, rdb *redis.Client, end ending) {
	t.Helper()
	type result struct {
		id   string
		data []byte
	}
	started, probed, results := make(chan struct{}), make(chan struct{}), make(chan result, 1)
	r := newRig(t, rdb, feedOptions{Concurrency: 1, OnResult: func(id string, data []byte) {
		results <- result{id, data}
	}})
	r.mustStart(t, func(ctx context.Context, at *asynq.Task) error {
		switch at.Type() {
		case "end":
			close(started)
			return end.handle(ctx, at)
		case "probe":
			close(probed)
		}
		return nil
	})

	usual := r.encoder.options
	r.encoder.options = slices.Concat(usual, end.options)
	r.mustPut(t, task{ID: "end", Type: "end"})
	r.encoder.options = usual
	if end.handle != nil {
		wait(t, started, "the handler")
	}
	if end.meanwhile != nil {
		end.meanwhile(t, r)
	}
	r.mustPut(t, task{ID: "probe", Type: "probe"})
	wait(t, probed, "a free slot")

	if unseen := r.shutdown(); unseen != nil {
		t.Errorf("unseen: %v", unseen)
	}
	if keys := r.keys(t, "*"); len(keys) != 0 {
		t.Errorf("left in Redis: %v", keys)
	}
	if end.says != "" && len(r.log.lines(end.says)) != 1 {
		t.Errorf("asynq did not say %q", end.says)
	}
	complaints := slices.Concat(r.log.lines("level=WARN"), r.log.lines("level=ERROR"))
	if len(complaints) > 0 && (len(complaints) > 1 || !strings.Contains(complaints[0], "recovering from panic")) {
		t.Errorf("asynq complained: %q", complaints)
	}
	close(results)
	if got := <-results; got.id+string(got.data) != end.result {
		t.Errorf("result of %q = %q, want %q", got.id, got.data, end.result)
	}
}

func TestShutdownWaitsForHandlers(t *testing.T) {
	t.Parallel()
	for name, connect := range backends() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := connect(t)
			r := newRig(t, rdb, feedOptions{Concurrency: 1})
			started, done := make(chan struct{}), make(chan struct{})
			r.mustStart(t, func(ctx context.Context, _ *asynq.Task) error {
				defer close(done)
				close(started)
				<-r.closing
				<-time.After(20 * time.Millisecond)
				return ctx.Err()
			})
			r.mustPut(t, task{ID: "a", Type: "t"})
			wait(t, started, "the handler")
			r.shutdown()
			select {
			case <-done:
			default:
				t.Error("shutdown left a handler behind")
			}
			if lines := r.log.lines("Retry exhausted"); len(lines) > 0 {
				t.Errorf("its context ended: %q", lines)
			}
		})
	}
}

func TestShutdownLeavesDeafHandlersBehind(t *testing.T) {
	t.Parallel()
	for name, connect := range backends() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := connect(t)
			r := newRig(t, rdb, feedOptions{
				Concurrency: 1, ShutdownTimeout: 20 * time.Millisecond,
				OnResult: func(string, []byte) { t.Error("a result after the shutdown") },
			})
			started, release, outcome := make(chan struct{}), make(chan struct{}), make(chan error, 1)
			r.mustStart(t, func(_ context.Context, at *asynq.Task) error {
				close(started)
				<-release
				_, err := at.ResultWriter().Write([]byte("late"))
				outcome <- err
				return nil
			})
			r.mustPut(t, task{ID: "deaf", Type: "t"})
			wait(t, started, "the handler")
			if unseen := r.shutdown(); unseen != nil {
				t.Errorf("unseen: %v", unseen)
			}
			if len(r.log.lines("Quitting worker. task id=deaf")) != 1 || len(r.log.lines("Could not push")) != 0 {
				t.Error("the task was not requeued")
			}
			if keys := r.keys(t, "*"); len(keys) != 0 {
				t.Errorf("left in Redis: %v", keys)
			}
			close(release)
			if err := wait(t, outcome, "the handler"); !errors.Is(err, context.Canceled) {
				t.Errorf("its context went on: %v", err)
			}
		})
	}
}

func TestUnknownCallsAreNamed(t *testing.T) {
	t.Parallel()
	for name, connect := range backends() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := connect(t)
			r := newRig(t, rdb, feedOptions{Concurrency: 1})
			ctx, c := t.Context(), r.redis
			const pending, active = "asynq:{spout}:pending", "asynq:{spout}:active"
			_, piped := c.Pipelined(ctx, func(p redis.Pipeliner) error { return p.Del(ctx, pending).Err() })
			_, tx := c.TxPipelined(ctx, func(p redis.Pipeliner) error { return p.Del(ctx, pending).Err() })
			for want, err := range map[string]error{
				"lpush pending":          c.LPush(ctx, pending, "x").Err(),
				"rpoplpush pending":      c.RPopLPush(ctx, pending, active).Err(),
				"sadd asynq:queues":      c.SAdd(ctx, "asynq:queues", "spout").Err(),
				"get asynq:{other}:t:1":  c.Get(ctx, "asynq:{other}:t:1").Err(),
				"script pending new":     c.Eval(ctx, "return 1", []string{pending, "asynq:{spout}:new"}).Err(),
				"script active pending":  c.EvalSha(ctx, "sha", []string{active, pending}).Err(),
				"evalsha_ro pending":     c.EvalShaRO(ctx, "sha", []string{pending}).Err(),
				"zinter pending":         c.ZInter(ctx, &redis.ZStore{Keys: []string{pending, "k"}}).Err(),
				"hset t":                 c.HSet(ctx, "asynq:{spout}:t:1", "state", "done").Err(),
				"zadd lease":             c.ZAddArgsIncr(ctx, "asynq:{spout}:lease", redis.ZAddArgs{Members: []redis.Z{{}}}).Err(),
				"del pending":            piped,
				"the feed does not know": tx,
			} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%q: %v", want, err)
				}
			}
			if err := c.Ping(ctx).Err(); err != nil {
				t.Error(err)
			}
			if keys := r.keys(t, "*"); len(keys) != 0 {
				t.Errorf("left in Redis: %v", keys)
			}
		})
	}
}

// Hours in the life of a server, as asynq's tools see it: heartbeats, what asynq
// looks for from time to time, and leases. asynq begins a lease when it asks for
// a task, so a feed that lets it ask for too long kills handlers.
func TestLongRunAndIdleTimes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, redistest.MiniDial(t), feedOptions{Concurrency: 2})
		ended, release := make(chan error, 1), make(chan struct{})
		r.mustStart(t, func(ctx context.Context, _ *asynq.Task) error {
			select {
			case <-ctx.Done():
			case <-release:
			}
			ended <- ctx.Err()
			return nil
		})
		stamp := 0
		run := func(idle, busy time.Duration) {
			t.Helper()
			<-time.After(idle)
			stamp++
			id := fmt.Sprintf("0:r:%d", stamp)
			r.mustPut(t, task{ID: id, Type: "http:call", Payload: []byte("p")})
			<-time.After(busy)
			if diff := cmp.Diff([]string{id + " http:call p spout"}, r.running(t)); diff != "" {
				t.Errorf("after %v: %s", idle, diff)
			}
			close(release)
			if err := <-ended; err != nil {
				t.Errorf("after %v idle, asynq ended the handler: %v", idle, err)
			}
			release = make(chan struct{})
		}
		for idle := range 20 {
			run(2*time.Second*time.Duration(idle), 11*time.Second) // at least two heartbeats
		}
		run(3*time.Hour, 6*time.Second)
		run(0, 3*time.Hour)
		if keys := r.keys(t, "asynq:{*"); len(keys) != 0 {
			t.Errorf("left in Redis: %v", keys)
		}
		r.shutdown()
		if keys := r.keys(t, "*"); len(keys) != 0 {
			t.Errorf("left in Redis: %v", keys)
		}
		if complaints := append(r.log.lines("level=WARN"), r.log.lines("level=ERROR")...); len(complaints) > 0 {
			t.Errorf("asynq complained: %q", complaints)
		}
	})
}

// running lists the tasks that asynq's tools show as running.
func (r *rig) running(tb testing.TB) []string {
	tb.Helper()
	servers, err := asynq.NewInspectorFromRedisClient(r.rdb).Servers()
	if err != nil || len(servers) != 1 {
		tb.Fatalf("Servers() = %v, %v; want one", servers, err)
	}
	if diff := cmp.Diff(map[string]int{feedQueue: 1}, servers[0].Queues); diff != "" {
		tb.Errorf("queues: %s", diff)
	}
	var tasks []string
	for _, w := range servers[0].ActiveWorkers {
		tasks = append(tasks, fmt.Sprintf("%s %s %s %s", w.TaskID, w.TaskType, w.TaskPayload, w.Queue))
	}
	return tasks
}
