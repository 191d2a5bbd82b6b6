package scheduler

// turn keeps the starts of one bucket in order within a worker, also where jobs leave the bucket together: each attempt
// waits until the one that left before it has started.
type turn struct {
	before  *attempt      // left the bucket before this one; nil when nothing is to be waited for
	decided chan struct{} // closed when it is known whether this attempt starts
	started bool          // valid once decided
}

// line puts an attempt behind the last one of its bucket. st.mu is held.
func (st *stage) line(a *attempt) {
	a.decided = make(chan struct{})
	a.before = st.last[a.bucket()]
	st.last[a.bucket()] = a
}

// leave ends an attempt's turn. One that was given back stays remembered, since jobs behind it may have left the bucket
// before it was back in its place. st.mu is held.
func (st *stage) leave(a *attempt) {
	a.decide(false)
	if st.last[a.bucket()] == a && a.started {
		delete(st.last, a.bucket())
	}
	if len(st.last) > len(st.attempts)+lastMost {
		clear(st.last)
	}
}

// lastMost bounds what is remembered of attempts that were given back.
const lastMost = 1000

// awaitTurn waits for the attempt before this one to start. False means that it was given back while this job stands behind
// it in the bucket: then this one has to go back too.
func (a *attempt) awaitTurn() bool {
	b := a.before
	if b == nil {
		return true
	}
	a.before = nil // keep no chain of the past
	<-b.decided
	return b.started || a.Number <= b.Number
}

// start says that the attempt's handler is called now.
func (a *attempt) start() { a.decide(true) }

func (a *attempt) decide(started bool) {
	select {
	case <-a.decided:
	default:
		a.started = started
		close(a.decided)
	}
}
