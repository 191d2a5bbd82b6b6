package bulk_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/spout-queue/spout/queue"
)

// shop is a queue of leaky buckets in memory, on the clock of the test.
type shop struct {
	capacity int
	interval time.Duration
	// flaky makes calls fail: before they are carried out, or after.
	flaky    *rand.Rand
	downTill time.Time
	fullTill time.Time // and paused
	outTill  time.Time // out of memory: it asks to come back at once
	asked    []time.Time
	acks     map[queue.Ack]int
	calls    int
	refusals int
	buckets  map[string]*shelf
}

type shelf struct {
	level int
	due   time.Time
	ids   []string // in order of admission
	known map[string]bool
}

func newShop(capacity int, interval time.Duration) *shop {
	return &shop{capacity: capacity, interval: interval, buckets: map[string]*shelf{}}
}

func (s *shop) SubmitMany(_ context.Context, jobs []queue.Job) []queue.Result {
	s.calls++
	s.asked = append(s.asked, time.Now())
	before := time.Now().Before(s.downTill) || s.flaky != nil && s.flaky.IntN(4) == 0
	after := s.flaky != nil && s.flaky.IntN(4) == 0
	results := make([]queue.Result, len(jobs))
	for i, job := range jobs {
		if before {
			results[i].Err = queue.ErrUnavailable
			continue
		}
		results[i] = s.submit(job)
		if after {
			results[i] = queue.Result{Err: queue.ErrUnknown}
		}
	}
	return results
}

func (s *shop) submit(job queue.Job) queue.Result {
	if s.acks != nil {
		s.acks[job.Ack]++
	}
	name := job.Class + "/" + job.Key
	b := s.buckets[name]
	if b == nil {
		b = &shelf{known: map[string]bool{}}
		s.buckets[name] = b
	}
	now := time.Now()
	paused := now.Before(s.fullTill)
	for b.level > 0 && !paused && !now.Before(b.due) {
		b.level--
		b.due = b.due.Add(s.interval)
	}
	switch {
	case strings.HasPrefix(job.Class, "no"):
		return queue.Result{Err: queue.ErrUnknownClass}
	case strings.HasPrefix(job.Class, "draining"):
		return queue.Result{Err: &queue.FullError{Reason: "draining", Class: job.Class, Key: job.Key, RetryAfter: time.Millisecond}}
	case now.Before(s.outTill):
		return queue.Result{Err: &queue.FullError{Reason: queue.ReasonStoreFull, Class: job.Class, Key: job.Key}}
	case len(job.Payload) > queue.MaxPayload:
		return queue.Result{Err: queue.ErrTooLarge}
	case b.known[job.ID]:
		return queue.Result{Receipt: queue.Receipt{ID: job.ID, Status: queue.Duplicate}}
	case b.level >= s.capacity, paused:
		s.refusals++
		return queue.Result{Err: &queue.FullError{
			Reason: queue.ReasonFull, Class: job.Class, Key: job.Key, RetryAfter: b.due.Sub(now), Paused: paused,
			Level: b.level, Capacity: s.capacity,
		}}
	case job.MaxWait > 0 && time.Duration(b.level)*s.interval > job.MaxWait:
		s.refusals++
		return queue.Result{Err: &queue.FullError{
			Reason: queue.ReasonWouldExpire, RetryAfter: time.Duration(b.level)*s.interval - job.MaxWait, Level: b.level, Capacity: s.capacity,
		}}
	}
	if b.level == 0 && b.due.Before(now) {
		b.due = now.Add(s.interval)
	}
	b.level++
	b.known[job.ID] = true
	b.ids = append(b.ids, job.ID)
	return queue.Result{Receipt: queue.Receipt{ID: job.ID, Status: queue.Admitted, Level: b.level, Capacity: s.capacity}}
}
