package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync"
	"testing"
	"time"
)

// arrival is one call as the called service sees it.
type arrival struct {
	number int
	at     time.Time
}

// upstream records who called when, by bucket, with one clock.
type upstream struct {
	*httptest.Server
	mu   sync.Mutex
	seen map[string][]arrival
	n    int
}

func newUpstream(tb testing.TB) *upstream {
	tb.Helper()
	u := &upstream{seen: map[string][]arrival{}}
	u.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := time.Now()
		number, err := strconv.Atoi(r.URL.Query().Get("n"))
		if err != nil {
			http.Error(w, "n is missing", http.StatusBadRequest)
			return
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		bucket := r.URL.Query().Get("bucket")
		u.seen[bucket] = append(u.seen[bucket], arrival{number, now})
		u.n++
	}))
	tb.Cleanup(u.Close)
	return u
}

func (u *upstream) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.n
}

// await waits until n calls have come.
func (u *upstream) await(tb testing.TB, n int) {
	tb.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	give := time.After(drainWithin)
	for u.count() < n {
		select {
		case <-tick.C:
		case <-give:
			tb.Fatalf("only %d of %d calls came within %v", u.count(), n, drainWithin)
		case <-tb.Context().Done():
			tb.Fatal("interrupted")
		}
	}
}

// unsteady is how much later than another call a call may reach the service for reasons that are not ours: the network,
// the scheduler of a busy machine.
const unsteady = 150 * time.Millisecond

// checkLaws holds the arrivals of one bucket against laws 2, 3 and 6: in order, at pace, all of them, each once. A departure
// that was given back, because its worker was too slow to start it, is the one reason to leave after a later job.
func (u *upstream) checkLaws(tb testing.TB, bucket string, n, returned int, interval, tolerance time.Duration) {
	tb.Helper()
	u.mu.Lock()
	defer u.mu.Unlock()
	times := map[int]int{}
	for _, a := range u.seen[bucket] {
		times[a.number]++
	}
	for i := range n {
		if times[i] != 1 {
			tb.Errorf("bucket %s: job %d was called %d times", bucket, i, times[i])
		}
	}
	if err := conforms(u.seen[bucket], interval, tolerance+unsteady); err != nil {
		tb.Errorf("bucket %s: %v", bucket, err)
	}
	if out := overtaken(u.seen[bucket]); out > returned {
		tb.Errorf("bucket %s: %d calls came out of order, and only %d departures were given back", bucket, out, returned)
	}
}

// conforms is GCRA: with its theoretical arrival time, a call may come no earlier than that less the tolerance.
func conforms(calls []arrival, interval, tolerance time.Duration) error {
	var tat time.Time
	for i, a := range calls {
		if early := tat.Sub(a.at); i > 0 && early > tolerance {
			return fmt.Errorf("call %d (job %d) came %v too early for an interval of %v", i, a.number, early-tolerance, interval)
		}
		if a.at.After(tat) {
			tat = a.at
		}
		tat = tat.Add(interval)
	}
	return nil
}

// overtaken counts the calls that came after one of a later job, by more than calls may overtake each other on the way.
func overtaken(calls []arrival) (n int) {
	highest, settled := -1, 0 // the highest number among the calls that came long enough before
	for _, a := range calls {
		for ; a.at.Sub(calls[settled].at) > unsteady; settled++ {
			highest = max(highest, calls[settled].number)
		}
		if a.number < highest {
			n++
		}
	}
	return n
}

func TestConformsFindsABurst(t *testing.T) {
	t.Parallel()
	t0 := time.Now()
	at := func(ms ...int) (calls []arrival) {
		for i, v := range ms {
			calls = append(calls, arrival{i, t0.Add(time.Duration(v) * time.Millisecond)})
		}
		return calls
	}
	if err := conforms(at(0, 95, 205, 300, 1000, 1095), 100*time.Millisecond, 5*time.Millisecond); err != nil {
		t.Errorf("even calls: %v", err)
	}
	if conforms(at(0, 94, 200), 100*time.Millisecond, 5*time.Millisecond) == nil {
		t.Error("a call 6 ms early was not found")
	}
	if conforms(at(0, 1000, 1005, 1010), 100*time.Millisecond, 5*time.Millisecond) == nil {
		t.Error("a burst after a pause was not found")
	}
}

func TestOvertakenFindsASwap(t *testing.T) {
	t.Parallel()
	t0 := time.Now()
	calls := []arrival{{0, t0}, {2, t0.Add(200 * time.Millisecond)}, {1, t0.Add(300 * time.Millisecond)}}
	if n := overtaken(calls); n != 0 {
		t.Errorf("overtaken on the way: %d", n)
	}
	calls[2].at = t0.Add(400 * time.Millisecond)
	if n := overtaken(calls); n != 1 {
		t.Errorf("a job that came 200 ms after a later one: %d found, want 1", n)
	}
}
