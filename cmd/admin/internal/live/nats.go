package live

import (
	"context"
	"time"
)

// natsEvery is the time between two looks at NATS, and natsPatience how long one may take: it is away then.
const (
	natsEvery    = 2 * time.Second
	natsPatience = 2 * time.Second
)

// watchNATS looks at NATS again and again until ctx ends, aside: Redis's numbers do not wait for it.
func (s *sampler) watchNATS(ctx context.Context) {
	tick := time.NewTicker(natsEvery)
	defer tick.Stop()
	for {
		look, cancel := context.WithTimeout(ctx, natsPatience)
		waiting, err := s.l.nats(look)
		cancel()
		s.nats.Store(&NATS{Asked: true, Err: err, Waiting: waiting})
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}
