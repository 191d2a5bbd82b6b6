package scheduler_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

const shutdown = 10 * time.Second

// handlersAtStop do as the keys of their buckets say.
func handlersAtStop(release <-chan struct{}) asynq.HandlerFunc {
	return func(ctx context.Context, task *asynq.Task) error {
		switch task.Headers()["Spout-Key"] {
		case "quick":
			pause(3 * time.Second)
			return nil
		case "fails":
			pause(3 * time.Second)
			return errors.New("no such order")
		case "polite":
			<-ctx.Done()
			return fmt.Errorf("call: %w", ctx.Err())
		case "own words":
			<-ctx.Done()
			return errors.New("rpc error: code = Canceled")
		default:
			<-release
			return nil
		}
	}
}

// At a stop, what runs may finish, what does not finish in time goes back and runs elsewhere, and nothing departs any more.
func TestStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := miniSite(t)
		s.class(t, "a", 2*time.Second)
		release := make(chan struct{})
		w := s.work(t, 0, handlersAtStop(release), scheduler.Options{ShutdownTimeout: shutdown})
		keys := []string{"quick", "fails", "polite", "own words", "deaf"}
		for _, key := range keys {
			s.submit(t, "a/"+key, 2)
		}
		pause(time.Second)
		begun := time.Now()
		w.stop(t)
		if took := time.Since(begun); took < shutdown || took > shutdown+3*time.Second {
			t.Errorf("the stop took %v", took)
		}
		if keys, err := s.rdb.Keys(t.Context(), "asynq:*").Result(); err != nil || len(keys) > 0 {
			t.Errorf("asynq left %v, %v", keys, err)
		}
		want := queue.Books{Admitted: 10, Departed: 5, Returned: 4, Retried: 1, Done: 1}
		checkTotals(t, s, want)
		if beats, err := s.client.Beats(t.Context(), 0); err != nil || len(beats) > 0 {
			t.Errorf("after the worker left, these beat: %v, %v", beats, err)
		}

		s.work(t, 1, nil, scheduler.Options{})
		for _, key := range keys {
			returned := 1
			if key == "quick" {
				returned = 0
			}
			s.await(t, "a/"+key, 2+returned)
			got, want := fmt.Sprint(s.numbers("a/"+key)), fmt.Sprint([]int{0, 0, 1}[1-returned:])
			if got != want {
				t.Errorf("%s: jobs started in the order %v, want %v", key, got, want)
			}
		}
		close(release) // too late: the job is another worker's by now
		pause(time.Second)
		want.Departed, want.Done, want.Refused = 14, 10, 1
		checkTotals(t, s, want)
		if lines := w.log.lines("verdict refused"); len(lines) != 1 {
			t.Errorf("the late verdict was refused %d times", len(lines))
		}
	})
}

// checkTotals compares the books of class a as they are now.
func checkTotals(t *testing.T, s *site, want queue.Books) {
	t.Helper()
	got, err := s.client.Books(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("books:\n%+v, want\n%+v", got, want)
	}
}

// What departs in a call that is under way at the stop runs, if it is in time, and goes back otherwise.
func TestStopDuringCall(t *testing.T) {
	t.Parallel()
	for name, delay := range map[string]time.Duration{"in time": freshness / 2, "late": 2 * freshness} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := miniSite(t)
				s.class(t, "a", time.Second)
				asked := make(chan struct{}, 1)
				w := s.work(t, 0, nil, scheduler.Options{}, onCall(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
					err := next(ctx, cmd)
					if _, ok := departure(cmd); ok && len(departed(cmd)) > 0 {
						asked <- struct{}{}
						pause(delay)
					}
					return err
				}))
				s.submit(t, "a/k", 2)
				<-asked
				w.stop(t)
				want := queue.Books{Admitted: 2, Departed: 1, Done: 1}
				if delay > freshness {
					want = queue.Books{Admitted: 2, Departed: 1, Returned: 1, Stale: 1}
				}
				checkTotals(t, s, want)
				if n := len(s.seen("a/k")); n != int(want.Done) {
					t.Errorf("%d starts", n)
				}
			})
		})
	}
}

// A Redis that stumbles while a worker takes its leave does not keep what it had out; nor does one shard that is away keep
// the jobs of another.
func TestLeaveInspiteOfFaults(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]func(tag string, failures int64) bool{
		"a stumble":         func(_ string, failures int64) bool { return failures <= 3 },
		"one shard is away": func(tag string, _ int64) bool { return tag == "{spout:0}" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, redisWithoutTTL(t), 2)
				s.class(t, "a", time.Second)
				var stopping atomic.Bool
				var failures atomic.Int64
				release := make(chan struct{})
				defer close(release)
				w := s.work(t, 0, handlersAtStop(release), scheduler.Options{ShutdownTimeout: time.Second},
					onCall(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
						tag, _ := cmd.Args()[3].(string)
						if stopping.Load() && fails(tag, failures.Add(1)) {
							return errRefused
						}
						return next(ctx, cmd)
					}))
				for key := range 8 { // in both shards
					s.submit(t, fmt.Sprintf("a/%d", key), 1)
				}
				pause(3 * time.Second)
				away := outOf(t, s, 0, w)
				if there := outOf(t, s, 1, w); away == 0 || there == 0 || away+there != 8 {
					t.Fatalf("%d and %d jobs are out", away, there)
				}
				stopping.Store(true)
				w.cancel()
				<-w.ended
				if name == "a stumble" {
					away = 0
				}
				if (w.err != nil) != (away > 0) || away > 0 && !strings.Contains(w.err.Error(), "shard 0") {
					t.Errorf("the worker ended with: %v", w.err)
				}
				w.err = nil
				if got := outOf(t, s, 0, w) + outOf(t, s, 1, w); got != away {
					t.Errorf("%d jobs are still out, want %d", got, away)
				}
			})
		})
	}
}

// outOf is how many jobs of a shard a worker has out.
func outOf(t *testing.T, s *site, shard int, w *worker) int {
	t.Helper()
	n, err := s.rdb.HLen(t.Context(), fmt.Sprintf("{spout:%d}:out:%s", shard, w.Name())).Result()
	if err != nil {
		t.Fatal(err)
	}
	return int(n)
}
