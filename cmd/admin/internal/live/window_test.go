package live

import (
	"testing"
	"time"
)

func TestWindow(t *testing.T) {
	t.Parallel()
	start := time.Unix(1_800_000_000, 0)
	type step struct {
		after time.Duration
		total float64
	}
	second := func(totals ...float64) (steps []step) {
		for _, total := range totals {
			steps = append(steps, step{time.Second, total})
		}
		return steps
	}
	for name, c := range map[string]struct {
		steps []step
		want  float64
		known bool
	}{
		"one sample":              {second(7), 0, false},
		"two at once":             {[]step{{0, 7}, {100 * time.Millisecond, 9}}, 0, false},
		"steady":                  {second(0, 10, 20, 30), 10, true},
		"only the last 5 s":       {second(0, 1000, 1000, 1000, 1000, 1000, 1000, 1005), 1, true},
		"a restart is no spike":   {second(500, 510, 2), 0, false},
		"and then it counts anew": {second(500, 510, 2, 5), 3, true},
		"a gap is no spike":       {append(second(0, 10), step{time.Minute, 6000}), 0, false},
		"nor is time going back":  {append(second(0, 10), step{-time.Second, 20}), 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w window
			now := start
			for _, s := range c.steps {
				now = now.Add(s.after)
				w.add(now, 0, s.total)
			}
			rates, known := w.rates()
			if known != c.known || known && rates[0] != c.want {
				t.Errorf("%v, %v, want %v, %v", rates, known, c.want, c.known)
			}
		})
	}
}

func TestWindowOfWhatFalls(t *testing.T) {
	t.Parallel()
	var w window
	now := time.Unix(1_800_000_000, 0)
	w.add(now, 1, 50, 3)
	w.add(now.Add(2*time.Second), 1, 40, 7)
	rates, known := w.rates()
	if !known || rates[0] != -5 || rates[1] != 2 {
		t.Errorf("%v, %v", rates, known)
	}
}

func TestPeaks(t *testing.T) {
	t.Parallel()
	var p peaks
	now := time.Unix(1_800_000_000, 0)
	p.add(now, 90)
	p.add(now.Add(time.Minute), 20)
	for _, c := range []struct {
		after time.Duration
		want  int
	}{{time.Minute, 90}, {4 * time.Minute, 90}, {5 * time.Minute, 20}, {7 * time.Minute, 0}} {
		q := p
		if got := q.highest(now.Add(c.after)); got != c.want {
			t.Errorf("after %v the highest is %d, want %d", c.after, got, c.want)
		}
	}
}
