// Package scheduler is the spout: it decides when jobs may leave their buckets, runs them in an asynq server, and tells
// the buckets what became of them.
//
//	New(client, handler, Options{}).Run(ctx)
//
// Any number of schedulers may drain the same buckets; there is no leader, and none needs to know of the others. A handler
// is a plain asynq.Handler. It sees its payload, its task id (the job's ref and the departure's stamp), a ResultWriter,
// a context with the class's timeout, and these task headers:
//
//	Spout-Class, Spout-Key, Spout-Id   the job's identity
//	Spout-Ref                          its ref
//	Spout-Attempt                      1 for the first attempt; departures that were given back do not count
//	Spout-Due                          when it was to leave its bucket, RFC 3339 with microseconds
//	Spout-Http                         the class's http settings as JSON, when they are not the defaults
//
// What a handler returns decides. Nil is done, and what it wrote to its ResultWriter is kept for the class's retention. Any
// error, a panic or a missed deadline too, is a failed attempt: the job goes back to its bucket, waits out its backoff and
// departs again at the bucket's rate, or is dead after the class's max_attempts. An error may say more:
//
//	asynq.SkipRetry in its chain       another attempt would be no use: the job is dead at once
//	RetryAfter() time.Duration         the backoff of this failure, in place of the class's
//	Hold() (d time.Duration, class bool)
//	                                   the called service asked to be left alone: the job returns to the head of its
//	                                   bucket, which is held for d (class: all buckets of the class are); not a failure
//	Throttled() bool                   true, beside Hold: it refused for the rate, so that a class that adapts slows down
//	GiveBack() bool                    true: the attempt did not start; the job returns to the head of its bucket
//
// # Crashes
//
// Workers watch each other's heartbeats. What a dead one had out returns to its buckets within some 12 s and departs again. A
// worker that has not reached Redis for 8 s ends its handlers, since its jobs may be given to others; whatever it says about
// them afterwards is refused. A job whose workers died again and again (the class's max_crashes) is dead.
//
// # Time
//
// A departure is good for a short time only ([Options.Freshness]), counted on the worker's monotonic clock from before the
// departure was asked for. A handler that has not started by then does not: the job goes back and departs again. So starts
// keep the bucket's pace even on a worker that was stopped, swapped out or overloaded in between.
package scheduler

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/queue"
)

// Options of a [Scheduler]. The zero value works.
type Options struct {
	// Classes to drain; empty means all. Name them when this program has handlers for some only.
	Classes []string
	// Concurrency is how many attempts run at once, over all shards. Defaults to 64.
	Concurrency int
	// ShutdownTimeout is how long Run waits for running attempts once its context has ended. Defaults to 30 s.
	ShutdownTimeout time.Duration
	// Freshness (G) is how long a departure stays good. Starts conform to GCRA(T, catch_up + G), so it should be short, but
	// at least twice the 99th percentile of the round trip to Redis plus 10 ms. Defaults to 25 ms.
	Freshness time.Duration
	// Logger gets what an operator should know; nil discards it.
	Logger *slog.Logger
	// Metrics, when not nil, measures this worker.
	Metrics *Metrics
	// Observers are told what happens, in this order.
	Observers []Observer
	// Version of the program, shown to operators; may be empty.
	Version string
}

func (o Options) withDefaults() Options {
	o.Concurrency = cmp.Or(o.Concurrency, 64)
	o.ShutdownTimeout = cmp.Or(o.ShutdownTimeout, 30*time.Second)
	o.Freshness = cmp.Or(o.Freshness, 25*time.Millisecond)
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o
}

func (o Options) validate() error {
	switch {
	case o.Concurrency < 1 || o.Concurrency > 10_000:
		return fmt.Errorf("scheduler: concurrency %d is not between 1 and 10000", o.Concurrency)
	case o.ShutdownTimeout < 0:
		return fmt.Errorf("scheduler: shutdown timeout %v is negative", o.ShutdownTimeout)
	case o.Freshness < time.Millisecond || o.Freshness > time.Minute:
		return fmt.Errorf("scheduler: freshness %v is not between 1ms and 1m", o.Freshness)
	}
	return nil
}

// Scheduler drains buckets in one process. Make one with [New], run it once with [Scheduler.Run].
type Scheduler struct {
	o       Options
	seen    observers
	client  *queue.Client
	name    string
	slots   *slots
	feed    *feed
	stage   *stage
	drains  []*drain
	settles []*settler
	holds   *holds
	suspect *token // one suspect at a time, over all shards
	tally   *tally

	questions *questions
	speaker   *speaker
}

