package live

import (
	"context"
	"slices"
	"time"

	"github.com/spout-queue/spout/queue"
)

// endsEvery is the time between two looks at the ends of a class's index; the books are read every second.
const endsEvery = 5 * time.Second

// stands is how the classes stood, by name.
type stands map[string]stand

type stand struct {
	queue.Standing
	at     time.Time     // when its ends were looked at
	oldest time.Duration // then
	moved  bool          // something has since
}

// depth is how far to look at a class. The oldest job of one in which nothing moved is the same.
func (s stand) depth(now time.Time) queue.Depth {
	switch {
	case s.at.IsZero():
		return queue.ToHeads
	case now.Sub(s.at) < endsEvery:
		return queue.ToBooks
	case s.moved:
		return queue.ToHeads
	}
	return queue.ToEnds
}

// read reads how all classes stand, each as far as it is time for, with what was seen before of the rest.
func (s *stands) read(ctx context.Context, c *queue.Client) ([]queue.Standing, error) {
	now := time.Now()
	list, err := c.StandingsTo(ctx, func(class string) queue.Depth { return (*s)[class].depth(now) })
	if err != nil {
		return nil, err
	}
	all := make(stands, len(list))
	for i, is := range list {
		was := (*s)[is.Class]
		next := was.then(is, now)
		all[is.Class], list[i] = next, next.Standing
	}
	*s = all
	return list, nil
}

// then is how a class stands that stood like this before, after a look as deep as it was time for.
func (s stand) then(is queue.Standing, now time.Time) stand {
	depth := s.depth(now)
	if depth == queue.ToHeads {
		return stand{is, now, is.Oldest, false}
	}
	next := s
	next.moved = s.moved || !slices.Equal(s.Moves, is.Moves)
	if depth == queue.ToEnds {
		next.at, next.oldest = now, aged(s.oldest, now.Sub(s.at))
	} else {
		is.Buckets, is.Closed, is.Stalled, is.TimeToEmpty, is.Fullest = s.Buckets, s.Closed, s.Stalled, s.TimeToEmpty, s.Fullest
		is.Hold = max(is.Hold, s.Hold)
	}
	is.Oldest = next.oldest
	if !next.moved {
		is.Oldest = aged(next.oldest, now.Sub(next.at))
	}
	if is.Books.Waiting() == 0 { // as the books tell, which are newer
		is.Oldest = 0
	}
	next.Standing = is
	return next
}

// aged is how old a job is by then, if there is one.
func aged(oldest, by time.Duration) time.Duration {
	if oldest == 0 {
		return 0
	}
	return oldest + by
}
