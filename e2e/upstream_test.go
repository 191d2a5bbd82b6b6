package e2e

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"
)

// call is what the service is asked: for a job of a bucket, for the nth time, from 1.
type call struct {
	bucket      string
	number, nth int
}

// reply is what it answers, and when.
type reply struct {
	status int           // 0 is 200
	after  time.Duration // how long it works on the call
	deaf   bool          // the caller is asked not to return: a handler of testworker knows how
	again  string        // Retry-After
}

// working answers after 100 to 500 ms: at any time some calls are under way, although buckets that are filled together depart
// together.
func working(c call) reply {
	return reply{after: time.Duration(100+c.number*67%400) * time.Millisecond}
}

// arrival is one call as the called service sees it.
type arrival struct {
	number   int
	at       time.Time
	nth      int // which call for its job it is, from 1
	pid      int // the worker that made it, 0 when that is not known
	caller   *caller
	status   int       // what it was answered
	answered time.Time // zero for a call that was not, because its caller had gone, or does not return
}

// upstream records who called when, by bucket, with one clock.
type upstream struct {
	*httptest.Server
	reply   func(call) reply
	finding sync.Mutex
	mu      sync.Mutex
	seen    map[string][]*arrival
	n, jobs int
}

// newUpstream starts a service that answers as reply says; nil is 200 at once.
func newUpstream(tb testing.TB, answer func(call) reply) *upstream {
	tb.Helper()
	if answer == nil {
		answer = func(call) reply { return reply{} }
	}
	u := &upstream{reply: answer, seen: map[string][]*arrival{}}
	u.Server = httptest.NewUnstartedServer(http.HandlerFunc(u.serve))
	u.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		return context.WithValue(ctx, callerKey{}, u.find(c))
	}
	u.Start()
	watchMachine(tb)
	tb.Cleanup(u.Close)
	return u
}

// callerKey finds the caller in the context of a request.
type callerKey struct{}

// caller is the worker at the other end of a connection, once it has been found.
type caller struct {
	found chan struct{}
	pid   int
}

// find looks for the worker behind a new connection, aside: calls must not wait for it.
func (u *upstream) find(c net.Conn) *caller {
	who := &caller{found: make(chan struct{})}
	go func() {
		defer close(who.found)
		u.finding.Lock() // one at a time: it is work
		defer u.finding.Unlock()
		who.pid = socketOwner(c.RemoteAddr(), c.LocalAddr(), crewPIDs())
	}()
	return who
}

func (u *upstream) serve(w http.ResponseWriter, r *http.Request) {
	now := time.Now()
	number, err := strconv.Atoi(r.URL.Query().Get("n"))
	if err != nil {
		http.Error(w, "n is missing", http.StatusBadRequest)
		return
	}
	who, _ := r.Context().Value(callerKey{}).(*caller)
	c, a := u.record(r.URL.Query().Get("bucket"), arrival{number: number, at: now, caller: who})
	say := u.reply(c)
	if say.after > 0 {
		work := time.NewTimer(say.after)
		defer work.Stop()
		select {
		case <-work.C:
		case <-r.Context().Done(): // nobody listens any more
			return
		}
	}
	switch {
	case say.deaf:
		say.status = http.StatusAccepted
	case say.status == 0:
		say.status = http.StatusOK
	}
	u.mu.Lock()
	a.status = say.status
	if !say.deaf {
		a.answered = time.Now()
	}
	u.mu.Unlock()
	if say.again != "" {
		w.Header().Set("Retry-After", say.again)
	}
	w.WriteHeader(say.status)
}

func (u *upstream) record(bucket string, a arrival) (call, *arrival) {
	u.mu.Lock()
	defer u.mu.Unlock()
	a.nth = 1
	for _, before := range u.seen[bucket] {
		if before.number == a.number {
			a.nth++
		}
	}
	if a.nth == 1 {
		u.jobs++
	}
	u.n++
	u.seen[bucket] = append(u.seen[bucket], &a)
	return call{bucket, a.number, a.nth}, &a
}

// calls are those for a bucket so far, as they came.
func (u *upstream) calls(bucket string) []arrival {
	u.mu.Lock()
	defer u.mu.Unlock()
	calls := make([]arrival, len(u.seen[bucket]))
	for i, a := range u.seen[bucket] {
		calls[i] = *a
	}
	for i := range calls {
		<-calls[i].caller.found
		calls[i].pid = calls[i].caller.pid
	}
	slices.SortStableFunc(calls, func(a, b arrival) int { return a.at.Compare(b.at) }) // they are recorded a little later
	return calls
}

// count tells how many calls came.
func (u *upstream) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.n
}

// distinct tells for how many jobs calls came.
func (u *upstream) distinct() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.jobs
}

// await waits until n calls have come.
func (u *upstream) await(tb testing.TB, n int) {
	tb.Helper()
	until(tb, "calls come", func() bool { return u.count() >= n })
}

// pass lets time pass in which nothing is waited for.
func pass(tb testing.TB, d time.Duration) {
	tb.Helper()
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-tb.Context().Done():
		tb.Fatal("interrupted")
	}
}

const patience = 90 * time.Second

// until waits for something that must come true within patience.
func until(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	if !within(tb, patience, holds) {
		tb.Fatalf("waited %v for this: %s", patience, what)
	}
}

// within tells whether something comes true in time.
func within(tb testing.TB, d time.Duration, holds func() bool) bool {
	tb.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	give := time.NewTimer(d)
	defer give.Stop()
	for !holds() {
		select {
		case <-tick.C:
		case <-give.C:
			return false
		case <-tb.Context().Done():
			tb.Fatal("interrupted")
		}
	}
	return true
}
