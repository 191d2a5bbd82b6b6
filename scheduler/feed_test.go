package scheduler

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/spout-queue/spout/internal/redistest"
)

// patience is for what should happen at once.
const patience = 30 * time.Second

// rig is a feed with what a test wants to know of it.
type rig struct {
	*feed
	rdb redis.UniversalClient // the caller's
	log *logBook
}

// newRig returns a feed on rdb, not started. It is shut down at the end of t.
func newRig(tb testing.TB, rdb redis.UniversalClient, o feedOptions) *rig {
	tb.Helper()
	r := &rig{rdb: rdb, log: &logBook{}}
	o.Redis = rdb
	o.Logger = slog.New(slog.NewTextHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	var err error
	if r.feed, err = newFeed(o); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { r.shutdown() })
	return r
}

func (r *rig) mustStart(tb testing.TB, h asynq.HandlerFunc) {
	tb.Helper()
	if err := r.start(h); err != nil {
		tb.Fatal(err)
	}
}

func (r *rig) mustPut(tb testing.TB, t task) {
	tb.Helper()
	if err := r.put(tb.Context(), t); err != nil {
		tb.Fatal(err)
	}
}

// keys lists the keys in Redis that match pattern.
func (r *rig) keys(tb testing.TB, pattern string) []string {
	tb.Helper()
	keys, err := r.rdb.Keys(tb.Context(), pattern).Result()
	if err != nil {
		tb.Fatal(err)
	}
	return keys
}

// logBook keeps a log.
type logBook struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *logBook) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// lines returns what was logged with a part in it.
func (b *logBook) lines(part string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var found []string
	for line := range strings.Lines(b.text.String()) {
		if strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return found
}

// backends are the two kinds of Redis that each hide bugs the other shows.
func backends() map[string]func(testing.TB) *redis.Client {
	return map[string]func(testing.TB) *redis.Client{
		"redis": func(tb testing.TB) *redis.Client {
			tb.Helper()
			return redistest.Start(tb).Client(tb)
		},
		"miniredis": redistest.MiniClient,
	}
}

// wait waits for ch to be closed or to give a value.
func wait[T any](tb testing.TB, ch <-chan T, what string) T {
	tb.Helper()
	select {
	case v := <-ch:
		return v
	case <-time.After(patience):
		tb.Fatalf("waited %v for %s", patience, what)
		panic("not reached")
	}
}

func TestHandlerSeesWhatAsynqGives(t *testing.T) {
	t.Parallel()
	for name, connect := range backends() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := connect(t)
			type sight struct {
				ID, WriterID, Type, Payload, Queue string
				Headers                            map[string]string
			}
			seen := make(chan sight, 1)
			far := make(chan bool, 1)
			r := newRig(t, rdb, feedOptions{Concurrency: 1})
			r.mustStart(t, func(ctx context.Context, at *asynq.Task) error {
				id, _ := asynq.GetTaskID(ctx)
				queue, _ := asynq.GetQueueName(ctx)
				deadline, ok := ctx.Deadline()
				far <- ok && time.Until(deadline) > never/2
				seen <- sight{id, at.ResultWriter().TaskID(), at.Type(), string(at.Payload()), queue, at.Headers()}
				return nil
			})
			r.mustPut(t, task{"0:r:1", "http:call", []byte("\x00\xff{}"), map[string]string{"k": "v", "ü": ""}})
			want := sight{"0:r:1", "0:r:1", "http:call", "\x00\xff{}", "spout", map[string]string{"k": "v", "ü": ""}}
			if diff := cmp.Diff(want, wait(t, seen, "the handler")); diff != "" {
				t.Error(diff)
			}
			if !<-far {
				t.Error("asynq's own deadline is near")
			}
		})
	}
}

// Many tasks from many callers arrive once each, with their own payloads.
func TestEveryTaskArrivesOnce(t *testing.T) {
	t.Parallel()
	const tasks, putters = 10_000, 8
	for name, connect := range backends() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := connect(t)
			var mu sync.Mutex
			got, want := map[string]int{}, map[string]int{}
			var left sync.WaitGroup
			left.Add(tasks)
			r := newRig(t, rdb, feedOptions{Concurrency: 64})
			r.mustStart(t, func(ctx context.Context, at *asynq.Task) error {
				id, _ := asynq.GetTaskID(ctx)
				mu.Lock()
				got[id+string(at.Payload())+at.Headers()["n"]]++
				mu.Unlock()
				left.Done()
				return nil
			})
			var putting sync.WaitGroup
			for p := range putters {
				for i := p; i < tasks; i += putters {
					n := strconv.Itoa(i)
					want[n+n+n] = 1
				}
				putting.Go(func() {
					for i := p; i < tasks; i += putters {
						n := strconv.Itoa(i)
						if err := r.put(t.Context(), task{n, "t", []byte(n), map[string]string{"n": n}}); err != nil {
							t.Error(err)
						}
					}
				})
			}
			putting.Wait()
			all := make(chan struct{})
			go func() { left.Wait(); close(all) }()
			wait(t, all, "all tasks")
			if unseen := r.shutdown(); unseen != nil {
				t.Errorf("unseen: %v", unseen)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if keys := r.keys(t, "*"); len(keys) != 0 {
				t.Errorf("left in Redis: %v", keys)
			}
		})
	}
}

