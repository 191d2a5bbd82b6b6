package scheduler_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// flow is one class of the half hour and what producers do to each of its buckets.
type flow struct {
	keys     int
	together bool // all its buckets get their bursts at the same time
	rate     queue.Rate
	first    int           // jobs at the beginning
	then     int           // jobs of each later burst
	every    time.Duration // about when the next burst comes; 0 for none
	late     queue.Rate    // from the middle on, when set
}

const (
	halfHour  = 30 * time.Minute
	lastBurst = 25 * time.Minute
	middle    = halfHour / 2
)

// flows are rates from one a minute to fifty a second: backlogs for the whole time, bursts, single jobs.
func flows(classes string) map[string]flow {
	rate := func(limit int64, period time.Duration) queue.Rate { return queue.Rate{Limit: limit, Period: period} }
	all := map[string]flow{
		"a": {keys: 3, rate: rate(1, time.Minute), first: 28},
		"b": {keys: 3, rate: rate(3, time.Minute), first: 75},
		"c": {keys: 4, together: true, rate: rate(7, time.Minute), first: 50, then: 30, every: 8 * time.Minute},
		"d": {keys: 5, together: true, rate: rate(1, 5*time.Second), first: 200, late: rate(1, 2*time.Second)},
		"e": {keys: 5, together: true, rate: rate(1, time.Second), first: 40, then: 40, every: 6 * time.Minute},
		"f": {keys: 7, together: true, rate: rate(7, time.Second), first: 45, then: 45, every: 5 * time.Minute},
		"g": {keys: 8, together: true, rate: rate(20, time.Second), first: 60, then: 60, every: 4 * time.Minute},
		"h": {keys: 7, together: true, rate: rate(50, time.Second), first: 50, then: 50, every: 5 * time.Minute},
		"i": {keys: 3, rate: rate(1, 3*time.Second), first: 1, then: 1, every: 20 * time.Second},
		"j": {keys: 5, together: true, rate: rate(10, time.Minute), first: 165, late: rate(7, time.Minute)},
	}
	maps.DeleteFunc(all, func(name string, _ flow) bool { return !strings.Contains(classes, name) })
	return all
}

// Half an hour of three workers that drain some twenty-five buckets of five rates over a network that is slow at times. One
// worker is stopped in the middle, another one comes, and a class changes its rate.
func TestHalfAnHour(t *testing.T) {
	t.Parallel()
	for _, classes := range []string{"acegi", "bdfhj"} {
		t.Run(classes, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { halfAnHour(t, flows(classes)) })
		})
	}
}

func halfAnHour(t *testing.T, flows map[string]flow) {
	t.Helper()
	s := newSite(t, redisWithoutTTL(t), 1)
	for name, f := range flows {
		s.class(t, name, 0, func(c *queue.Class) { c.Rate = f.rate })
	}
	workers := make([]*worker, 4)
	hire := func(n int) {
		workers[n] = s.work(t, n, busy(uint64(n)), scheduler.Options{}, jittery(uint64(n)))
	}
	for n := range 3 {
		hire(n)
	}

	begun := time.Now()
	var producers sync.WaitGroup
	for name, f := range flows {
		for key := range f.keys {
			bucket := fmt.Sprintf("%s/key %d", name, key)
			producers.Go(func() { produce(t, s, bucket, f, begun.Add(lastBurst)) })
		}
	}
	pause(middle - time.Minute)
	workers[1].stop(t)
	pause(time.Minute)
	for name, f := range flows {
		if f.late != (queue.Rate{}) {
			s.class(t, name, 0, func(c *queue.Class) { c.Rate = f.late })
		}
	}
	pause(time.Minute)
	hire(3)
	producers.Wait()
	pause(time.Until(begun.Add(halfHour)))

	total := 0
	for _, bucket := range s.buckets() {
		total += len(s.seen(bucket))
		class, _, _ := strings.Cut(bucket, "/")
		checkHalfHour(t, s, bucket, flows[class], begun.Add(middle))
	}
	for name := range flows {
		checkBooks(t, s, name)
	}
	for n, w := range workers {
		if lines := w.log.lines("level=WARN"); len(lines) > 0 {
			t.Errorf("worker %d complained: %q", n, lines)
		}
	}
	pause(2*time.Minute + 2*time.Second) // two intervals of the slowest, and a poll
	checkNothingLeft(t, s)
	if total < 5000 || len(s.buckets()) < 20 {
		t.Errorf("%d jobs in %d buckets are not what this test is for", total, len(s.buckets()))
	}
	t.Logf("%d jobs", total)
}

// redisWithoutTTL is redistest.MiniDial without expiry: nothing here expires, and looking whether something does, on each
// tick of the clock, would take as long as everything else.
func redisWithoutTTL(tb testing.TB) *redis.Client {
	tb.Helper()
	_, rdb := serverWithoutTTL(tb)
	return rdb
}

