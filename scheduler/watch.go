package scheduler

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

const (
	// reclaimAfter is how long a worker's beat must stand still before its jobs are given to others.
	reclaimAfter = 10 * time.Second
	// watchEvery is the time between two looks; see jittered.
	watchEvery = time.Second
	// watchGap is the longest time between two looks that counts as having watched: after a longer one, as after an outage
	// of Redis or when this process was frozen, the watch begins anew, so that nobody is reaped who merely could not beat.
	watchGap = 4 * time.Second
)

// watch looks after the other workers: what one that died had out goes back to its buckets. It measures with this
// process's own monotonic clock how long a beat, which is a counter, stands still, so that no clock step matters.
type watch struct {
	s      *Scheduler
	shards []map[string]sight
	looked []time.Time
}

// sight is what was last seen of a worker.
type sight struct {
	beat  string
	since time.Time // when the beat was first seen
}

func newWatch(s *Scheduler) *watch {
	n := s.client.Shards()
	w := &watch{s: s, shards: make([]map[string]sight, n), looked: make([]time.Time, n)}
	for shard := range n {
		w.shards[shard] = map[string]sight{}
	}
	return w
}

// run watches each shard by itself, so that one that hangs does not keep it from looking at the others.
func (w *watch) run(ctx context.Context) {
	var looks sync.WaitGroup
	for shard := range w.shards {
		looks.Go(func() {
			for pause(ctx, jittered(watchEvery)) {
				w.look(ctx, shard)
			}
		})
	}
	looks.Wait()
}

// look reads the beats of a shard and reclaims what dead workers had out there.
func (w *watch) look(ctx context.Context, shard int) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	beats, err := w.s.client.Beats(ctx, shard)
	if err != nil {
		return // drain tells of a Redis that is away
	}
	for _, name := range w.observe(shard, beats, time.Now()) {
		w.reclaim(ctx, shard, name, beats[name])
	}
}

// observe notes what was seen at a time and names the workers that are dead.
func (w *watch) observe(shard int, beats map[string]string, at time.Time) (dead []string) {
	anew := at.Sub(w.looked[shard]) > watchGap
	w.looked[shard] = at
	seen := map[string]sight{}
	for name, beat := range beats {
		was, ok := w.shards[shard][name]
		if name == w.s.name || !ok || anew || was.beat != beat {
			was = sight{beat, at}
		}
		seen[name] = was
		if at.Sub(was.since) >= reclaimAfter {
			dead = append(dead, name)
		}
	}
	w.shards[shard] = seen
	return dead
}

func (w *watch) reclaim(ctx context.Context, shard int, name, beat string) {
	r, err := w.s.client.Reclaim(ctx, shard, name, beat)
	log := w.s.o.Logger
	switch {
	case err != nil:
		log.LogAttrs(ctx, slog.LevelWarn, "worker is gone, but what it had out could not be reclaimed yet",
			slog.String("gone", name), slog.Int("shard", shard), slog.Any("error", err))
	case !r.Refused:
		w.s.seen.reclaimed(r)
		log.LogAttrs(ctx, slog.LevelWarn, "worker is gone: what it had out went back to its buckets",
			slog.String("gone", name), slog.Int("shard", shard), slog.Int("returned", r.Returned), slog.Int("dead", r.Dead))
	}
}

// houseEvery is the time between two rounds of housekeeping.
const houseEvery = 20 * time.Second

// keepHouse removes dead jobs that are too many or too old.
func (s *Scheduler) keepHouse(ctx context.Context) {
	for pause(ctx, houseEvery/2+rand.N(houseEvery)) { //nolint:gosec // no secret
		classes, err := s.client.Classes().List(ctx)
		if err != nil {
			continue // the next round will do
		}
		for _, class := range classes {
			if err := s.client.Dead().Trim(ctx, class); err != nil && ctx.Err() == nil {
				s.o.Logger.LogAttrs(ctx, slog.LevelWarn, "dead jobs could not be trimmed",
					slog.String("class", class.Name), slog.Any("error", err))
			}
		}
	}
}

// pause waits; false means that ctx has ended.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}
