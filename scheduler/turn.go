package scheduler

import "time"

// turn keeps the starts of one bucket in order within a worker, also where jobs leave the bucket together or soon after
// each other: each attempt waits until the one that left before it has started or goes back, and goes back itself while a
// job that stands before it in the bucket is on its way back.
type turn struct {
	before  *attempt      // left the bucket before this one; nil when nothing is to be waited for
	decided chan struct{} // closed when it is known whether this attempt starts
	back    time.Time     // when it was known to be in its bucket again; zero before. stage.mu is held
}

// line puts an attempt behind the last one of its bucket. st.mu is held.
func (st *stage) line(a *attempt) {
	a.decided = make(chan struct{})
	a.before = st.last[a.bucket()]
	st.last[a.bucket()] = a
}

// leave ends an attempt's turn. st.mu is held.
func (st *stage) leave(a *attempt) {
	a.decide()
	if st.last[a.bucket()] == a {
		delete(st.last, a.bucket())
	}
}

// goBack remembers an attempt that goes back to its bucket, until no attempt can start any more that was asked for before
// it was there again: such a one may have overtaken it. What is returned is to be called when Redis has the verdict.
func (st *stage) goBack(a *attempt) (there func()) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.returning[a.bucket()] == nil {
		st.returning[a.bucket()] = map[*attempt]struct{}{}
	}
	st.returning[a.bucket()][a] = struct{}{}
	return func() {
		st.mu.Lock()
		defer st.mu.Unlock()
		a.back = time.Now()
		time.AfterFunc(st.freshness+time.Millisecond, func() { st.forget(a) })
	}
}

func (st *stage) forget(a *attempt) {
	st.mu.Lock()
	defer st.mu.Unlock()
	delete(st.returning[a.bucket()], a)
	if len(st.returning[a.bucket()]) == 0 {
		delete(st.returning, a.bucket())
	}
}

// awaitTurn waits for the attempt before this one. False means that this one has to go back.
func (st *stage) awaitTurn(a *attempt) bool {
	if b := a.before; b != nil {
		a.before = nil // keep no chain of the past
		<-b.decided
	}
	asked := a.freshUntil.Add(-st.freshness)
	st.mu.Lock()
	defer st.mu.Unlock()
	for b := range st.returning[a.bucket()] {
		if b.Number < a.Number && (b.back.IsZero() || asked.Before(b.back)) {
			return false
		}
	}
	return true
}

// decide says that the attempt's handler is called now, or never.
func (a *attempt) decide() {
	select {
	case <-a.decided:
	default:
		close(a.decided)
	}
}
