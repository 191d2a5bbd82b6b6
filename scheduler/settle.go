package scheduler

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/spout-queue/spout/queue"
)

// settler tells one shard what became of departures. Verdicts are collected for as long as a call is under way, so that an
// idle worker waits for nothing and a busy one makes few calls. It keeps them until Redis has taken them: a job whose
// handler returned must not run again because Redis was away for a moment.
type settler struct {
	outlet *queue.Outlet
	log    *slog.Logger
	seen   observers

	mu      sync.Mutex
	pending []verdict
	busy    bool
	idle    chan struct{} // closed when not busy
	quit    chan struct{} // closed when retrying should end
}

// verdict is one on its way to Redis.
type verdict struct {
	queue.Verdict
	of    *attempt // nil for a departure that is unknown here
	taken func()   // called when Redis has answered; nil for nothing to do
}

func newSettler(outlet *queue.Outlet, log *slog.Logger, seen observers) *settler {
	idle := make(chan struct{})
	close(idle)
	return &settler{outlet: outlet, log: log, seen: seen, idle: idle, quit: make(chan struct{})}
}

// add hands over one verdict; it never waits for Redis.
func (s *settler) add(a *attempt, v queue.Verdict, taken func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pending = append(s.pending, verdict{v, a, taken})
	if !s.busy {
		s.busy = true
		s.idle = make(chan struct{})
		go s.flush()
	}
}

// flush settles batch after batch until nothing is pending.
func (s *settler) flush() {
	for {
		s.mu.Lock()
		n := batchLength(s.pending)
		batch := s.pending[:n:n]
		if n == 0 {
			s.busy = false
			close(s.idle)
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		if !s.settle(batch) {
			s.mu.Lock()
			s.busy = false
			close(s.idle)
			s.mu.Unlock()
			return
		}
		s.mu.Lock()
		s.pending = s.pending[n:]
		s.mu.Unlock()
	}
}

// settleBytes of results and errors end a batch early, so that no call holds Redis for long.
const settleBytes = 1 << 20

// batchLength is how many of the verdicts fit into one call, at least one.
func batchLength(pending []verdict) int {
	bytes := 0
	for n, v := range pending {
		bytes += len(v.Error) + len(v.Result)
		if n == queue.SettleMost || (n > 0 && bytes > settleBytes) {
			return n
		}
	}
	return len(pending)
}

const callTime = 5 * time.Second // for one call to Redis

// settle repeats one batch until Redis answers or the worker gives up.
func (s *settler) settle(batch []verdict) bool {
	verdicts := make([]queue.Verdict, len(batch))
	for i, v := range batch {
		verdicts[i] = v.Verdict
	}
	var fault backoff
	for {
		ctx, cancel := context.WithTimeout(context.Background(), callTime)
		taken, err := s.outlet.Settle(ctx, verdicts)
		cancel()
		if err == nil {
			if fault.failures > 0 {
				s.log.LogAttrs(ctx, slog.LevelInfo, "settle works again", slog.Int("failures", fault.failures))
			}
			s.report(batch, verdicts, taken)
			return true
		}
		if fault.failures == 0 {
			s.log.LogAttrs(ctx, slog.LevelWarn, "settle failed, will be repeated", slog.Any("error", err))
		}
		timer := time.NewTimer(fault.next())
		select {
		case <-timer.C:
		case <-s.quit:
			timer.Stop()
			return false
		}
	}
}

// report passes on that Redis has answered, and tells of jobs that are dead and of verdicts that came too late: the departure had been given to
// another, or settled by an earlier try whose reply was lost.
func (s *settler) report(batch []verdict, settled []queue.Verdict, taken []bool) {
	for i, ok := range taken {
		if batch[i].taken != nil {
			batch[i].taken()
		}
		if of := batch[i].of; of != nil && settled[i].Buried {
			s.seen.buried(of, settled[i].Error)
		}
		if !ok {
			s.seen.refused(batch[i].Class)
			s.log.LogAttrs(context.Background(), slog.LevelWarn, "verdict refused: the departure is no longer out",
				slog.String("ref", batch[i].Ref), slog.String("outcome", string(batch[i].Outcome)))
		}
	}
}

// close waits until all verdicts are taken, or ctx ends, and tells how many are left.
func (s *settler) close(ctx context.Context) (left int) {
	s.mu.Lock()
	idle := s.idle
	s.mu.Unlock()
	select {
	case <-idle:
	case <-ctx.Done():
	}
	close(s.quit)
	<-idle
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending)
}

// backoff grows from 20 ms to 1 s.
type backoff struct{ failures int }

func (b *backoff) next() time.Duration {
	d := min(20*time.Millisecond<<min(b.failures, 10), time.Second)
	b.failures++
	return d
}

// has tells whether a verdict on a departure is on its way.
func (s *settler) has(ref, stamp string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.pending, func(v verdict) bool { return v.Ref == ref && v.Stamp == stamp })
}
