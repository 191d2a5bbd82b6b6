package live

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spout-queue/spout/queue"
)

// sampler is one time that somebody looks, from the first look to the last.
type sampler struct {
	l       *Live
	steps   int
	last    Picture
	classes map[string]*window
	stands  stands
	recent  map[string]recent
	beats   beats
	sweep   *sweep
	nats    atomic.Pointer[NATS]
}

func newSampler(l *Live) *sampler {
	s := &sampler{l: l, classes: map[string]*window{}, stands: stands{}, recent: map[string]recent{}, beats: beats{}, sweep: newSweep(l)}
	if l.nats != nil {
		s.nats.Store(&NATS{})
	}
	return s
}

// slowly is how many steps there are between two looks at what changes slowly: one second.
const slowly = int(time.Second / tick)

// step reads what is due and shows it. After an error nothing else is tried before the next one.
func (s *sampler) step(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	slow := s.steps%slowly == 0 || s.last.Err != nil
	s.steps++
	var err error
	if slow {
		err = s.look(ctx)
	}
	if err == nil {
		err = s.watch(ctx)
	}
	if s.last.Err = err; err == nil && slow {
		s.last.At = time.Now()
	}
	if slow || err != nil {
		picture := s.last
		picture.made = time.Now()
		s.l.publish(&picture)
	}
	if err == nil && s.sweep.step(ctx) {
		s.l.publish(nil)
	}
}

// look reads the installation: all at once, since each waits for Redis only.
func (s *sampler) look(ctx context.Context) error {
	var (
		standings []queue.Standing
		store     Store
		workers   Workers
		flow      map[string]float64
		errs      [5]error
		reading   sync.WaitGroup
	)
	reading.Go(func() { standings, errs[0] = s.stands.read(ctx, s.l.client) })
	reading.Go(func() { store, errs[1] = readStore(ctx, s.l.client.Redis(), s.last.Store) })
	reading.Go(func() { workers, errs[2] = s.beats.read(ctx, s.l.client) })
	reading.Go(func() { flow, errs[3] = s.l.client.Flow(ctx) })
	reading.Go(func() { errs[4] = s.sweep.hands(ctx) })
	reading.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	s.sweep.plan(standings)
	s.readRecent(ctx, standings)
	s.l.flows(flow)
	s.last.NATS = s.nats.Load()
	s.last.Store, s.last.Workers, s.last.Classes = store, workers, s.rates(standings, time.Now())
	return nil
}

// rates makes classes of standings.
func (s *sampler) rates(standings []queue.Standing, now time.Time) []Class {
	classes := make([]Class, len(standings))
	windows := make(map[string]*window, len(standings))
	for i, standing := range standings {
		w := s.classes[standing.Class]
		if w == nil {
			w = &window{}
		}
		windows[standing.Class] = w
		books := standing.Books
		rejected := int64(0)
		for _, n := range books.Rejected {
			rejected += n
		}
		w.add(now, 0, float64(books.Admitted), float64(books.Departed), float64(rejected), float64(books.Dead))
		c := Class{Standing: standing, Level: books.Waiting(), Out: books.Out(), Dead: books.DeadKept(), Recent: s.recent[standing.Class].points}
		if r, ok := w.rates(); ok {
			c.Known, c.In, c.Departed, c.Rejected, c.Dying = true, r[0], r[1], r[2], r[3]
		}
		classes[i] = c
	}
	s.classes = windows
	return classes
}

// hurry reads between two steps what somebody began to look at. An error is the next step's to tell.
func (s *sampler) hurry(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if s.last.Err == nil {
		_ = s.watch(ctx)
	}
}

// watch reads the buckets that somebody looks at.
func (s *sampler) watch(ctx context.Context) error {
	names, whole := s.l.wanted(time.Now())
	if len(names) == 0 {
		return nil
	}
	if !whole {
		lines, err := s.l.client.Buckets().Lines(ctx, names)
		if err != nil {
			return err
		}
		s.l.counted(names, lines, time.Now())
		return nil
	}
	states, err := s.l.client.Buckets().Some(ctx, names)
	if err != nil {
		return err
	}
	s.l.saw(names, states, time.Now())
	return nil
}
