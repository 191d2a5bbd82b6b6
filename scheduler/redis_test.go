package scheduler_test

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// These run on a real server and a real clock. Nothing here depends on how fast the machine is: pace is read off the
// stamps of departures, which are the server's time.

// stampGrain is how far a stamp may be ahead of the time of its departure: stamps are never used twice, so a batch of
// admissions and departures uses up some microseconds in advance.
const stampGrain = time.Millisecond

// departures are the server's times at which the started jobs of a bucket departed.
func departures(tb testing.TB, starts []start) []time.Time {
	tb.Helper()
	times := make([]time.Time, len(starts))
	for i, s := range starts {
		_, stamp, _ := strings.Cut(s.id, ":")
		us, err := strconv.ParseInt(stamp, 10, 64)
		if err != nil {
			tb.Fatal(err)
		}
		times[i] = time.UnixMicro(us)
	}
	return times
}

// patient are options for a machine that may be busy with other things.
func patient() scheduler.Options { return scheduler.Options{Freshness: 10 * time.Second} }

// checkReal checks a bucket that one worker drained.
func checkReal(t *testing.T, s *site, bucket string, interval time.Duration, jobs int) {
	t.Helper()
	starts := s.seen(bucket)
	if err := checkOrder(starts, jobs); err != nil {
		t.Errorf("%s: %v", bucket, err)
	}
	if err := checkPace(departures(t, starts), interval, catchUp+stampGrain); err != nil {
		t.Errorf("%s: %v", bucket, err)
	}
}

// Jobs of one bucket that leave it together start one after the other.
func TestBatchesStartInOrder(t *testing.T) {
	t.Parallel()
	const jobs = 2000
	s := newSite(t, redistest.Start(t).Client(t), 1)
	s.class(t, "a", time.Millisecond, func(c *queue.Class) { c.CatchUp = time.Second })
	var together atomic.Int64
	s.work(t, 0, nil, patient(),
		onCall(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			if _, ok := departure(cmd); !ok {
				return next(ctx, cmd)
			}
			pause(20 * time.Millisecond) // so that many are due
			err := next(ctx, cmd)
			if len(departed(cmd)) > 10 {
				together.Add(1)
			}
			return err
		}))
	s.submit(t, "a/k", jobs)
	s.await(t, "a/k", jobs)
	if together.Load() < 10 {
		t.Errorf("only %d times left more than ten together", together.Load())
	}
	starts := s.seen("a/k")
	if err := checkOnce(starts, jobs); err != nil {
		t.Error(err)
	}
	// What is recorded is not the start but a moment after it, at which two handlers may have changed places.
	swapped, latest := 0, -1
	for _, start := range starts {
		if start.n < latest {
			swapped++
		}
		latest = max(latest, start.n)
	}
	t.Logf("%d swapped", swapped)
	if swapped > jobs/100 {
		t.Errorf("%d of %d started after one that stood behind them", swapped, jobs)
	}
}

// Redis dies with jobs on their way, and comes back: the worker goes on by itself, and each job runs once.
func TestRedisDiesAndComesBack(t *testing.T) {
	t.Parallel()
	const jobs, interval = 60, 20 * time.Millisecond
	server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always") // it loses nothing
	s := newSite(t, server.Client(t), 2)
	s.class(t, "a", interval)
	w := s.work(t, 0, takes(5*time.Millisecond), patient())
	buckets := []string{"a/1", "a/2", "a/3", "a/4"}
	for _, bucket := range buckets {
		s.submit(t, bucket, jobs)
	}
	for i, outage := range []time.Duration{1500 * time.Millisecond, 100 * time.Millisecond} { // refused for long; for a moment
		s.await(t, "a/1", 10+20*i)
		server.Kill()
		pause(outage)
		server.Restart()
	}
	for _, bucket := range buckets {
		s.await(t, bucket, jobs)
	}
	if books := s.books(t, "a"); books.Done != int64(jobs*len(buckets)) || books.Waiting() != 0 || books.Out() != 0 {
		t.Errorf("books: %+v", books)
	}
	for _, bucket := range buckets {
		checkReal(t, s, bucket, interval, jobs)
	}
	if len(w.log.lines("departures failed")) == 0 {
		t.Error("the outage was not logged")
	}
}

// Redis forgets the scripts.
func TestScriptFlush(t *testing.T) {
	t.Parallel()
	const jobs, interval = 60, 10 * time.Millisecond
	s := newSite(t, redistest.Start(t).Client(t), 1)
	s.class(t, "a", interval)
	w := s.work(t, 0, nil, patient())
	s.submit(t, "a/k", jobs)
	for n := 10; n <= 50; n += 20 {
		s.await(t, "a/k", n)
		mustDo(t, s.rdb.ScriptFlush(t.Context()).Err())
	}
	s.await(t, "a/k", jobs)
	checkReal(t, s, "a/k", interval, jobs)
	if books := s.books(t, "a"); books.Done != jobs || books.Departed != jobs {
		t.Errorf("books: %+v", books)
	}
	if lines := w.log.lines("level=WARN"); len(lines) > 0 {
		t.Errorf("logged %q", lines)
	}
}

// Replies get lost after Redis has done what it was asked for: departures go back and settlements are repeated, each job
// runs once, in order.
func TestLostReplies(t *testing.T) {
	t.Parallel()
	const jobs, interval = 60, 10 * time.Millisecond
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		t.Parallel()
		s := newSite(t, rdb, 2)
		s.class(t, "a", interval)
		var calls, lost atomic.Int64
		var healed atomic.Bool
		w := s.work(t, 0, nil, patient(), onCall(func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
			err := next(ctx, cmd)
			_, departs := departure(cmd)
			if departs && len(departed(cmd)) == 0 || !departs && !settlement(cmd) || healed.Load() {
				return err
			}
			if calls.Add(1)%4 == 0 {
				lost.Add(1)
				return io.EOF
			}
			return err
		}))
		var buckets []string
		for key := range 4 {
			buckets = append(buckets, fmt.Sprintf("a/%d", key))
			s.submit(t, buckets[key], jobs)
		}
		for _, bucket := range buckets {
			s.await(t, bucket, jobs)
		}
		books := s.books(t, "a")
		healed.Store(true)
		if books.Done != int64(jobs*len(buckets)) || books.Waiting() != 0 || books.Out() != 0 || books.Returned == 0 {
			t.Errorf("books: %+v", books)
		}
		if lost.Load() < 10 {
			t.Errorf("only %d replies were lost", lost.Load())
		}
		for _, bucket := range buckets {
			checkReal(t, s, bucket, interval, jobs)
		}
		if len(w.log.lines("settle failed")) == 0 || len(w.log.lines("verdict refused")) == 0 {
			t.Error("no settlement was repeated")
		}
	})
}
