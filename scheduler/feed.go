package scheduler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
)

const (
	// feedQueue is the only queue that a worker's asynq server knows. No key of
	// it reaches Redis; asynq's tools show the name beside a running task.
	feedQueue = "spout"

	// never is so far away that none of asynq's timers decides a fate.
	never = 10 * 365 * 24 * time.Hour

	// dequeueWait is how long asynq's dequeue waits for a task. asynq counts the
	// 30 s lease of a task from the moment it *asks* for one and ends handlers
	// whose lease ran out before a heartbeat (every 5 s) renewed it, so this must
	// stay well below 25 s.
	dequeueWait = 10 * time.Second

	// defaultShutdownTimeout is asynq's own.
	defaultShutdownTimeout = 8 * time.Second

	// shutdownGrace is what asynq gets beyond the shutdown timeout to take its
	// leave of Redis.
	shutdownGrace = 5 * time.Second
)

// errFeedClosed is returned for tasks that come after the shutdown began.
var errFeedClosed = errors.New("scheduler: the feed is closed")

// feedOptions configure a feed.
type feedOptions struct {
	// Redis is where heartbeats go and cancellations come from. Only its options
	// are used, for a client of the feed's own, but it must outlive the feed: the
	// dialer of a sentinel client asks its sentinels.
	Redis redis.UniversalClient

	// Concurrency is how many handlers run at once; at least 1.
	Concurrency int

	// ShutdownTimeout is how long shutdown waits for running handlers.
	// 0 means 8 s.
	ShutdownTimeout time.Duration

	// Logger gets what asynq logs; nil discards it.
	Logger *slog.Logger

	// OnResult gets what a handler wrote to its ResultWriter, on the goroutine of
	// that handler. It may keep data.
	// nil discards results.
	OnResult func(taskID string, data []byte)
}

// A task is one departure, as asynq is to see it.
type task struct {
	ID      string // <ref>:<stamp>, never used twice
	Type    string
	Payload []byte
	Headers map[string]string
}

// A feed runs tasks in an ordinary asynq.Server that has no queue in Redis: a
// hook on the server's Redis client answers its queue scripts (feed_hook.go).
// So a handler has all that asynq gives to it, and what becomes of its job is
// not asynq's to say: whatever a handler returns, and when it panics, asynq
// forgets the task.
//
// Two things to know about asynq's slots: one is free again as soon as the
// task's context has ended, even if the handler runs on; and a shutdown leaves
// handlers behind that outlast its timeout.
type feed struct {
	server   *asynq.Server
	redis    redis.UniversalClient // only the server's
	encoder  *encoder
	onResult func(taskID string, data []byte)
	timeout  time.Duration // of the shutdown

	tasks    chan fedTask
	puts     sync.RWMutex // held for reading by put, so that shutdown can wait for the last one
	closing  chan struct{}
	shutOnce sync.Once
}

// fedTask waits for the server to ask for it.
type fedTask struct {
	id      string
	message []byte // as asynq encodes a task
}

// newFeed returns a feed that holds tasks back until start.
func newFeed(o feedOptions) (*feed, error) {
	if o.Concurrency < 1 {
		return nil, fmt.Errorf("scheduler: feed with %d slots", o.Concurrency)
	}
	server, err := cloneForServer(o.Redis)
	if err != nil {
		return nil, err
	}
	f := &feed{
		redis:    server,
		encoder:  newEncoder(),
		onResult: o.OnResult,
		timeout:  cmp.Or(o.ShutdownTimeout, defaultShutdownTimeout),
		tasks:    make(chan fedTask, o.Concurrency),
		closing:  make(chan struct{}),
	}
	if f.onResult == nil {
		f.onResult = func(string, []byte) {}
	}
	server.AddHook(feedHook{f})
	f.server = asynq.NewServerFromRedisClient(server, asynq.Config{
		Concurrency:     o.Concurrency,
		Queues:          map[string]int{feedQueue: 1},
		ShutdownTimeout: f.timeout,
		Logger:          newAsynqLog(o.Logger),
		// Between a dequeue that found nothing and the next one: short, for a
		// task may come meanwhile, and not zero, for a closed feed is asked
		// until the server has stopped.
		TaskCheckInterval: time.Millisecond,
		// These find nothing; let them look rarely.
		DelayedTaskCheckInterval: time.Hour,
		JanitorInterval:          time.Hour,
	})
	return f, nil
}

