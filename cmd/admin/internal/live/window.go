package live

import "time"

const (
	// windowLong is the time that rates are taken over.
	windowLong = 5 * time.Second
	// windowLeast is the least: from less, one job more or less makes a rate of anything.
	windowLeast = 900 * time.Millisecond
	// windowGap is the longest time between two samples that belong together.
	windowGap = 4 * time.Second
)

// window makes rates of totals. A gap, or a total that fell because somebody began anew, begins a new window: what is not
// known is not shown as a spike.
type window struct {
	samples []sample
}

type sample struct {
	at     time.Time
	totals []float64
}

// add takes totals at a time. falls tells which may fall without having begun anew.
func (w *window) add(at time.Time, falls int, totals ...float64) {
	if n := len(w.samples); n > 0 {
		last := w.samples[n-1]
		anew := at.Sub(last.at) > windowGap || !at.After(last.at) || len(last.totals) != len(totals)
		for i := falls; !anew && i < len(totals); i++ {
			anew = totals[i] < last.totals[i]
		}
		if anew {
			w.samples = w.samples[:0]
		}
	}
	w.samples = append(w.samples, sample{at, totals})
	first := 0
	for first+1 < len(w.samples) && at.Sub(w.samples[first+1].at) >= windowLong {
		first++
	}
	w.samples = append(w.samples[:0], w.samples[first:]...)
}

// rates are what the totals rose by per second; false while nobody knows.
func (w *window) rates() ([]float64, bool) {
	if len(w.samples) < 2 {
		return nil, false
	}
	first, last := w.samples[0], w.samples[len(w.samples)-1]
	over := last.at.Sub(first.at)
	if over < windowLeast {
		return nil, false
	}
	rates := make([]float64, len(last.totals))
	for i := range rates {
		rates[i] = (last.totals[i] - first.totals[i]) / over.Seconds()
	}
	return rates, true
}
