package main

import (
	"context"
	"fmt"
	"time"
)

// traffic goes on after the burst, so that there is something to see: each tenant sends in a way of its own, one of them more
// than its bucket lets go, so that it overflows.
func (s *show) traffic(ctx context.Context) {
	for i, t := range []struct {
		every time.Duration
		jobs  int
	}{
		{340 * time.Millisecond, 1},
		{4 * time.Second, 13},
		{205 * time.Millisecond, 1},
	} {
		tenant := tenants()[i]
		s.late.Go(func() {
			tick := time.NewTicker(t.every)
			defer tick.Stop()
			for n := 0; ; n++ {
				for j := range t.jobs {
					job := s.job(tenant, 0)
					job.ID = fmt.Sprintf("traffic-%d-%d", n, j)
					_, _ = s.client.Submit(ctx, job) // a full bucket refuses, which is what is to be seen
				}
				select {
				case <-tick.C:
				case <-ctx.Done():
					return
				}
			}
		})
	}
}
