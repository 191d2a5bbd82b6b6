package meter

// state is what a meter remembers. The zero value is a meter that was never used.
type state struct {
	last  int64 // when it last changed, µs; it never goes back
	load  int64 // a bucket's debt, µs·count; the units used in a window
	until int64 // when it says nothing any more, µs
	*more       // nil for a plain bucket with a short key
}

// more is what windows and penalties remember besides.
type more struct {
	start   int64    // of the window, µs
	prev    int64    // units used in the window before
	times   *ring    // of the units in a log
	penance *penance // refusals and the closure they led to
	long    string   // the key, when it is not short
}

// forget makes the state that of a meter never used when a refund has left nothing in it, as Redis deletes the key.
func (s *state) forget(a *answer) {
	if a.reset > 0 {
		return
	}
	s.last, s.load = 0, 0
	if s.more != nil {
		s.start, s.prev = 0, 0
	}
}

// clear makes the state that of a meter never used.
func (s *state) clear() {
	s.last, s.load, s.until = 0, 0, 0
	if s.more != nil {
		s.start, s.prev, s.times, s.penance = 0, 0, nil, nil
	}
}

// do answers a call at a time and changes the state by it. It is the model that the scripts repeat. The answer is given by
// a pointer, to a zero one, because copies of it were a third of a check.
func (w *law) do(s *state, now int64, c call, a *answer) {
	if s.more == nil && (w.kind != bucketKind || w.strikes > 0) {
		s.more = &more{}
	}
	if w.strikes > 0 {
		s.until = w.judge(s, now, c, a)
		return
	}
	w.decide(s, now, c, a)
	if s.more == nil || s.penance == nil { // else it is that of another limit which shares the meter
		s.until = 0
	}
	s.until = max(s.until, a.at+a.reset)
}

func (w *law) decide(s *state, now int64, c call, a *answer) {
	switch w.kind {
	case fixedKind:
		w.decideFixed(s, now, c, a)
	case counterKind:
		w.decideCounter(s, now, c, a)
	case logKind:
		w.decideLog(s, now, c, a)
	default:
		w.decideBucket(s, now, c, a)
	}
}
