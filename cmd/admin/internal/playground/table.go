package playground

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spout-queue/spout/meter"
)

// The bounds of [Settings] and of what is asked at once.
const (
	MaxCount  = 50
	MaxPeriod = time.Minute
	MaxCost   = 50
	MaxAtOnce = 50
)

// ErrInvalid says that a setting or a cost is out of its range. Nothing was changed.
var ErrInvalid = errors.New("playground: invalid")

// ErrRunning says that a rhythm is being played; it ends by itself.
var ErrRunning = errors.New("playground: a rhythm is being played; wait until it has ended")

// Settings are common to the six meters.
type Settings struct {
	// Count units in each Period, 1 to [MaxCount]; of a bucket at most Capacity at once.
	Count, Capacity int64
	// Period is 1 s to [MaxPeriod].
	Period time.Duration
}

// Validate reports what is out of range. The error wraps [ErrInvalid].
func (s Settings) Validate() error {
	switch {
	case s.Count < 1 || s.Count > MaxCount:
		return fmt.Errorf("%w: limit %d is not between 1 and %d", ErrInvalid, s.Count, MaxCount)
	case s.Capacity < 1 || s.Capacity > MaxCount:
		return fmt.Errorf("%w: capacity %d is not between 1 and %d", ErrInvalid, s.Capacity, MaxCount)
	case s.Period < time.Second || s.Period > MaxPeriod:
		return fmt.Errorf("%w: period %v is not between 1s and %v", ErrInvalid, s.Period, MaxPeriod)
	}
	return nil
}

// Span is how much of the past is remembered and drawn: two and a half periods, at least 10 s.
func (s Settings) Span() time.Duration { return max(10*time.Second, s.Period*5/2) }

// Algorithms lists what is compared, in the order in which it is shown.
func Algorithms() []meter.Algorithm {
	return []meter.Algorithm{meter.GCRA, meter.TokenBucket, meter.LeakyBucket, meter.FixedWindow, meter.SlidingLog, meter.SlidingCounter}
}

// Table is six meters that see the same clicks. It is safe for concurrent use.
type Table struct {
	mu       sync.Mutex
	settings Settings
	begin    time.Time
	last     time.Duration // of the latest click; below zero when there was none
	lanes    []*lane
	running  bool
}

func newTable() *Table {
	t := &Table{}
	t.reset(Settings{Count: 5, Capacity: 5, Period: 2 * time.Second})
	return t
}

// Set begins anew with other settings.
func (t *Table) Set(s Settings) error {
	if err := s.Validate(); err != nil {
		return err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reset(s)
	return nil
}

// Reset begins anew.
func (t *Table) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.reset(t.settings)
}

func (t *Table) reset(s Settings) {
	t.settings, t.begin, t.last, t.lanes = s, time.Now(), -1, nil
	for _, a := range Algorithms() {
		t.lanes = append(t.lanes, newLane(a, s))
	}
}

// Click asks all meters for cost units, a number of times at once.
func (t *Table) Click(ctx context.Context, cost int64, times int) error {
	if cost < 1 || cost > MaxCost {
		return fmt.Errorf("%w: cost %d is not between 1 and %d", ErrInvalid, cost, MaxCost)
	}
	if times < 1 || times > MaxAtOnce {
		return fmt.Errorf("%w: %d clicks at once are not between 1 and %d", ErrInvalid, times, MaxAtOnce)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for range times {
		t.last = time.Since(t.begin)
		for _, l := range t.lanes {
			if err := l.click(ctx, t.last, cost); err != nil {
				return err
			}
		}
	}
	t.trim()
	return nil
}

// Play clicks again and again, every so often, until it did so a number of times or ctx ends. One rhythm is played at a time.
func (t *Table) Play(ctx context.Context, cost int64, times int, every time.Duration) error {
	if !t.start() {
		return ErrRunning
	}
	defer t.stop()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for range times {
		if err := t.Click(ctx, cost, 1); err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

func (t *Table) start() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	was := t.running
	t.running = true
	return !was
}

func (t *Table) stop() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.running = false
}

// trim forgets what is no longer drawn.
func (t *Table) trim() {
	from := time.Since(t.begin) - t.settings.Span()
	for _, l := range t.lanes {
		l.trim(from)
	}
}

// Look tells how the meters stand.
func (t *Table) Look(ctx context.Context) (Look, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.trim()
	now := time.Since(t.begin)
	look := Look{Settings: t.settings, Now: now, Begin: t.begin, Last: t.last, Lanes: make([]Lane, len(t.lanes))}
	for i, l := range t.lanes {
		var err error
		if look.Lanes[i], err = l.look(ctx, now); err != nil {
			return Look{}, err
		}
	}
	return look, nil
}
