package scheduler_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// With strict pace the starts themselves keep the interval, but for the time that a permitted one may take: over a network
// with delays, with several workers, and without any catch-up.
func TestStrictPace(t *testing.T) {
	t.Parallel()
	const jobs = 70
	for _, workers := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d workers", workers), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, redisWithoutTTL(t), 1)
				intervals := []time.Duration{20 * time.Millisecond, 45 * time.Millisecond, 300 * time.Millisecond}
				for _, interval := range intervals {
					s.class(t, interval.String(), interval, func(c *queue.Class) { c.Pace, c.CatchUp = queue.PaceStrict, time.Second })
				}
				for n := range workers {
					s.work(t, n, busy(uint64(n)), scheduler.Options{}, jittery(uint64(n)))
				}
				for _, interval := range intervals {
					s.submit(t, interval.String()+"/1", jobs)
					s.submit(t, interval.String()+"/2", jobs)
				}
				for _, bucket := range s.buckets() {
					class, _, _ := strings.Cut(bucket, "/")
					interval, _ := time.ParseDuration(class)
					s.await(t, bucket, jobs)
					checkStrict(t, bucket, s.seen(bucket), interval, jobs, workers)
				}
				pause(time.Second)
				for _, interval := range intervals {
					if books := s.books(t, interval.String()); books.Done != 2*jobs || books.Returned != books.Stale {
						t.Errorf("books of %v: %+v", interval, books)
					}
					checkAudit(t, s, interval.String())
				}
			})
		})
	}
}

func checkStrict(t *testing.T, bucket string, starts []start, interval time.Duration, jobs, workers int) {
	t.Helper()
	if err := checkPace(timesOf(starts), interval, queue.StrictFreshness); err != nil {
		t.Errorf("%s: %v", bucket, err)
	}
	check := checkOnce
	if workers == 1 {
		check = checkOrder
	}
	if err := check(starts, jobs); err != nil {
		t.Errorf("%s: %v", bucket, err)
	}
	took := starts[len(starts)-1].at.Sub(starts[0].at)
	t.Logf("%s: %v a job", bucket, took/time.Duration(jobs-1))
	if took > 2*interval*time.Duration(jobs) {
		t.Errorf("%s: %d jobs took %v", bucket, jobs, took)
	}
}

// A strict departure whose start is not permitted any more, since its job was given to another, does not start.
func TestStrictStartRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, redisWithoutTTL(t), 1)
		s.class(t, "a", time.Second, func(c *queue.Class) { c.Pace = queue.PaceStrict })
		stolen := false
		w := s.work(t, 0, nil, scheduler.Options{}, lateReplies(func() time.Duration {
			if !stolen { // the call has happened, and its reply is on its way
				stolen = true
				mustDo(t, s.rdb.Eval(t.Context(), stealAll, []string{"{spout:0}:workers", "{spout:0}:out:*"}).Err())
			}
			return 0
		}))
		s.submit(t, "a/k", 3)
		pause(30 * time.Second)
		if got := fmt.Sprint(s.numbers("a/k")); got != "[1 2]" {
			t.Errorf("started: %s", got)
		}
		if n := outOf(t, s, 0, w); n != 0 {
			t.Errorf("%d jobs are out", n)
		}
	})
}

// stealAll takes away what workers have out.
const stealAll = `for _, w in ipairs(redis.call('HKEYS', KEYS[1])) do redis.call('DEL', '{spout:0}:out:' .. w) end return 1`
