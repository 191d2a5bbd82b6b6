package e2e

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

const (
	killTime  = 60 * time.Second // how long workers are killed
	killEvery = 2 * time.Second  // on average
)

// TestKills kills a worker of three at random, again and again: no job is lost, none leaves its bucket too soon, and only
// what ran in a killed worker is called again. Buckets that hold keep their order through all that.
func TestKills(t *testing.T) {
	s := newSite(t, working, "--appendonly", "yes")
	l := lines{class: "calls", buckets: 30, jobs: 67, interval: time.Second, more: "max_crashes: 50"}
	hold := lines{class: "hold", buckets: 5, jobs: 25, interval: time.Second, more: "max_crashes: 50, retry: {order: hold}"}
	s.fill(l, hold)
	rng := seeded(t)
	workers := []*worker{s.worker(), s.worker(), s.worker()}

	var faults []fault
	for len(faults) < int(killTime/killEvery) {
		pass(t, killEvery/2+time.Duration(rng.Int64N(int64(killEvery))))
		i := rng.IntN(len(workers))
		faults = append(faults, workers[i].kill())
		workers[i] = s.worker()
		if len(faults)%10 == 0 {
			s.audit() // the books balance in the middle of it
		}
	}
	if n := s.up.distinct(); n >= l.total()+hold.total() {
		t.Errorf("all %d jobs were called before the last kill: make them last", n)
	}
	s.drained(l, hold)
	repeats := s.checkFaulted(l, faults)
	repeats += s.checkFaulted(hold, faults)
	if repeats < len(faults)/3 {
		t.Errorf("%d calls ran in %d killed workers: too few to mean anything", repeats, len(faults))
	}
	for _, bucket := range hold.names() {
		calls := s.up.calls(bucket)
		if !slices.IsSortedFunc(calls, func(a, b arrival) int { return a.number - b.number }) {
			t.Errorf("bucket %s holds, and yet its jobs came out of order: %v", bucket, numbers(calls))
		}
	}
}

func numbers(calls []arrival) (list []int) {
	for _, a := range calls {
		list = append(list, a.number)
	}
	return list
}

// seeded is a source of random choices that can be repeated with -e2e.seed.
func seeded(tb testing.TB) *rand.Rand {
	tb.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	tb.Logf("-e2e.seed=%d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