// start begins to run tasks with h. Redis may be away.
func (f *feed) start(h asynq.Handler) error {
	if f.closed() {
		return errFeedClosed
	}
	return f.server.Start(h)
}

// put hands one task over. It waits while Concurrency tasks wait already, which
// does not happen to a caller that keeps count of the free slots.
func (f *feed) put(ctx context.Context, t task) error {
	f.puts.RLock()
	defer f.puts.RUnlock()
	if f.closed() { // a select alone would pick at random while there is room
		return errFeedClosed
	}
	message, err := f.encoder.encode(ctx, t)
	if err != nil {
		return fmt.Errorf("encode task %s: %w", t.ID, err)
	}
	select {
	case f.tasks <- fedTask{t.ID, message}:
		return nil
	case <-f.closing:
		return errFeedClosed
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (f *feed) closed() bool {
	select {
	case <-f.closing:
		return true
	default:
		return false
	}
}

// shutdown hands out no further task, waits for the running handlers up to the
// timeout and ends everything but the handlers that outlast it, whose contexts
// are done by then. It returns the ids of the tasks that no handler got to see,
// in the order of their coming. Calls after the first return nil.
func (f *feed) shutdown() (unseen []string) {
	f.shutOnce.Do(func() {
		close(f.closing)
		f.stopServer()
		_ = f.encoder.close() // has no connection to lose

		f.puts.Lock() // every put under way has ended, none comes after it
		defer f.puts.Unlock()
		close(f.tasks)
		for t := range f.tasks {
			unseen = append(unseen, t.id)
		}
	})
	return unseen
}

// stopServer stops asynq's server and closes its client. It returns, whatever
// state Redis is in.
func (f *feed) stopServer() {
	// A Redis that froze between a SUBSCRIBE and its reply holds asynq's
	// subscriber, and with it Shutdown, until the client is closed.
	patience := time.AfterFunc(f.timeout+shutdownGrace, func() { _ = f.redis.Close() })
	f.server.Shutdown()
	patience.Stop()
	_ = f.redis.Close() // an error says only that it is closed already
}

// asynqLog writes asynq's log to ours. asynq's Info tells of starts and stops
// at length, hence Debug.
type asynqLog struct{ log *slog.Logger }

func newAsynqLog(log *slog.Logger) asynqLog {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return asynqLog{log}
}

func (l asynqLog) Debug(args ...any) { l.write(slog.LevelDebug, args) }
func (l asynqLog) Info(args ...any)  { l.write(slog.LevelDebug, args) }
func (l asynqLog) Error(args ...any) { l.write(slog.LevelError, args) }

// Warn keeps quiet about the fates that asynq believes to decide.
func (l asynqLog) Warn(args ...any) {
	level, text := slog.LevelWarn, fmt.Sprint(args...)
	if strings.HasPrefix(text, "Retry exhausted for task") || strings.HasPrefix(text, "revoke task") {
		level = slog.LevelDebug
	}
	l.write(level, []any{text})
}

// Fatal does not end the process, as asynq would have it: only main may. asynq
// v0.26 never calls it.
func (l asynqLog) Fatal(args ...any) { l.write(slog.LevelError, args) }

func (l asynqLog) write(level slog.Level, args []any) {
	ctx := context.Background()
	if l.log.Enabled(ctx, level) {
		l.log.LogAttrs(ctx, level, "asynq", slog.String("text", fmt.Sprint(args...)))
	}
}