// New prepares a scheduler that runs jobs with handler. The asynq server inside gets a Redis client of its own, made from
// the options of the client's.
func New(client *queue.Client, handler asynq.Handler, o Options) (*Scheduler, error) {
	if handler == nil {
		return nil, errors.New("scheduler: no handler: every job would die of it")
	}
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	var stage *stage
	feed, err := newFeed(feedOptions{
		Redis:       client.Redis(),
		Concurrency: o.Concurrency,
		// asynq's own patience ends after ours, so that we decide what becomes of those that run on.
		ShutdownTimeout: o.ShutdownTimeout + time.Second,
		Logger:          o.Logger,
		OnResult:        func(id string, data []byte) { stage.wrote(id, data) },
	})
	if err != nil {
		return nil, err
	}
	s := &Scheduler{
		o: o, tally: newTally(), questions: newQuestions(), client: client, name: workerName(), slots: newSlots(o.Concurrency), feed: feed, suspect: newToken(),
		holds: newHolds(client.Classes(), o.Logger),
	}
	s.speaker = newSpeaker(func() time.Time { return s.drains[0].server(time.Now()) })
	s.seen = append(observers{s.tally.observer(), Events(s.speaker.say)}, o.Observers...)
	if o.Metrics != nil {
		s.seen = append(observers{o.Metrics.observer()}, s.seen...)
		defer o.Metrics.watch(s)
	}
	for shard := range client.Shards() {
		outlet := client.Outlet(s.name, shard)
		s.settles = append(s.settles, newSettler(outlet, o.Logger, s.seen))
		s.drains = append(s.drains, newDrain(s, outlet))
	}
	stage = newStage(s, handler)
	s.stage = stage
	return s, nil
}

// workerName is new at each start: departures belong to it. Host and process are for people.
func workerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	host, _, _ = strings.Cut(host, ".")
	return fmt.Sprintf("%.40s-%d-%s", host, os.Getpid(), strings.ToLower(rand.Text()[:12]))
}

// Name is the worker's name in Redis.
func (s *Scheduler) Name() string { return s.name }

// Run drains until ctx ends, then stops cleanly: no further departures; running attempts finish within ShutdownTimeout and
// are settled; what did not start, and what still runs after that, goes back to its bucket.
func (s *Scheduler) Run(ctx context.Context) error {
	if err := s.feed.start(s.stage); err != nil {
		return err
	}
	s.o.Logger.LogAttrs(ctx, slog.LevelInfo, "worker started", slog.String("worker", s.name),
		slog.Int("slots", s.o.Concurrency), slog.Int("shards", s.client.Shards()))

	defer s.tell()()
	var loops sync.WaitGroup
	for _, d := range s.drains {
		loops.Go(func() { d.run(ctx) })
	}
	loops.Go(func() { s.listen(ctx) })
	loops.Go(func() { newWatch(s).run(ctx) })
	loops.Go(func() { s.keepHouse(ctx) })
	loops.Wait()
	return s.stop()
}

// listen passes wake hints to the drains.
func (s *Scheduler) listen(ctx context.Context) {
	_ = s.client.Wakes(ctx, func(w queue.Wake) { // ends with ctx
		s.seen.woken(w.Shard)
		s.drains[w.Shard].wake(w)
	}, s.asked)
}

// asked takes a question of somebody who looks.
func (s *Scheduler) asked(what string) {
	if what == queue.AskedEvents {
		s.speaker.ask()
		return
	}
	s.questions.ask(what)
}

const leaveTime = 10 * time.Second // for the last words to Redis

// stop lets attempts finish and returns the rest.
func (s *Scheduler) stop() error {
	beating := s.beat()
	timer := time.AfterFunc(s.o.ShutdownTimeout, s.stage.abort)
	unseen := s.feed.shutdown()
	timer.Stop()
	s.stage.abort()
	for _, id := range unseen {
		s.stage.giveBack(id, ReturnedStop)
	}
	s.stage.wait(time.Second)
	beating()
	s.holds.wait()

	ctx, cancel := context.WithTimeout(context.Background(), leaveTime)
	defer cancel()
	returned, failed := make([]int, len(s.settles)), make([]error, len(s.settles))
	var leaving sync.WaitGroup
	for shard := range s.settles { // at once: one that is away must not keep the jobs of the others
		leaving.Go(func() { returned[shard], failed[shard] = s.leave(ctx, shard) })
	}
	leaving.Wait()
	total := len(unseen)
	for _, n := range returned {
		total += n
	}
	s.o.Logger.LogAttrs(ctx, slog.LevelInfo, "worker stopped", slog.String("worker", s.name), slog.Int("returned", total))
	return errors.Join(failed...)
}

// beat keeps the worker alive in the eyes of the others, without further departures, until the function it returns is
// called.
func (s *Scheduler) beat() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var beats sync.WaitGroup
	for _, d := range s.drains {
		beats.Go(func() { d.beat(ctx) })
	}
	return func() {
		cancel()
		beats.Wait()
		for _, d := range s.drains {
			d.lease.stop()
		}
	}
}

// leave says the last words to one shard, again and again until it has heard them or ctx ends.
func (s *Scheduler) leave(ctx context.Context, shard int) (returned int, err error) {
	left := s.settles[shard].close(ctx)
	var fault backoff
	for {
		n, err := s.drains[shard].outlet.Leave(ctx)
		returned += n
		if err == nil {
			return returned, nil
		}
		timer := time.NewTimer(fault.next())
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return returned, fmt.Errorf("scheduler: worker %s could not take its leave of shard %d; %d verdicts are lost "+
				"and what it had out stays out until it is reclaimed: %w", s.name, shard, left, err)
		}
	}
}
