package meter

// decideFixed counts the units of one window after the other. lua/fixed.lua says the same.
func (w *law) decideFixed(s *state, now int64, c call, a *answer) {
	at := max(now, s.last)
	start, used := s.start, s.load
	if at-start >= w.window {
		used = 0
	}
	if used == 0 {
		start = at
		if !w.first {
			start -= at % w.window
		}
	}
	if c.op == opRefund && c.arg > 0 && c.arg < start {
		c.least = 0 // taken in a window that is over
	}
	change := w.units(c, used, w.most-used, a)
	a.at = at
	used += change
	left := start + w.window - at
	if a.verdict == refused && a.retry != never {
		a.retry = left
	}
	a.remaining = max(0, w.most-used)
	if used > 0 {
		a.reset = left
	}
	if change != 0 {
		s.load, s.last, s.start = used, at, start
		s.forget(a)
	}
}

// decideCounter estimates what the last period held: the previous window by the share of it that is still covered, and
// this one (Cloudflare's sliding window, "How we built rate limiting", 2017). Everything is multiplied by the window, so
// that the share stays whole. lua/counter.lua says the same.
func (w *law) decideCounter(s *state, now int64, c call, a *answer) {
	at := max(now, s.last)
	start := at - at%w.window
	prev, used := s.prev, s.load
	switch start - s.start {
	case 0:
	case w.window:
		prev, used = used, 0
	default:
		prev, used = 0, 0
	}
	if c.op == opRefund && c.arg > 0 && c.arg < start {
		c.least = 0
	}
	left := start + w.window - at // of this window, and so the part of the previous one that is covered
	room := max(0, w.most*w.window-prev*left-used*w.window) / w.window
	change := w.units(c, used, room, a)
	a.at = at
	switch {
	case a.verdict != refused || a.retry == never:
	case used+c.least <= w.most: // when enough of the previous window is uncovered
		a.retry = left - (w.most-used-c.least)*w.window/prev
	default: // in the next window, when enough of this one is
		a.retry = left + w.window - (w.most-c.least)*w.window/used
	}
	used += change
	a.remaining = max(0, w.most*w.window-prev*left-used*w.window) / w.window
	switch {
	case used > 0:
		a.reset = left + w.window
	case prev > 0:
		a.reset = left
	}
	if change != 0 {
		s.load, s.last, s.start, s.prev = used, at, start, prev
		s.forget(a)
	}
}

// units decides over whole units, of which some are used and there is room for more, and returns by how many the used ones
// change.
func (w *law) units(c call, used, room int64, a *answer) int64 {
	a.verdict = conforming
	switch {
	case c.op == opRefund:
		return -min(c.least, used)
	case c.op == opForce && c.least > w.mostForced()-used:
		a.verdict = outOfRange
	case c.op == opForce:
		a.taken = c.least
	case c.least > w.most:
		a.verdict, a.retry = refused, never
	case c.least > max(0, room):
		a.verdict = refused
	case c.op == opTake && c.least > 0:
		a.taken = min(c.most, room)
	}
	return a.taken
}
