package scheduler_test

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

const (
	catchUp   = 5 * time.Millisecond  // τ, the default of a class
	freshness = 25 * time.Millisecond // G, the default of a worker

	// patience is for what should happen at once, on a real server.
	patience = time.Minute
)

// site is one Redis with its producers, workers, and what their handlers saw.
type site struct {
	rdb    *redis.Client
	client *queue.Client // the producers' and the operator's

	mu      sync.Mutex
	sent    map[string][]sending // by bucket, in order of admission
	starts  map[string][]start   // by bucket
	began   atomic.Int64         // starts so far
	changed chan struct{}        // closed and renewed with each start
}

// sending is one submitted job.
type sending struct{ at time.Time }

// start is one call of a handler.
type start struct {
	seq    int64 // among all starts of the site
	at     time.Time
	n      int // its payload: the number of the job in its bucket, from 0
	try    int // the attempt's number, as its header says
	worker int
	id     string // the task's
}

// newSite opens an installation on rdb. More than one shard costs more calls.
func newSite(tb testing.TB, rdb *redis.Client, shards int) *site {
	tb.Helper()
	s := &site{rdb: rdb, sent: map[string][]sending{}, starts: map[string][]start{}, changed: make(chan struct{})}
	var err error
	if s.client, err = queue.Open(tb.Context(), rdb, queue.Options{Shards: shards}); err != nil {
		tb.Fatal(err)
	}
	return s
}

// miniSite is a site for a testing/synctest bubble.
func miniSite(tb testing.TB) *site {
	tb.Helper()
	return newSite(tb, redistest.MiniDial(tb), 1)
}

// class stores a class of roomy buckets that let a job go every interval.
func (s *site) class(tb testing.TB, name string, interval time.Duration, change ...func(*queue.Class)) {
	tb.Helper()
	class := queue.NewClass(name, 100_000, queue.Rate{Limit: 1, Period: interval})
	for _, c := range change {
		c(&class)
	}
	if _, err := s.client.Classes().Put(tb.Context(), class); err != nil {
		tb.Fatal(err)
	}
}

// submit puts n further jobs into a bucket. One caller per bucket at a time.
func (s *site) submit(tb testing.TB, bucket string, n int) {
	tb.Helper()
	s.submitTyped(tb, bucket, "test", n)
}

func (s *site) submitTyped(tb testing.TB, bucket, typ string, n int) []queue.Receipt {
	tb.Helper()
	class, key, _ := strings.Cut(bucket, "/")
	s.mu.Lock()
	next := len(s.sent[bucket])
	for range n { // before they can start
		s.sent[bucket] = append(s.sent[bucket], sending{time.Now()})
	}
	s.mu.Unlock()
	jobs := make([]queue.Job, n)
	for i := range jobs {
		jobs[i] = queue.Job{Class: class, Key: key, Type: typ, Payload: []byte(strconv.Itoa(next + i))}
	}
	var receipts []queue.Receipt
	for batch := range slices.Chunk(jobs, 100) { // one call each: miniredis in a bubble has no buffers for a pipeline
		for _, r := range s.client.SubmitMany(tb.Context(), batch) {
			if r.Err != nil {
				tb.Errorf("submit to %s: %v", bucket, r.Err)
			}
			receipts = append(receipts, r.Receipt)
		}
	}
	return receipts
}

// worker is one scheduler that runs.
type worker struct {
	*scheduler.Scheduler
	rdb    *redis.Client // its own
	log    *journal
	cancel context.CancelFunc
	ended  chan struct{}
	err    error // valid once ended
}