func TestShutdownReturnsTheUnseen(t *testing.T) {
	t.Parallel()
	for name, connect := range backends() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			rdb := connect(t)
			started, asked := make(chan struct{}, 2), make(chan error, 2)
			r := newRig(t, rdb, feedOptions{Concurrency: 2})
			r.mustStart(t, func(ctx context.Context, _ *asynq.Task) error {
				started <- struct{}{}
				<-r.closing
				asked <- r.redis.EvalSha(ctx, "dequeue", []string{
					"asynq:{spout}:pending", "asynq:{spout}:paused", "asynq:{spout}:active", "asynq:{spout}:lease",
				}).Err()
				return nil
			})
			for _, id := range []string{"a", "b", "c", "d"} {
				if id == "c" {
					wait(t, started, "a")
					wait(t, started, "b")
				}
				r.mustPut(t, task{ID: id, Type: "t"})
			}
			if diff := cmp.Diff([]string{"c", "d"}, r.shutdown()); diff != "" {
				t.Error(diff)
			}
			if len(started) != 0 {
				t.Error("a task started during the shutdown")
			}
			for range 2 {
				if err := <-asked; !errors.Is(err, redis.Nil) {
					t.Errorf("dequeue during the shutdown: %v", err)
				}
			}
			if again := r.shutdown(); again != nil {
				t.Errorf("a second shutdown returned %v", again)
			}
			if err := r.put(t.Context(), task{ID: "e", Type: "t"}); !errors.Is(err, errFeedClosed) {
				t.Errorf("put after the shutdown: %v", err)
			}
			if err := r.start(asynq.NotFoundHandler()); !errors.Is(err, errFeedClosed) {
				t.Errorf("start after the shutdown: %v", err)
			}
		})
	}
}

// Whatever put accepted, a handler sees or shutdown returns.
func TestShutdownLosesNoPut(t *testing.T) {
	t.Parallel()
	rdb := redistest.MiniClient(t)
	for round := range 20 {
		r := newRig(t, rdb, feedOptions{Concurrency: 4})
		var seen, accepted atomic.Int64
		r.mustStart(t, func(context.Context, *asynq.Task) error {
			seen.Add(1)
			return nil
		})
		var putting sync.WaitGroup
		for range 8 {
			putting.Go(func() {
				for r.put(t.Context(), task{ID: "a", Type: "t"}) == nil {
					accepted.Add(1)
				}
			})
		}
		for seen.Load() < 50 {
			<-time.After(time.Millisecond)
		}
		unseen := r.shutdown()
		putting.Wait()
		if got, want := seen.Load()+int64(len(unseen)), accepted.Load(); got != want {
			t.Errorf("round %d: %d seen and %d unseen of %d", round, seen.Load(), len(unseen), want)
		}
	}
}

func TestPutWaitsForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, redistest.MiniDial(t), feedOptions{Concurrency: 1}) // never started
		r.mustPut(t, task{ID: "a", Type: "t"})

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := r.put(ctx, task{ID: "b", Type: "t"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("put without room: %v", err)
		}
		blocked := make(chan error, 1)
		go func() { blocked <- r.put(t.Context(), task{ID: "c", Type: "t"}) }()
		synctest.Wait()
		if diff := cmp.Diff([]string{"a"}, r.shutdown()); diff != "" {
			t.Error(diff)
		}
		if err := <-blocked; !errors.Is(err, errFeedClosed) {
			t.Errorf("put during the shutdown: %v", err)
		}
	})
}

func TestPutRefusesWhatAsynqRefuses(t *testing.T) {
	t.Parallel()
	r := newRig(t, redistest.MiniClient(t), feedOptions{Concurrency: 1})
	for name, bad := range map[string]task{
		"no id":          {Type: "t"},
		"blank type":     {ID: "a", Type: " "},
		"type not text":  {ID: "a", Type: "\xff"},
		"header no text": {ID: "a", Type: "t", Headers: map[string]string{"k": "\xff"}},
	} {
		if err := r.put(t.Context(), bad); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	if unseen := r.shutdown(); unseen != nil {
		t.Errorf("unseen: %v", unseen)
	}
}

func TestNewFeedRefuses(t *testing.T) {
	t.Parallel()
	ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"a": "127.0.0.1:1"}})
	t.Cleanup(func() { _ = ring.Close() })
	for name, o := range map[string]feedOptions{
		"a ring":   {Redis: ring, Concurrency: 1},
		"no Redis": {Concurrency: 1},
		"no slots": {Redis: redistest.MiniClient(t)},
	} {
		if _, err := newFeed(o); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// Not parallel, so that nothing else starts goroutines meanwhile.
func TestShutdownLeavesNothingRunning(t *testing.T) {
	rdb := redistest.MiniClient(t)
	before := goleak.IgnoreCurrent()
	r := newRig(t, rdb, feedOptions{Concurrency: 4})
	ran := make(chan struct{})
	r.mustStart(t, func(context.Context, *asynq.Task) error {
		close(ran)
		return nil
	})
	r.mustPut(t, task{ID: "a", Type: "t"})
	wait(t, ran, "the handler")
	r.shutdown()
	// miniredis serves a connection until it sees it closed; goleak retries.
	goleak.VerifyNone(t, before)
}

func TestAsynqLogLevels(t *testing.T) {
	t.Parallel()
	book := &logBook{}
	l := newAsynqLog(slog.New(slog.NewTextHandler(book, &slog.HandlerOptions{Level: slog.LevelDebug})))
	for level, write := range map[string]func(...any){
		"DEBUG": l.Info, "WARN": l.Warn, "ERROR": l.Error,
	} {
		write("for ", level)
		if got := book.lines("for " + level); len(got) != 1 || !strings.Contains(got[0], "level="+level) {
			t.Errorf("%s: logged %q", level, got)
		}
	}
	l.Warn("Retry exhausted for task id=x")
	if got := book.lines("exhausted"); len(got) != 1 || !strings.Contains(got[0], "level=DEBUG") {
		t.Errorf("a fate of asynq's: logged %q", got)
	}
}
