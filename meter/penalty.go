package meter

// penance counts the refusals of a key and remembers its closure.
type penance struct {
	strikes int64 // refusals counted
	since   int64 // time of the first of them, or of the closure, µs
	closed  int64 // the key is closed until then, µs
}

// judge is do for a law with a penalty; it returns when the state says nothing any more. lua/penalty.lua says the same.
func (w *law) judge(s *state, now int64, c call, a *answer) int64 {
	if s.penance == nil {
		s.penance = &penance{}
	}
	p := s.penance
	now = max(now, p.since)
	asks := c.op == opPeek || c.op == opTake
	if asks && p.closed > now {
		c.op = opPeek
		w.decide(s, now, c, a)
		until := max(a.at+a.reset, p.closed)
		a.close(p.closed - now)
		return until
	}
	w.decide(s, now, c, a)
	until := a.at + a.reset
	if c.op == opTake && a.verdict == refused && w.strike(p, now) {
		a.close(w.closure)
	}
	if p.strikes > 0 {
		until = max(until, p.since+w.within)
	}
	return max(until, p.closed)
}

// strike counts a refusal and tells whether it closes the key.
func (w *law) strike(p *penance, now int64) bool {
	if p.strikes == 0 || now-p.since >= w.within {
		p.strikes, p.since = 0, now
	}
	p.strikes++
	if p.strikes < w.strikes {
		return false
	}
	*p = penance{since: now, closed: now + w.closure}
	return true
}

// close makes an answer that of a key which is closed for a while.
func (a *answer) close(left int64) {
	a.verdict, a.remaining, a.taken = refused, 0, 0
	if a.retry != never {
		a.retry = max(a.retry, left)
	}
	a.reset = max(a.reset, left)
}
