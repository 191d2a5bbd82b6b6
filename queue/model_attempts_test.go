package queue_test

import (
	"cmp"
	"math"
	"slices"

	"github.com/spout-queue/spout/queue"
)

// What the model says of attempts: how departures end, and what becomes of their jobs.

// opens is when a bucket with jobs lets go, infinite for not before something else happens.
func (m *model) opens(b *modelBucket) float64 {
	if bound := b.class.bound(); b.paused || bound > 0 && m.flight(b) >= bound {
		return math.Inf(1)
	}
	return max(m.due(b), b.hold, b.backoff)
}

// flight counts what a bucket has out.
func (m *model) flight(b *modelBucket) int {
	n := 0
	for _, j := range m.out {
		if j.b == b {
			n++
		}
	}
	return n
}

func (c *modelClass) bound() int {
	if c.Retry.Order == queue.Hold {
		return 1
	}
	return c.MaxInFlight
}

// leave takes a waiting job out of its bucket for good.
func (m *model) leave(j *modelJob, state queue.State) {
	b := j.b
	b.line, b.later = remove(b.line, j), remove(b.later, j)
	if b.head == j { // it waited out its backoff
		b.backoff, b.head = 0, nil
	}
	switch books := &b.class.books; state {
	case queue.Expired:
		books.Expired++
	case queue.Cancelled:
		books.Cancelled++
	case queue.Dropped:
		books.Dropped++
	default:
		books.Purged++
	}
	m.end(j, state)
}

// dropOldest makes room for another job, and tells which one went.
func (m *model) dropOldest(b *modelBucket) string {
	j := slices.Concat(b.line, b.later)[0]
	m.leave(j, queue.Dropped)
	return j.ref
}

// end forgets a job, or keeps its identity as long as its class wants, and what its retention says (in these tests: for
// ever). Gone is the state of one that ended before, or was purged.
func (m *model) end(j *modelJob, state queue.State) {
	if state != queue.Gone && j.b.class.Retention > 0 {
		kept := *j
		kept.place = state
		m.ended[j.ref] = kept
	}
	j.place = queue.Gone
	if j.b.class.Dedup == 0 {
		delete(m.known, j.b.name+" "+j.id)
	}
}

// settled is what a verdict does.
func (m *model) settled(j *modelJob, v queue.Verdict) {
	m.out = remove(m.out, j)
	c := j.b.class
	switch v.Outcome {
	case queue.Done:
		c.books.Done++
		j.attempts++
		m.end(j, queue.Completed)
	case queue.Stopped:
		c.books.CancelledOut++
		j.attempts++
		m.end(j, queue.Cancelled)
	case queue.Back:
		if m.comesBack(j) {
			m.join(j.b, j, m.now)
			if v.Stale {
				j.backs++
				c.books.Stale++
			}
		}
	case queue.Held:
		j.attempts++
		if m.comesBack(j) {
			c.books.Held++
			m.join(j.b, j, m.now)
			j.b.hold = max(j.b.hold, m.now+float64(v.Hold.Microseconds()))
		}
	default:
		m.failed(j, v)
	}
}

func (m *model) failed(j *modelJob, v queue.Verdict) {
	c := j.b.class
	j.attempts++
	j.fails++
	if !j.cancelling && (v.Outcome == queue.Dead || j.fails >= c.Retry.MaxAttempts) {
		m.bury(j)
		return
	}
	if !m.comesBack(j) {
		return
	}
	c.books.Retried++
	delay := c.Retry.Backoff // in these tests the longest, too
	if v.RetryAfter != nil {
		delay = *v.RetryAfter
	}
	m.retry(j, m.now+float64(delay.Microseconds()))
}

// comesBack books the return of a departure; false: its job was cancelled meanwhile and ends.
func (m *model) comesBack(j *modelJob) bool {
	if j.cancelling {
		j.b.class.books.CancelledOut++
		m.end(j, queue.Cancelled)
		return false
	}
	j.b.class.books.Returned++
	return true
}

// retry sends a failed job back to its bucket, to leave no earlier than a time.
func (m *model) retry(j *modelJob, at float64) {
	b := j.b
	if j.wait > 0 {
		j.expires = at + j.wait
	}
	switch b.class.Retry.Order {
	case queue.Hold:
		m.join(b, j, m.now)
		b.backoff, b.head = at, j
		return
	case queue.Tail:
		j.moment, j.number, j.delayed = at, m.stamp(b.shard), true
	default:
		j.parked = true
	}
	m.setAside(j, at)
}

// bury keeps a job as dead, and drops what its class does not keep of the dead.
func (m *model) bury(j *modelJob) {
	c, key := j.b.class, j.b.shard+j.b.class.Name
	j.place, j.died = queue.Kept, m.now
	c.books.Dead++
	dead := append(slices.Clone(m.dead[key]), j)
	slices.SortFunc(dead, func(a, b *modelJob) int {
		return cmp.Or(cmp.Compare(a.died, b.died), cmp.Compare(a.ref, b.ref))
	})
	for len(dead) > 0 && (len(dead) > c.Dead.Max || dead[0].died < m.now-float64(c.Dead.Keep.Microseconds())) {
		m.end(dead[0], queue.Gone)
		c.books.DeadDropped++
		dead = dead[1:]
	}
	m.dead[key] = dead
}

// revive sends a dead job round again.
func (m *model) revive(j *modelJob) modelAnswer {
	b := j.b
	if b.draining || b.class.Draining {
		return modelAnswer{kind: "draining"}
	}
	if b.level() >= b.class.Capacity {
		m.expire(b)
	}
	a := modelAnswer{kind: "full", level: b.level(), capacity: b.class.Capacity, retry: -1}
	if a.level >= a.capacity {
		if !b.paused && !b.class.Paused {
			a.retry = m.roomAt(b) - m.now
		}
		return a
	}
	a = modelAnswer{kind: "admitted", position: b.ahead(m.now) + 1, level: a.level + 1, capacity: a.capacity}
	a.start = m.next(b) + float64(a.position-1)*b.class.t
	key := b.shard + b.class.Name
	m.dead[key] = remove(m.dead[key], j)
	b.class.books.Revived++
	j.fails, j.crashes, j.delayed = 0, 0, false
	j.number = m.stamp(b.shard)
	j.moment = j.number
	if j.wait > 0 {
		j.expires = m.now + j.wait
	}
	m.join(b, j, m.now)
	return a
}

// suspect tells whether one more crash condemns a job.
func (c *modelClass) suspect(j *modelJob) bool { return j.crashes >= max(1, c.MaxCrashes-1) }

// crashed is what becomes of a departure whose worker died.
func (m *model) crashed(j *modelJob) {
	m.out = remove(m.out, j)
	c := j.b.class
	if !j.cancelling {
		apart := c.suspect(j)
		j.attempts++
		j.crashes++
		if apart && j.crashes >= c.MaxCrashes {
			m.bury(j)
			return
		}
	}
	if m.comesBack(j) {
		m.join(j.b, j, m.now)
	}
}