func serverWithoutTTL(tb testing.TB) (*miniredis.Miniredis, *redis.Client) {
	tb.Helper()
	m := miniredis.NewMiniRedis()
	tb.Cleanup(m.Close)
	rdb := redis.NewClient(&redis.Options{
		Dialer:                   func(context.Context, string, string) (net.Conn, error) { return m.Dial() },
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	tb.Cleanup(func() { _ = rdb.Close() })
	return m, rdb
}

// busy is a handler that takes 100 ms now and then.
func busy(seed uint64) asynq.HandlerFunc {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 1))
	return func(context.Context, *asynq.Task) error {
		mu.Lock()
		long := random.IntN(8) == 0
		mu.Unlock()
		if long {
			pause(100 * time.Millisecond)
		}
		return nil
	}
}

// produce submits bursts to one bucket until end.
func produce(t *testing.T, s *site, bucket string, f flow, end time.Time) {
	t.Helper()
	seed := uint64(0)
	if !f.together {
		seed = uint64(bucket[len(bucket)-1])
	}
	random := rand.New(rand.NewPCG(uint64(bucket[0]), seed))
	pause(time.Duration(random.Int64N(int64(10 * time.Second))))
	s.submit(t, bucket, f.first)
	if f.every == 0 {
		return
	}
	for {
		pause(f.every/2 + time.Duration(random.Int64N(int64(f.every))))
		if time.Now().After(end) {
			return
		}
		s.submit(t, bucket, f.then)
	}
}

// checkHalfHour checks laws 2, 3 and 5 of one bucket, and that it left as fast as it may.
func checkHalfHour(t *testing.T, s *site, bucket string, f flow, changed time.Time) {
	t.Helper()
	starts, sent := s.seen(bucket), s.sent[bucket]
	interval := f.rate.Interval()
	check := checkOnce
	if interval > catchUp+freshness {
		check = checkOrder
	}
	if err := check(starts, len(sent)); err != nil {
		t.Errorf("%s: %v", bucket, err)
		return
	}

	parts := map[time.Duration][]start{interval: starts}
	if late := f.late.Interval(); late > 0 {
		parts = map[time.Duration][]start{min(interval, late): starts}
		var before, after []start
		for _, s := range starts {
			if s.at.Before(changed) {
				before = append(before, s)
			} else if s.at.After(changed.Add(freshness)) {
				after = append(after, s)
			}
		}
		parts[interval], parts[late] = before, after
		checkRate(t, bucket, late, starts, sent, changed.Add(time.Second), changed.Add(halfHour))
		checkRate(t, bucket, interval, starts, sent, time.Time{}, changed)
	} else {
		checkRate(t, bucket, interval, starts, sent, time.Time{}, changed.Add(halfHour))
	}
	for interval, starts := range parts {
		if err := checkPace(timesOf(starts), interval, catchUp+freshness); err != nil {
			t.Errorf("%s: %v", bucket, err)
		}
	}
}

// checkRate checks that a bucket with a backlog left at its rate, within 1 %.
func checkRate(t *testing.T, bucket string, interval time.Duration, starts []start, sent []sending, from, to time.Time) {
	t.Helper()
	mean, n := meanInterval(starts, sent, from, to)
	if n < 20 {
		return // single jobs
	}
	// The first and the last start may each be as late as a departure stays good.
	if off := (mean - interval).Abs(); off > interval/100+(catchUp+freshness)/time.Duration(n) {
		t.Errorf("%s: mean interval %v over %d, want %v", bucket, mean, n, interval)
	}
}

// checkBooks checks that all that was admitted to a class is done.
func checkBooks(t *testing.T, s *site, class string) {
	t.Helper()
	books := s.books(t, class)
	var sent int64
	for bucket, jobs := range s.sent {
		if strings.HasPrefix(bucket, class+"/") {
			sent += int64(len(jobs))
		}
	}
	if books.Admitted != sent || books.Done != sent || books.Dead != 0 || books.Waiting() != 0 || books.Out() != 0 {
		t.Errorf("books of class %s, with %d jobs sent: %+v", class, sent, books)
	}
}

// checkNothingLeft checks that idle buckets leave no key.
func checkNothingLeft(t *testing.T, s *site) {
	t.Helper()
	for _, kind := range []string{"bucket:", "line:", "later:", "expiry:", "due", "out:", "job:", "dead:", "sick"} {
		keys, err := s.rdb.Keys(t.Context(), "{spout:*}:"+kind+"*").Result()
		if err != nil || len(keys) > 0 {
			t.Errorf("left in Redis: %q, %v", keys, err)
		}
	}
}
