package e2e

import (
	"context"
	"sync"
	"testing"
	"time"
)

// TestScriptFlush has Redis forget all scripts ten times a second.
func TestScriptFlush(t *testing.T) {
	s := newSite(t, nil)
	l := lines{class: "calls", buckets: 20, jobs: 16, interval: 500 * time.Millisecond}
	flushes := s.flushing(100 * time.Millisecond)
	s.fill(l)
	s.worker()
	s.worker()
	s.drained(l)
	if n := flushes(); n < 20 {
		t.Errorf("scripts were flushed %d times only", n)
	}
	s.checkUndisturbed(l)
}

// flushing flushes the scripts until the function that it returns is called; that tells how often.
func (s *site) flushing(every time.Duration) (stop func() (flushes int)) {
	ctx, cancel := context.WithCancel(s.tb.Context())
	flushes := 0
	var loop sync.WaitGroup
	loop.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
			if s.rdb.ScriptFlush(ctx).Err() == nil {
				flushes++
			}
		}
	})
	return func() int {
		cancel()
		loop.Wait()
		return flushes
	}
}

// TestCutReplies cuts the connection instead of passing on every seventh reply to a script, for producers and workers:
// Redis did what it was asked, so nothing happens twice and nothing is missing.
func TestCutReplies(t *testing.T) {
	s := newSite(t, nil)
	c := newCutter(t, s.server.Addr, 7)
	l := lines{class: "calls", buckets: 20, jobs: 16, interval: 500 * time.Millisecond}
	s.apply(l)
	s.submit(s.at(c.addr), l)
	s.at(c.addr).worker()
	s.at(c.addr).worker()
	s.drained(l)
	t.Logf("%d of %d replies to scripts were cut off", c.cuts.Load(), c.scripts.Load())
	if c.cuts.Load() < 20 {
		t.Error("that is too few to mean anything")
	}
	s.checkUndisturbed(l)
}
