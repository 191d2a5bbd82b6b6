package scheduler_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/scheduler"
)

// witness sees the calls of a worker as they are: when each departure was asked for, and how many were wanted.
type witness struct {
	mu    sync.Mutex
	asked map[string]time.Time // by task id
	wants []int
}

func newWitness() *witness { return &witness{asked: map[string]time.Time{}} }

func (w *witness) call(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
	before := time.Now()
	err := next(ctx, cmd)
	want, ok := departure(cmd)
	if !ok || err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wants = append(w.wants, want)
	for _, id := range departed(cmd) {
		w.asked[id] = before
	}
	return nil
}

// departed lists the task ids of the departures in a reply: each is a ref and the stamp after it.
func departed(cmd redis.Cmder) []string {
	c, ok := cmd.(*redis.Cmd)
	if !ok {
		return nil
	}
	reply, _ := c.Slice()
	if len(reply) < 8 {
		return nil
	}
	values, _ := reply[7].([]any)
	var ids []string
	for i := range values[:max(0, len(values)-1)] {
		if ref, ok := values[i].(string); ok && refShape.MatchString(ref) {
			ids = append(ids, fmt.Sprintf("%s:%v", ref, values[i+1]))
		}
	}
	return ids
}

var refShape = regexp.MustCompile(`^\d+-[\w-]{22}$`)

// latest is the longest time from the call to the start.
func (w *witness) latest(starts []start) time.Duration {
	w.mu.Lock()
	defer w.mu.Unlock()
	var latest time.Duration
	for _, s := range starts {
		latest = max(latest, s.at.Sub(w.asked[s.id]))
	}
	return latest
}

// lateReplies delay what departs by d.
func lateReplies(d func() time.Duration) onCall {
	return func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		err := next(ctx, cmd)
		if _, ok := departure(cmd); ok && len(departed(cmd)) > 0 {
			pause(d())
		}
		return err
	}
}

// While replies come too late, nothing starts: it goes back, is counted, and the worker asks for one at a time and says
// so. Once they are in time again, all goes on in order and at its pace.
func TestStaleDeparturesGoBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, w := miniSite(t), newWitness()
		s.class(t, "a", 200*time.Millisecond)
		var mu sync.Mutex
		delay := freshness + time.Millisecond
		worker := s.work(t, 0, nil, scheduler.Options{}, onCall(w.call), lateReplies(func() time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return delay
		}))
		const jobs = 10
		buckets := []string{"a/1", "a/2", "a/3"}
		for _, bucket := range buckets {
			s.submit(t, bucket, jobs)
		}
		pause(3 * time.Second)
		for _, bucket := range buckets {
			if n := len(s.seen(bucket)); n > 0 {
				t.Errorf("%d starts of stale departures of %s", n, bucket)
			}
		}
		if lines := worker.log.lines("asking for one at a time"); len(lines) != 1 {
			t.Errorf("it said so %d times", len(lines))
		}
		w.mu.Lock()
		if n := len(w.wants); w.wants[0] != 32 || w.wants[n-1] != 1 {
			t.Errorf("it asked for %v", w.wants)
		}
		w.mu.Unlock()

		mu.Lock()
		delay = freshness - time.Millisecond
		mu.Unlock()
		for _, bucket := range buckets {
			s.await(t, bucket, jobs)
		}
		pause(2 * time.Second)
		for _, bucket := range buckets {
			starts := s.seen(bucket)
			if err := checkOrder(starts, jobs); err != nil {
				t.Errorf("%s: %v", bucket, err)
			}
			if err := checkPace(timesOf(starts), 200*time.Millisecond, catchUp+freshness); err != nil {
				t.Errorf("%s: %v", bucket, err)
			}
			if late := w.latest(starts); late == 0 || late > freshness {
				t.Errorf("%s: a start %v after its departure was asked for", bucket, late)
			}
		}
		books := s.books(t, "a")
		total := int64(jobs * len(buckets))
		if books.Stale < 10 || books.Done != total || books.Departed != total+books.Stale || books.Returned != books.Stale {
			t.Errorf("books: %+v", books)
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if n := len(w.wants); w.wants[n-1] != 32 {
			t.Errorf("in the end it asked for %d", w.wants[n-1])
		}
	})
}

// Whatever the network delays and by how much, one worker starts the jobs of a bucket in order, at its pace and never
// late: also where the interval is far shorter than the delays, so that many departures are under way at a time.
func TestDelaysBreakNeitherOrderNorPace(t *testing.T) {
	t.Parallel()
	intervals := []time.Duration{3 * time.Millisecond, 10 * time.Millisecond, 35 * time.Millisecond, 150 * time.Millisecond}
	const jobs = 40
	for seed := range uint64(4) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, w := newSite(t, redistest.MiniDial(t), 1), newWitness()
				for _, interval := range intervals {
					s.class(t, interval.String(), interval)
				}
				s.work(t, 0, nil, scheduler.Options{Concurrency: 1 + int(seed)*20}, onCall(w.call), slow(seed))
				for _, interval := range intervals {
					s.submit(t, interval.String()+"/k", jobs)
				}
				for _, interval := range intervals {
					bucket := interval.String() + "/k"
					s.await(t, bucket, jobs)
					starts := s.seen(bucket)
					if err := checkOrder(starts, jobs); err != nil {
						t.Errorf("%s: %v", bucket, err)
					}
					if err := checkPace(timesOf(starts), interval, catchUp+freshness); err != nil {
						t.Errorf("%s: %v", bucket, err)
					}
					if late := w.latest(starts); late > freshness {
						t.Errorf("%s: a start %v after its departure was asked for", bucket, late)
					}
					if books := s.books(t, interval.String()); books.Done != jobs || books.Waiting() != 0 {
						t.Errorf("books of %s: %+v", bucket, books)
					}
				}
			})
		})
	}
}

// slow delays replies by up to twice what departures are good for, and settlements by far more, there and back.
func slow(seed uint64) onCall {
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 2))
	upTo := func(most time.Duration) time.Duration {
		mu.Lock()
		defer mu.Unlock()
		return time.Duration(random.Int64N(int64(most)))
	}
	return func(ctx context.Context, cmd redis.Cmder, next redis.ProcessHook) error {
		if _, ok := departure(cmd); ok {
			err := next(ctx, cmd)
			if upTo(3) == 0 {
				pause(upTo(2 * freshness))
			}
			return err
		}
		pause(upTo(100 * time.Millisecond))
		err := next(ctx, cmd)
		pause(upTo(100 * time.Millisecond))
		return err
	}
}
