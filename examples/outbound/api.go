package main

import (
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// limit of a tenant: so many calls in any window, and so many in any moment.
type limit struct {
	calls  int
	window time.Duration
	burst  int
	moment time.Duration
}

// api answers calls, or refuses them with 429 and the time to come back, as strictly as can be: by a log of all calls that
// it has taken.
type api struct {
	limit limit

	mu       sync.Mutex
	taken    map[string][]time.Time // per tenant
	last     map[string]int         // the highest number that was taken
	refused  int
	disorder int
}

func newAPI(l limit) *api {
	return &api{limit: l, taken: map[string][]time.Time{}, last: map[string]int{}}
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n, err := strconv.Atoi(r.URL.Query().Get("n"))
	if err != nil {
		http.Error(w, "no number", http.StatusBadRequest)
		return
	}
	if wait := a.take(r.URL.Path, n, time.Now()); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
		http.Error(w, "too many calls", http.StatusTooManyRequests)
	}
}

// take counts a call, or tells how long there is no room for it.
func (a *api) take(tenant string, n int, now time.Time) (wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	log := a.taken[tenant]
	wait = max(room(log, a.limit.calls, a.limit.window, now), room(log, a.limit.burst, a.limit.moment, now))
	if wait > 0 {
		a.refused++
		return wait
	}
	a.taken[tenant] = append(log, now)
	if n < a.last[tenant] {
		a.disorder++
	}
	a.last[tenant] = max(a.last[tenant], n)
	return 0
}

// room is how long it takes until less than most calls of the log are within the window before.
func room(log []time.Time, most int, window time.Duration, now time.Time) time.Duration {
	if len(log) < most {
		return 0
	}
	return log[len(log)-most].Add(window).Sub(now)
}

// seen tells how many calls were taken, how many refused, and how many were taken after a later one of their tenant.
func (a *api) seen() (taken, refused, disorder int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, log := range a.taken {
		taken += len(log)
	}
	return taken, a.refused, a.disorder
}
