package meter

import "sort"

// decideLog keeps the time of each unit and counts those in (now - window, now]. lua/log.lua says the same.
func (w *law) decideLog(s *state, now int64, c call, a *answer) {
	times := s.times
	if times == nil {
		times = &ring{}
	}
	at := now
	if times.n > 0 {
		at = max(at, times.at(times.n-1))
	}
	gone := times.until(at - w.window) // what is as old as the window has left it
	used := int64(times.n - gone)
	if c.op == opRefund && c.arg > 0 {
		c.least = min(c.least, times.live(gone, c.arg))
	}
	change := w.units(c, used, w.most-used, a)
	a.at = at
	if a.verdict == refused && a.retry != never {
		leaves := gone + int(c.least-(w.most-used)) - 1 // the last unit that has to leave
		a.retry = times.at(leaves) + w.window - at
	}
	a.remaining = max(0, w.most-used-change)
	if change != 0 {
		times.drop(gone)
		times.change(change, at, c.arg)
		s.times = times
	}
	if used+change > 0 {
		a.reset = times.at(times.n-1) + w.window - at
	}
}

// ring is a queue of times in order, in a buffer that is used again.
type ring struct {
	buffer  []int64
	head, n int
}

func (r *ring) at(i int) int64 { return r.buffer[(r.head+i)%len(r.buffer)] }

// until counts the times up to t.
func (r *ring) until(t int64) int {
	if r.n == 0 || r.at(0) > t {
		return 0
	}
	return sort.Search(r.n, func(i int) bool { return r.at(i) > t })
}

// live counts the entries of time t from the i-th on.
func (r *ring) live(i int, t int64) int64 {
	return int64(max(0, r.until(t)-max(i, r.until(t-1))))
}

// drop forgets the n oldest.
func (r *ring) drop(n int) {
	if n > 0 {
		r.head, r.n = (r.head+n)%len(r.buffer), r.n-n
	}
}

// change adds n entries of time t, or, below zero, takes away -n: the newest or, when taken is given, those of that time.
func (r *ring) change(n, t, taken int64) {
	for ; n > 0; n-- {
		r.push(t)
	}
	if n == 0 {
		return
	}
	if taken > 0 {
		for i := r.until(taken); i < r.n; i++ { // what is later moves down
			r.buffer[(r.head+i+int(n))%len(r.buffer)] = r.at(i)
		}
	}
	r.n += int(n)
}

func (r *ring) push(t int64) {
	if r.n == len(r.buffer) {
		grown := make([]int64, max(4, 2*r.n))
		for i := range r.n {
			grown[i] = r.at(i)
		}
		r.buffer, r.head = grown, 0
	}
	r.buffer[(r.head+r.n)%len(r.buffer)] = t
	r.n++
}
