package live

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/spout-queue/spout/queue"
)

const (
	// recentEvery is the least time between two reads of one class's history.
	recentEvery = 10 * time.Second
	// recentFirst is how many classes are read at the first look; later it is one a second.
	recentFirst = 8
	// recentPoints of a small drawing, each of some points of the history.
	recentPoints = 60
)

// recent is what the history says of one class.
type recent struct {
	at     time.Time
	points []float64
}

// readRecent reads the history of a few classes, those that were read longest ago. What cannot be read is not drawn.
func (s *sampler) readRecent(ctx context.Context, standings []queue.Standing) {
	names := make([]string, len(standings))
	for i := range standings {
		names[i] = standings[i].Class
	}
	slices.SortStableFunc(names, func(a, b string) int { return s.recent[a].at.Compare(s.recent[b].at) })
	kept := make(map[string]recent, len(names))
	for _, name := range names {
		kept[name] = s.recent[name]
	}
	n := 1
	if len(s.recent) == 0 {
		n = recentFirst
	}
	for _, name := range names[:min(n, len(names))] {
		if time.Since(kept[name].at) < recentEvery {
			break
		}
		r := recent{at: time.Now(), points: kept[name].points}
		if h, err := s.l.client.History(ctx, name, queue.Recent); err == nil {
			r.points = departures(h)
		}
		kept[name] = r
	}
	s.recent = kept
}

// departures are the departures a second of a history, in few points; NaN where nobody knows.
func departures(h queue.History) []float64 {
	points := make([]float64, 0, recentPoints)
	for some := range slices.Chunk(h.Points, cmp.Or(len(h.Points)/recentPoints, 1)) {
		sum, n := 0.0, 0
		for _, p := range some {
			if f, ok := p.PerSecond(p.Departed); ok {
				sum, n = sum+f, n+1
			}
		}
		if n == 0 {
			points = append(points, math.NaN())
			continue
		}
		points = append(points, sum/float64(n))
	}
	return points
}
