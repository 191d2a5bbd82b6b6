package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// A worker that cannot reach a shard of Redis ends the handlers of its jobs after 8 s, before anybody may take them over,
// and not those of another shard; what they say then is kept, and no attempt is counted.
func TestLostContact(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, o := newSite(t, redisWithoutTTL(t), 2), &outages{}
		s.class(t, "a", time.Second, func(c *queue.Class) { c.Timeout = time.Hour })
		ended := make(chan string, 10)
		s.work(t, 0, func(ctx context.Context, task *asynq.Task) error {
			select {
			case <-ctx.Done():
				ended <- task.Headers()["Spout-Ref"][:2]
				return ctx.Err()
			case <-time.After(40 * time.Second):
				return nil
			}
		}, scheduler.Options{}, onShard{"{spout:0}", o})
		for key := range 10 {
			s.submit(t, fmt.Sprintf("a/%d", key), 1)
		}
		pause(3 * time.Second)
		begun := time.Now()
		go o.during(nil, 20*time.Second)
		first := <-ended
		took := time.Since(begun)
		pause(time.Second)
		if took < 7*time.Second || took > 8*time.Second || first != "0-" {
			t.Errorf("a handler of shard %s ended %v after contact was lost", first, took)
		}
		cut := len(ended) + 1
		for range cut - 1 {
			if shard := <-ended; shard != "0-" {
				t.Errorf("a handler of shard %s ended", shard)
			}
		}
		if cut < 2 || cut > 8 {
			t.Errorf("%d handlers ended", cut)
		}
		pause(2 * time.Minute)
		if books := s.books(t, "a"); books.Done != 10 || books.Returned != int64(cut)+books.Stale || books.Retried+books.Refused > 0 {
			t.Errorf("books: %+v", books)
		}
		for _, bucket := range s.buckets() {
			for _, start := range s.seen(bucket) {
				if start.try != 1 {
					t.Errorf("%s: %+v", bucket, start)
				}
			}
		}
	})
}

// A worker that was taken for dead although it lives, as one whose machine slept and whose clock slept with it, ends the
// handlers of what was given to others as soon as it learns of it, and no others.
func TestTakenForDead(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, redisWithoutTTL(t), 2)
		s.class(t, "a", time.Minute, func(c *queue.Class) { c.Timeout = time.Hour })
		ended := make(chan string, 10)
		w := s.work(t, 0, func(ctx context.Context, task *asynq.Task) error {
			select {
			case <-ctx.Done():
				ended <- task.Headers()["Spout-Ref"][:2]
				return ctx.Err()
			case <-time.After(20 * time.Second):
				return nil
			}
		}, scheduler.Options{})
		for key := range 10 {
			s.submit(t, fmt.Sprintf("a/%d", key), 1)
		}
		pause(5 * time.Second)
		out := outOf(t, s, 0, w)
		beats, err := s.client.Beats(t.Context(), 0)
		mustDo(t, err)
		r, err := s.client.Reclaim(t.Context(), 0, w.Name(), beats[w.Name()])
		if err != nil || r.Refused || r.Returned != out || out == 0 || out == 10 {
			t.Fatalf("reclaim of %d jobs: %+v, %v", out, r, err)
		}
		pause(1100 * time.Millisecond) // its next beat
		for range out {
			select {
			case shard := <-ended:
				if shard != "0-" {
					t.Errorf("a handler of shard %s ended", shard)
				}
			default:
				t.Fatal("a handler goes on")
			}
		}
		pause(5 * time.Minute)
		n := int64(out)
		checkTotals(t, s, queue.Books{Admitted: 10, Departed: 10 + n, Returned: n, Done: 10, Refused: n})
		for _, bucket := range s.buckets() {
			if err := checkPace(timesOf(s.seen(bucket)), time.Minute, catchUp+freshness); err != nil {
				t.Errorf("%s: %v", bucket, err)
			}
		}
	})
}

// onShard is an outage of one shard.
type onShard struct {
	tag string
	*outages
}

// ProcessHook implements redis.Hook.
func (s onShard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	away := s.outages.ProcessHook(next)
	return func(ctx context.Context, cmd redis.Cmder) error {
		for _, arg := range cmd.Args() {
			if text, ok := arg.(string); ok && len(text) >= len(s.tag) && text[:len(s.tag)] == s.tag {
				return away(ctx, cmd)
			}
		}
		return next(ctx, cmd)
	}
}

// One shard that hangs does not keep a worker from watching over the others.
func TestWatchInspiteOfOneShard(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, o := newSite(t, redisWithoutTTL(t), 2), &outages{}
		s.class(t, "a", time.Second, func(c *queue.Class) { c.Timeout = time.Hour })
		_, f := s.mortal(t, 0, func(ctx context.Context, _ *asynq.Task) error {
			<-ctx.Done()
			return ctx.Err()
		}, scheduler.Options{})
		for key := range 10 {
			s.submit(t, fmt.Sprintf("a/%d", key), 1)
		}
		pause(time.Second)
		other := s.work(t, 1, nil, scheduler.Options{}, onShard{"{spout:0}", o})
		f.freeze()
		go o.during(nil, time.Minute)
		pause(30 * time.Second)
		if lines := other.log.lines("worker is gone"); len(lines) != 1 {
			t.Errorf("within 30 s it reclaimed: %q", lines)
		}
		pause(time.Minute)
		if lines := other.log.lines("worker is gone"); len(lines) != 2 {
			t.Errorf("in the end it reclaimed: %q", lines)
		}
		if books := s.books(t, "a"); books.Done != 10 {
			t.Errorf("books: %+v", books)
		}
	})
}

// A worker that stops lives until it has left, however long its handlers take: nobody takes its jobs meanwhile.
func TestStopTakesLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const timeout = 30 * time.Second
		s := newSite(t, redisWithoutTTL(t), 2)
		s.class(t, "a", time.Second, func(c *queue.Class) { c.Timeout = time.Hour })
		release := make(chan struct{})
		w := s.work(t, 0, handlersAtStop(release), scheduler.Options{ShutdownTimeout: timeout})
		for key := range 6 {
			s.submit(t, fmt.Sprintf("a/%d", key), 1)
		}
		pause(time.Second)
		other := s.work(t, 1, nil, scheduler.Options{})
		begun := time.Now()
		w.stop(t)
		took := time.Since(begun)
		if took < timeout || took > timeout+3*time.Second {
			t.Errorf("the stop took %v", took)
		}
		for _, bucket := range s.buckets() {
			s.await(t, bucket, 2)
			if again := s.seen(bucket)[1]; again.worker != 1 || again.try != 1 || again.at.Sub(begun) < timeout {
				t.Errorf("%s: %v after the stop began: %+v", bucket, again.at.Sub(begun), again)
			}
		}
		close(release)
		pause(time.Second)
		checkTotals(t, s, queue.Books{Admitted: 6, Departed: 12, Returned: 6, Done: 6, Refused: 6})
		if lines := other.log.lines("level=WARN"); len(lines) > 0 {
			t.Errorf("the other worker logged %q", lines)
		}
	})
}
