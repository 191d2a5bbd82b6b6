package scheduler

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/spout-queue/spout/queue"
)

// retireTime is how long a worker that stops tries to take back what it told of itself; that expires by itself too.
const retireTime = time.Second

// tell has the worker tell of itself, and answer questions, until the function that it returns is called.
func (s *Scheduler) tell() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var telling sync.WaitGroup
	telling.Go(func() { s.report(ctx) })
	telling.Go(func() { s.answer(ctx) })
	telling.Go(func() { s.speaker.run(ctx, s.client.Tell) })
	return func() {
		cancel()
		telling.Wait()
		ctx, cancel := context.WithTimeout(context.Background(), retireTime)
		defer cancel()
		_ = s.client.Retire(ctx, s.name) // else it expires
	}
}

// report tells how this worker is, once per point of the history. Each worker has a phase of its own, well inside the time
// of a point, so that each of its reports is for another one.
func (s *Scheduler) report(ctx context.Context) {
	host, _ := os.Hostname() // for people
	since := time.Now()
	phase := time.Second/2 + rand.N(4*time.Second) //nolint:gosec // no secret
	for failing := false; ctx.Err() == nil; {
		next, err := s.reportOnce(ctx, queue.Report{
			Worker: s.name, Host: host, Process: os.Getpid(), Version: s.o.Version, Classes: s.o.Classes, Concurrency: s.o.Concurrency,
			Busy: s.stage.running(), Since: s.drains[0].server(since), Timings: s.tally.take(),
		})
		if err != nil && !failing && ctx.Err() == nil {
			s.o.Logger.LogAttrs(ctx, slog.LevelInfo, "the worker could not report; what its starts were like is missing in the history",
				slog.String("worker", s.name), slog.Any("error", err))
		}
		if failing = err != nil; !pause(ctx, next+phase) {
			return
		}
	}
}

func (s *Scheduler) reportOnce(ctx context.Context, r queue.Report) (next time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	return s.client.Report(ctx, r)
}

// questions are what somebody asked about starts.
type questions struct {
	mu    sync.Mutex
	asked map[string]time.Time // by bucket, empty for the flow of all: when last
	any   chan struct{}
}

func newQuestions() *questions {
	return &questions{asked: map[string]time.Time{}, any: make(chan struct{}, 1)}
}

// questionsMost bounds what is answered at a time.
const questionsMost = 21

func (q *questions) ask(bucket string) {
	q.mu.Lock()
	if _, known := q.asked[bucket]; known || bucket == "" || len(q.asked) < questionsMost {
		q.asked[bucket] = time.Now()
	}
	q.mu.Unlock()
	poke(q.any)
}

// open are the questions that are to be answered, those that nobody asks any more forgotten.
func (q *questions) open() []string {
	q.mu.Lock()
	defer q.mu.Unlock()
	var open []string
	for bucket, at := range q.asked {
		if time.Since(at) > queue.AskedFor {
			delete(q.asked, bucket)
			continue
		}
		open = append(open, bucket)
	}
	return open
}

const answerEvery = time.Second

// answer tells once a second what was asked, and nothing while nobody asks.
func (s *Scheduler) answer(ctx context.Context) {
	for {
		select {
		case <-s.questions.any:
		case <-ctx.Done():
			return
		}
		for {
			open := s.questions.open()
			if len(open) == 0 {
				break
			}
			s.answerOnce(ctx, open)
			if !pause(ctx, answerEvery) {
				return
			}
		}
	}
}

func (s *Scheduler) answerOnce(ctx context.Context, open []string) {
	now := s.drains[0].server(time.Now())
	a := queue.Answers{Starts: map[string][]queue.Start{}}
	for _, bucket := range open {
		if bucket == "" {
			a.Flow = s.tally.flow(now)
		} else {
			a.Starts[bucket] = s.tally.of(bucket, now.Add(-queue.StartsOver))
		}
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	_ = s.client.Answer(ctx, s.name, a) // the next answer is due in a second
}

// server translates our time into the server's, as far as it is known yet.
func (d *drain) server(t time.Time) time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.clock.ours.IsZero() {
		return t
	}
	return d.clock.server(t)
}
