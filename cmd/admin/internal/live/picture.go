package live

import (
	"slices"
	"time"

	"github.com/spout-queue/spout/queue"
)

// Picture is how an installation looked at one moment. Nobody changes one that was shown.
type Picture struct {
	// At is when it was taken, zero when that never was possible.
	At time.Time
	// Err is why none was taken since, nil while all is well.
	Err     error
	Store   Store
	Workers Workers
	// NATS is how NATS does, nil where there is none to look at.
	NATS *NATS
	// Classes by name.
	Classes []Class

	made time.Time
}

// Store is how Redis does.
type Store struct {
	// Latency of the last round trip.
	Latency time.Duration
	// Used and Max bytes of memory, of the fullest node; Max is 0 when it has no limit.
	Used, Max int64

	memoryAt time.Time
}

// NATS is how NATS does, and what waits in it for a bridge.
type NATS struct {
	// Asked tells whether it was looked at yet.
	Asked bool
	// Err is why it is away.
	Err error
	// Waiting is how many messages wait in the stream of jobs.
	Waiting uint64
}

// Workers are those that drain.
type Workers struct {
	// Alive have a beat that moves. Silent are known, but their beat stands still.
	Alive, Silent int
	// OldestBeat is how long ago the slowest of those alive was last seen to beat.
	OldestBeat time.Duration
}

// Class is how one class stands.
type Class struct {
	queue.Standing
	// Level, Out and Dead are the jobs that wait, are out, and are dead.
	Level, Out, Dead int64
	// In, Done and Rejected are per second, over the last 5 s; departures are in Departed. They mean nothing unless Known.
	In, Departed, Rejected, Dying float64
	Known                         bool
	// Recent are the departures a second of the last 15 minutes, oldest first, for a small drawing; NaN where nobody knows.
	Recent []float64
}

// recent tells whether the picture is of now, whatever it shows; one of the time before nobody looked is not.
func (p *Picture) recent() bool { return time.Since(p.made) < StaleAfter }

// Stale tells whether the numbers stand still, and for how long.
func (p *Picture) Stale(now time.Time) (time.Duration, bool) {
	if p.At.IsZero() {
		return 0, true
	}
	age := now.Sub(p.At)
	return age, age > StaleAfter
}

// Class finds one by its name.
func (p *Picture) Class(name string) (Class, bool) {
	i := slices.IndexFunc(p.Classes, func(c Class) bool { return c.Class == name })
	if i < 0 {
		return Class{}, false
	}
	return p.Classes[i], true
}
