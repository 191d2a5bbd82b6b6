package scheduler_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// memory is what a Redis held at some time.
type memory map[string]any

// remember reads all keys of an installation.
func remember(t *testing.T, rdb *redis.Client) memory {
	t.Helper()
	keys, err := rdb.Keys(t.Context(), "*spout:*").Result()
	mustDo(t, err)
	held := memory{}
	for _, key := range keys {
		switch kind := rdb.Type(t.Context(), key).Val(); kind {
		case "hash":
			held[key] = rdb.HGetAll(t.Context(), key).Val()
		case "zset":
			held[key] = rdb.ZRangeWithScores(t.Context(), key, 0, -1).Val()
		case "set":
			held[key] = rdb.SMembers(t.Context(), key).Val()
		case "string":
			held[key] = rdb.Get(t.Context(), key).Val()
		default:
			t.Fatalf("key %s is a %s", key, kind)
		}
	}
	return held
}

// restore puts a Redis back to what it held, as a crash with an old backup would, in one step.
func (held memory) restore(t *testing.T, rdb *redis.Client) {
	t.Helper()
	ctx := context.Background()
	now, err := rdb.Keys(ctx, "*spout:*").Result()
	mustDo(t, err)
	for _, key := range now {
		mustDo(t, rdb.Del(ctx, key).Err())
	}
	for key, value := range held {
		switch v := value.(type) {
		case map[string]string:
			mustDo(t, rdb.HSet(ctx, key, v).Err())
		case []redis.Z:
			mustDo(t, rdb.ZAdd(ctx, key, v...).Err())
		case []string:
			mustDo(t, rdb.SAdd(ctx, key, v).Err())
		case string:
			mustDo(t, rdb.Set(ctx, key, v, 0).Err())
		}
	}
}

// Redis loses its latest changes under running workers: they say so, no two starts come closer together than an interval
// allows, what is out that nobody knows of comes back, and every job runs.
func TestRollback(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lost time.Duration
		id   string // of the server then, when it is another process
	}{
		"a moment, and another process": {600 * time.Millisecond, "another - 0"}, // too short for a call to be lost
		"long":                          {20 * time.Second, "- 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const interval, jobs, buckets = 2 * time.Second, 40, 4
				s, o := newSite(t, redisWithoutTTL(t), 1), &outages{}
				s.class(t, "a", interval)
				var workers []*worker
				for n := range 2 {
					workers = append(workers, s.work(t, n, takes(500*time.Millisecond), scheduler.Options{}, o))
				}
				for key := range buckets {
					s.submit(t, fmt.Sprintf("a/%d", key), jobs)
				}
				pause(10*interval + 300*time.Millisecond) // while some run
				was := remember(t, s.rdb)
				was["{spout:0}:server"] = c.id
				pause(c.lost)
				go o.during(errRefused, 100*time.Millisecond)
				pause(50 * time.Millisecond)
				was.restore(t, s.rdb)
				rewound := time.Now()
				pause(4 * time.Minute)
				warned := 0
				for _, w := range workers {
					warned += len(w.log.lines("redis lost data"))
				}
				if warned == 0 {
					t.Error("no worker tells of it")
				}
				checkRewound(t, s, interval, rewound, c.lost)
				books := s.books(t, "a")
				if books.Done != buckets*jobs || books.Waiting() != 0 || books.Returned != buckets {
					t.Errorf("books: %+v", books)
				}
				checkAudit(t, s, "a")
			})
		})
	}
}

// checkRewound checks the starts of buckets whose Redis was put back by a time: all jobs ran, none but those of that time
// twice, and every start kept the pace.
func checkRewound(t *testing.T, s *site, interval time.Duration, rewound time.Time, lost time.Duration) {
	t.Helper()
	for _, bucket := range s.buckets() {
		starts := s.seen(bucket)
		if err := checkPace(timesOf(starts), interval, catchUp+freshness); err != nil {
			t.Errorf("%s: %v", bucket, err)
		}
		ran := map[int]int{}
		for _, start := range starts {
			if ran[start.n]++; ran[start.n] > 2 {
				t.Errorf("%s: job %d started %d times", bucket, start.n, ran[start.n])
			}
		}
		twice := len(starts) - len(ran)
		if most := int(lost/interval) + 2; len(ran) != len(s.sent[bucket]) || twice > most {
			t.Errorf("%s: %d jobs started, %d twice", bucket, len(ran), twice)
		}
		for _, start := range starts {
			if after := start.at.Sub(rewound); after > 0 {
				if after < interval-catchUp || after > 3*interval {
					t.Errorf("%s: the first start after it came %v later", bucket, after)
				}
				break
			}
		}
	}
}

// Redis forgets when buckets let go last, and the workers, or it is another process that remembers them, while a worker has
// verdicts that it could not tell yet. They count, unless what they are about was given back.
func TestForgotten(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		forget func(ctx context.Context, rdb *redis.Client) error
		again  int64 // departures whose owner was forgotten
	}{
		"another process": {
			func(ctx context.Context, rdb *redis.Client) error {
				return rdb.Set(ctx, "{spout:0}:server", "another - 0", 0).Err()
			}, 0,
		},
		"the workers": {
			func(ctx context.Context, rdb *redis.Client) error { return rdb.Del(ctx, "{spout:0}:workers").Err() }, 3,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const interval, jobs = 3 * time.Second, 10
				s, calls := newSite(t, redisWithoutTTL(t), 1), &settlements{}
				s.class(t, "a", interval, func(c *queue.Class) { c.Timeout = time.Hour })
				w := s.work(t, 0, takes(7*time.Second), scheduler.Options{}, onCall(calls.call))
				s.submit(t, "a/k", jobs)
				s.await(t, "a/k", 3)
				calls.away.Store(true)
				pause(1500 * time.Millisecond)
				mustDo(t, c.forget(t.Context(), s.rdb), s.rdb.HDel(t.Context(), "{spout:0}:bucket:a/k", "slot").Err())
				pause(5 * time.Second)
				calls.away.Store(false)
				pause(2 * time.Minute)
				starts := s.seen("a/k")
				if err := checkPace(timesOf(starts), interval, catchUp+freshness); err != nil {
					t.Error(err)
				}
				if err := checkOrder(starts[c.again:], jobs); err != nil {
					t.Error(err)
				}
				checkTotals(t, s, queue.Books{Admitted: jobs, Departed: jobs + c.again, Returned: c.again, Done: jobs, Refused: c.again})
				for part, want := range map[string]int{"redis lost data": 1, "verdict refused": int(c.again)} {
					if lines := w.log.lines(part); len(lines) != want {
						t.Errorf("it logged %q", lines)
					}
				}
			})
		})
	}
}