// work starts a worker with a client of its own. Its handler is h, nil for one that does nothing, and what it sees is
// recorded. The worker is stopped at the end of tb.
func (s *site) work(tb testing.TB, number int, h asynq.HandlerFunc, o scheduler.Options, hooks ...redis.Hook) *worker {
	tb.Helper()
	w := &worker{rdb: another(tb, s.rdb), log: &journal{}, ended: make(chan struct{})}
	for _, hook := range hooks {
		w.rdb.AddHook(hook)
	}
	client, err := queue.Open(tb.Context(), w.rdb, queue.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	o.Logger = slog.New(slog.NewTextHandler(w.log, nil))
	if w.Scheduler, err = scheduler.New(client, s.recorded(tb, number, h), o); err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(tb.Context())
	w.cancel = cancel
	go func() {
		defer close(w.ended)
		w.err = w.Run(ctx)
	}()
	tb.Cleanup(func() { w.stop(tb) })
	if virtual() {
		pause(10 * time.Millisecond) // until it listens: a hint lost before costs a second
	}
	return w
}

// stop ends a worker as SIGTERM does, and waits for it.
func (w *worker) stop(tb testing.TB) {
	tb.Helper()
	w.cancel()
	<-w.ended
	if w.err != nil {
		tb.Errorf("the worker ended with: %v", w.err)
		w.err = nil
	}
}

// another returns a further client of the same Redis, without a host name to look up, and without retries: each call
// either happens once or its hooks see why not.
func another(tb testing.TB, rdb *redis.Client) *redis.Client {
	tb.Helper()
	o := *rdb.Options()
	o.PushNotificationProcessor = nil
	o.MaxRetries = -1
	o.ContextTimeoutEnabled = true
	c := redis.NewClient(&o)
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

func (s *site) recorded(tb testing.TB, number int, h asynq.HandlerFunc) asynq.HandlerFunc {
	tb.Helper()
	return func(ctx context.Context, task *asynq.Task) error {
		began := start{seq: s.began.Add(1), at: time.Now(), worker: number} // before anything else
		began.id, _ = asynq.GetTaskID(ctx)
		s.saw(task, began)
		if h == nil {
			return nil
		}
		return h(ctx, task)
	}
}

func (s *site) saw(task *asynq.Task, began start) {
	var err error
	if began.n, err = strconv.Atoi(string(task.Payload())); err != nil {
		began.n = -1
	}
	began.try, _ = strconv.Atoi(task.Headers()["Spout-Attempt"])
	bucket := task.Headers()["Spout-Class"] + "/" + task.Headers()["Spout-Key"]
	s.mu.Lock()
	defer s.mu.Unlock()
	s.starts[bucket] = append(s.starts[bucket], began)
	close(s.changed)
	s.changed = make(chan struct{})
}

// seen returns the starts of a bucket so far, in their order.
func (s *site) seen(bucket string) []start {
	s.mu.Lock()
	defer s.mu.Unlock()
	starts := slices.Clone(s.starts[bucket])
	slices.SortFunc(starts, func(a, b start) int { return cmp.Compare(a.seq, b.seq) })
	return starts
}

// numbers are the numbers of the jobs of a bucket in the order of their starts.
func (s *site) numbers(bucket string) []int {
	var numbers []int
	for _, start := range s.seen(bucket) {
		numbers = append(numbers, start.n)
	}
	return numbers
}

// buckets lists those that jobs were sent to.
func (s *site) buckets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.sent))
}

// await waits until n jobs of a bucket have started.
func (s *site) await(tb testing.TB, bucket string, n int) {
	tb.Helper()
	limit := patience
	if virtual() {
		limit = time.Hour
	}
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	for {
		s.mu.Lock()
		have, changed := len(s.starts[bucket]), s.changed
		s.mu.Unlock()
		if have >= n {
			return
		}
		select {
		case <-changed:
		case <-timeout.C:
			tb.Fatalf("%d of %d jobs of %s started", have, n, bucket)
		}
	}
}

// virtual tells whether time is a bubble's, which begins with this century.
func virtual() bool { return time.Now().Year() < 2020 }

// books returns the totals of a class once nothing of it is out, as handlers are settled a moment after they return.
func (s *site) books(tb testing.TB, class string) queue.Books {
	tb.Helper()
	var books queue.Books
	for range 1000 {
		var err error
		if books, err = s.client.Books(tb.Context(), class); err != nil {
			tb.Fatal(err)
		}
		if books.Out() == 0 {
			break
		}
		<-time.After(10 * time.Millisecond)
	}
	return books
}

// journal is a log that can be searched.
type journal struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

// lines are those with a part in it.
func (j *journal) lines(part string) []string {
	j.mu.Lock()
	defer j.mu.Unlock()
	var found []string
	for line := range strings.Lines(j.text.String()) {
		if strings.Contains(line, part) {
			found = append(found, line)
		}
	}
	return found
}
