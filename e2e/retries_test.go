package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestRetriesObeyTheSpout has each job fail twice: its attempts leave the bucket at the bucket's rate as all others do, and
// with order hold none leaves before the one ahead of it is final.
func TestRetriesObeyTheSpout(t *testing.T) {
	const attempts = 3
	s := newSite(t, func(c call) reply {
		if c.nth < attempts {
			return reply{status: http.StatusInternalServerError}
		}
		return reply{}
	})
	backoff := "retry: {max_attempts: 5, backoff: 50ms, max_backoff: 200ms, order: "
	park := lines{class: "park", buckets: 5, jobs: 40, interval: 125 * time.Millisecond, more: backoff + "park}"}
	tail := lines{class: "tail", buckets: 2, jobs: 40, interval: 125 * time.Millisecond, more: backoff + "tail}"}
	hold := lines{class: "hold", buckets: 5, jobs: 40, interval: 125 * time.Millisecond, more: backoff + "hold}"}
	s.fill(park, tail, hold)
	s.worker()
	s.worker()
	s.drained(park, tail, hold)

	for _, l := range []lines{park, tail, hold} {
		for _, bucket := range l.names() {
			s.up.checkTimes(t, bucket, l.jobs, attempts)
		}
		s.checkPace(l)
	}
	s.checkBooks(park, tail, hold)
	for _, bucket := range hold.names() {
		for i, a := range s.up.calls(bucket) {
			if a.number != i/attempts || a.nth != i%attempts+1 {
				t.Errorf("bucket %s: call %d is attempt %d of job %d, want attempt %d of job %d",
					bucket, i, a.nth, a.number, i%attempts+1, i/attempts)
				break
			}
		}
	}
}

// TestDeadAfterAllAttempts has some jobs fail for good: each is called as often as it may be, and kept with its error.
func TestDeadAfterAllAttempts(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c call) reply {
		if c.number%2 == 1 {
			return reply{status: http.StatusInternalServerError} // 503 would open the breaker of the host
		}
		return reply{}
	})
	l := lines{class: "calls", buckets: 2, jobs: 6, interval: 100 * time.Millisecond, more: "retry: {max_attempts: 3, backoff: 10ms, max_backoff: 50ms}"}
	s.fill(l)
	s.worker()
	s.drained(l)
	dead := s.dead(l.class)
	for _, bucket := range l.names() {
		for _, a := range s.up.calls(bucket) {
			if a.number%2 == 0 && a.nth > 1 || a.nth > 3 {
				t.Errorf("bucket %s: job %d was called %d times", bucket, a.number, a.nth)
			}
		}
	}
	if len(dead) != l.total()/2 {
		t.Errorf("%d dead jobs, want %d: %v", len(dead), l.total()/2, dead)
	}
	for _, j := range dead {
		if !strings.Contains(j.Error, "500") {
			t.Errorf("job %s of bucket %s is dead without its reason: %q", j.ID, j.Key, j.Error)
		}
	}
	s.checkPace(l)
	s.audit()
}
