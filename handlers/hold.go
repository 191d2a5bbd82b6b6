package handlers

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// How long a bucket is held whose service says "too many" and not until when: doubled each time that it says so again.
const (
	firstHold = time.Second
	lastHold  = time.Minute
)

// maxJitter is the most that a hold is longer than asked for; below ten times that, it is at most a tenth of it.
const maxJitter = 5 * time.Second

// hold is the error of an attempt after which the bucket, or the class, is to be left alone: for wait, cut to what the
// class allows, and a little longer, so that what was held together does not come back together.
func (t target) hold(err error, wait time.Duration) *HoldError {
	wait = min(wait, t.maxHold)
	jitter := rand.N(min(wait/10, maxJitter) + 1) //nolint:gosec // nobody gains by guessing it
	return &HoldError{Err: err, For: wait + jitter, Class: t.holdClass}
}

// heard tells how long the service asks to be left alone by an answer that refuses, and by what, if it does. A 429
// always does; another refusal only if it says until when.
func (h *HTTPCall) heard(t target, a *answer) (wait time.Duration, by string, asks bool) {
	refuses := a.status == http.StatusTooManyRequests
	switch a.status {
	case http.StatusForbidden, http.StatusServiceUnavailable:
		refuses = a.wait > 0
	}
	switch {
	case !refuses:
		h.streaks.end(t.bucket())
		return 0, "", false
	case a.wait > 0:
		h.streaks.end(t.bucket())
		return a.wait, a.field + " asks for " + a.wait.String(), true
	}
	n := h.streaks.count(t.bucket())
	wait = min(firstHold<<min(n-1, 30), lastHold)
	return wait, fmt.Sprintf("it does not say until when, number %d in a row", n), true
}

func (t target) bucket() string { return t.class + "/" + t.key }

// streaks counts, per bucket, the refusals in a row that did not say until when. The zero value is ready; it is safe for
// concurrent use.
type streaks struct {
	mu       sync.Mutex
	byBucket map[string]int
}

// maxStreaks bounds the memory: buckets that end while refused stay in it.
const maxStreaks = 4096

// count one more, and return how many there are.
func (s *streaks) count(bucket string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byBucket == nil {
		s.byBucket = make(map[string]int)
	}
	if len(s.byBucket) >= maxStreaks {
		for victim := range s.byBucket {
			delete(s.byBucket, victim)
			break
		}
	}
	s.byBucket[bucket]++
	return s.byBucket[bucket]
}

func (s *streaks) end(bucket string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.byBucket, bucket)
}
