package scheduler_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// grain is what clocks that tell microseconds may add: Redis rounds down, and so does the interval.
const grain = 2 * time.Microsecond

// checkPace checks law 3 on times in ascending order: GCRA(interval, tolerance), so that every window of length w has at
// most 1 + ⌊(w + tolerance) / interval⌋ of them. tat is the theoretical arrival time of the next one.
func checkPace(times []time.Time, interval, tolerance time.Duration) error {
	var tat time.Time
	for i, at := range times {
		if i > 0 && at.Before(tat.Add(-tolerance-grain)) {
			return fmt.Errorf("start %d of %d came %v early: it may not come before %v, with an interval of %v",
				i, len(times), tat.Add(-tolerance).Sub(at), tat.Add(-tolerance).Format(time.StampMicro), interval)
		}
		if i == 0 || at.After(tat) {
			tat = at
		}
		tat = tat.Add(interval)
	}
	return nil
}

// checkOrder checks law 2 on the numbers of one bucket's jobs: none missing, none twice, in order.
func checkOrder(starts []start, sent int) error {
	for i, s := range starts {
		if s.n != i {
			return fmt.Errorf("start %d is of job %d (task %s, worker %d)", i, s.n, s.id, s.worker)
		}
	}
	if len(starts) != sent {
		return fmt.Errorf("%d of %d jobs started", len(starts), sent)
	}
	return nil
}

// checkOnce checks that each of the jobs started once, in whatever order.
func checkOnce(starts []start, sent int) error {
	count := make([]int, sent)
	for _, s := range starts {
		if s.n < 0 || s.n >= sent {
			return fmt.Errorf("job %d was never sent", s.n)
		}
		count[s.n]++
	}
	for n, c := range count {
		if c != 1 {
			return fmt.Errorf("job %d started %d times", n, c)
		}
	}
	return nil
}

// timesOf are the times of starts.
func timesOf(starts []start) []time.Time {
	times := make([]time.Time, len(starts))
	for i, s := range starts {
		times[i] = s.at
	}
	return times
}

// meanInterval is the mean over the longest stretch of starts between two times during which the bucket was never empty:
// each job was there when the one before it started. It tells the number of intervals, too.
func meanInterval(starts []start, sent []sending, from, to time.Time) (mean time.Duration, n int) {
	first := 0
	for i := range starts {
		inside := !starts[i].at.Before(from) && !starts[i].at.After(to)
		if i == 0 || !inside || sent[i].at.After(starts[i-1].at) || starts[i-1].at.Before(from) {
			first = i
		}
		if i-first > n {
			n = i - first
			mean = starts[i].at.Sub(starts[first].at) / time.Duration(n)
		}
	}
	return mean, n
}

// The definition of law 3, window by window, and the algorithm say the same.
func TestCheckPace(t *testing.T) {
	t.Parallel()
	const interval, tolerance = 100 * time.Millisecond, 30 * time.Millisecond
	allowed := func(times []time.Time) bool {
		for i := range times {
			for j := i; j < len(times); j++ {
				if window := times[j].Sub(times[i]); j-i+1 > 1+int((window+tolerance)/interval) {
					return false
				}
			}
		}
		return true
	}
	random := rand.New(rand.NewPCG(1, 2))
	counts := map[bool]int{}
	for range 2000 {
		at := time.Unix(1_000_000, 0)
		var times []time.Time
		for range 2 + random.IntN(8) {
			times = append(times, at)
			at = at.Add(interval - tolerance + time.Duration(random.IntN(60))*time.Millisecond)
		}
		want := allowed(times)
		if err := checkPace(times, interval, tolerance); (err == nil) != want {
			t.Fatalf("%v: %v, want conforming %v", times, err, want)
		}
		counts[want]++
	}
	if counts[true] < 100 || counts[false] < 100 {
		t.Errorf("too few of one kind: %v", counts)
	}
}

func TestCheckOrderAndOnce(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		numbers       []int
		ordered, once bool
	}{
		"all":          {[]int{0, 1, 2}, true, true},
		"out of order": {[]int{1, 0, 2}, false, true},
		"twice":        {[]int{0, 1, 1, 2}, false, false},
		"missing":      {[]int{0, 1}, false, false},
		"unknown":      {[]int{0, 1, 2, 3}, false, false},
	} {
		var starts []start
		for _, n := range c.numbers {
			starts = append(starts, start{n: n})
		}
		if err := checkOrder(starts, 3); (err == nil) != c.ordered {
			t.Errorf("%s: order: %v", name, err)
		}
		if err := checkOnce(starts, 3); (err == nil) != c.once {
			t.Errorf("%s: once: %v", name, err)
		}
	}
}
