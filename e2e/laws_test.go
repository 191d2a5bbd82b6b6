package e2e

import (
	"fmt"
	"testing"
	"time"
)

const (
	catchUp   = 5 * time.Millisecond
	freshness = 25 * time.Millisecond

	// unsteady is how much later than another call a call may reach the service for reasons that are not ours: the network,
	// the scheduler of a busy machine.
	unsteady = 150 * time.Millisecond

	// settling is how long after the answer to a call Redis may still not know of it.
	settling = 500 * time.Millisecond
)

// checkPace holds the calls for one bucket, all attempts together, against law 3.
func (u *upstream) checkPace(tb testing.TB, bucket string, interval time.Duration) {
	tb.Helper()
	if err := conforms(u.calls(bucket), interval, catchUp+freshness+unsteady); err != nil {
		tb.Errorf("bucket %s: %v", bucket, err)
	}
}

// checkTimes holds them against laws 5 and 6 where nothing went wrong: a call for each of n jobs, and as many as times.
func (u *upstream) checkTimes(tb testing.TB, bucket string, n, times int) {
	tb.Helper()
	came := map[int]int{}
	for _, a := range u.calls(bucket) {
		came[a.number]++
	}
	for i := range n {
		if came[i] != times {
			tb.Errorf("bucket %s: job %d was called %d times, want %d", bucket, i, came[i], times)
		}
	}
	if len(came) > n {
		tb.Errorf("bucket %s: %d jobs were called, %d were submitted", bucket, len(came), n)
	}
}

// checkRepeats holds them against laws 5 and 6 under faults: a call for each of n jobs, and a further one only if the one
// before had failed or was running when a fault happened to its worker. It returns how many repeats the faults explain.
func (u *upstream) checkRepeats(tb testing.TB, bucket string, n int, faults []fault) (repeats int) {
	tb.Helper()
	repeats, wrong := repeated(u.calls(bucket), n, faults)
	for _, w := range wrong {
		tb.Errorf("bucket %s: %s", bucket, w)
	}
	return repeats
}

func repeated(calls []arrival, n int, faults []fault) (repeats int, wrong []string) {
	last := map[int]arrival{}
	for _, a := range calls {
		before, again := last[a.number]
		last[a.number] = a
		switch {
		case !again || before.status >= 300: // the first one, or a retry
		case explained(before, faults):
			repeats++
		default:
			wrong = append(wrong, fmt.Sprintf("job %d was called again at %s by worker %d without a reason: the call before came at %s "+
				"from worker %d and was answered %d at %s", a.number, clock(a.at), a.pid, clock(before.at), before.pid, before.status, clock(before.answered)))
		}
	}
	for i := range n {
		if _, came := last[i]; !came {
			wrong = append(wrong, fmt.Sprintf("job %d was never called", i))
		}
	}
	return repeats, wrong
}

// explained tells whether a fault caught the call while it ran, or before its worker could tell Redis of the answer.
func explained(a arrival, faults []fault) bool {
	for _, f := range faults {
		ours := f.pid == 0 || a.pid == 0 || f.pid == a.pid
		if ours && a.at.Before(f.to.Add(unsteady)) && (a.answered.IsZero() || a.answered.After(f.from.Add(-settling))) {
			return true
		}
	}
	return false
}

func clock(t time.Time) string { return t.Format("15:04:05.000") }

// checkOrder holds the calls for some buckets of one class against law 2. A departure that was given back, because its
// worker was too slow to start it, or an attempt that returned, is the one reason to leave after a later job.
func (u *upstream) checkOrder(tb testing.TB, buckets []string, returned int) {
	tb.Helper()
	out := 0
	for _, bucket := range buckets {
		out += overtaken(u.calls(bucket))
	}
	if out > returned {
		tb.Errorf("buckets %q: %d calls came out of order, and only %d departures returned", buckets, out, returned)
	}
}

// conforms is GCRA: with its theoretical arrival time, a call may come no earlier than that less the tolerance.
func conforms(calls []arrival, interval, tolerance time.Duration) error {
	if i, early := earliest(calls, interval); early > tolerance {
		return fmt.Errorf("call %d (job %d) came %v too early for an interval of %v; around it:%s",
			i, calls[i].number, early-tolerance, interval, story(calls[max(0, i-4):min(len(calls), i+2)]))
	}
	return nil
}

// earliest finds the call that came the longest before its theoretical arrival time.
func earliest(calls []arrival, interval time.Duration) (which int, most time.Duration) {
	var tat time.Time
	for i, a := range calls {
		if early := tat.Sub(a.at); i > 0 && early > most {
			which, most = i, early
		}
		if a.at.After(tat) {
			tat = a.at
		}
		tat = tat.Add(interval)
	}
	return which, most
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
			calls = append(calls, arrival{number: i, at: t0.Add(time.Duration(v) * time.Millisecond)})
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
	calls := []arrival{{number: 0, at: t0}, {number: 2, at: t0.Add(200 * time.Millisecond)}, {number: 1, at: t0.Add(300 * time.Millisecond)}}
	if n := overtaken(calls); n != 0 {
		t.Errorf("overtaken on the way: %d", n)
	}
	calls[2].at = t0.Add(400 * time.Millisecond)
	if n := overtaken(calls); n != 1 {
		t.Errorf("a job that came 200 ms after a later one: %d found, want 1", n)
	}
}

func TestRepeatedNeedsAReason(t *testing.T) {
	t.Parallel()
	t0 := time.Now()
	kill := []fault{{pid: 7, from: t0, to: t0}}
	running := arrival{pid: 7, at: t0.Add(-time.Second)}
	answered, elsewhere, later, failed := running, running, running, running
	answered.answered = t0.Add(-2 * settling)
	elsewhere.pid = 8
	later.at = t0.Add(time.Second)
	failed.answered, failed.status = answered.answered, 500
	for what, row := range map[string]struct {
		first arrival
		jobs  int
		wrong int
	}{
		"ran in a killed worker": {running, 1, 0},
		"failed":                 {failed, 1, 0},
		"answered long before":   {answered, 1, 1},
		"of another worker":      {elsewhere, 1, 1},
		"later":                  {later, 1, 1},
		"one of two is missing":  {running, 2, 1},
	} {
		again := arrival{pid: 9, at: t0.Add(time.Minute)}
		if _, wrong := repeated([]arrival{row.first, again}, row.jobs, kill); len(wrong) != row.wrong {
			t.Errorf("%s: %q", what, wrong)
		}
	}
}
