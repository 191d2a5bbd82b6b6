package queue_test

import (
	"cmp"
	"math"
	"slices"

	"github.com/spout-queue/spout/queue"
)

// The model says what the scripts must answer, worked out from the outflow law of docs/architecture.md. Times are
// microseconds. Floats are exact here as long as intervals are whole; where they are not, blur is what may differ.
const blur = 0.01

// Buckets that would all be due at once get phases: SPREAD and the largest share of an interval in admit.lua, for those
// that join in one call, and in depart.lua, for those that are late in one.
const (
	joinSpread, joinShare = 250, 4
	lateSpread, lateShare = 100, 10
)

// suspectWait is SUSPECT_WAIT in depart.lua.
const suspectWait = 250_000

type modelJob struct {
	b                *modelBucket
	ref, id, payload string
	moment           float64 // it joins the line: the key of the order, together with
	number           float64 // of its admission; a delayed job comes before others at that moment
	delayed          bool
	joins            float64 // while it is later: when it joins the line
	parked           bool    // it is later after a failure, and comes back to its old place
	expires, wait    float64 // 0 never
	answer           modelAnswer
	place            queue.State // Gone when only its identity is remembered
	stamp            string      // while it is out
	worker           int
	cancelling       bool
	died             float64

	attempts, fails, crashes, backs int
}

// modelBucket is one bucket. line and later are in order; jobs whose moment has come move when depart looks.
type modelBucket struct {
	class       *modelClass
	name        string
	shard       string
	slot        float64
	hasSlot     bool
	told        float64
	hasTold     bool
	paused      bool
	draining    bool
	hold        float64 // 0 none
	backoff     float64 // of its head by order hold, 0 none
	head        *modelJob
	line, later []*modelJob
}

type modelClass struct {
	queue.Class
	t, catchUp, maxWait float64
	books               queue.Books
}

func newModelClass(c queue.Class) *modelClass {
	return &modelClass{
		Class: c, t: intervalOf(c.Rate),
		catchUp: float64(c.CatchUp.Microseconds()), maxWait: float64(c.MaxWait.Microseconds()),
	}
}

// modelAnswer is an answer to a submission; start is for what was admitted, retry for what was not (negative: unknown).
type modelAnswer struct {
	kind                      string
	position, level, capacity int
	start, retry              float64
	dropped                   string
}

type model struct {
	now     float64
	classes map[string]*modelClass
	buckets map[string]*modelBucket
	known   map[string]*modelJob   // by bucket and id
	ended   map[string]modelJob    // by ref: what the retention keeps
	dead    map[string][]*modelJob // by shard and class, the oldest first
	out     []*modelJob
	stamps  map[string]float64 // by shard
}

func newModel() *model {
	return &model{
		classes: map[string]*modelClass{}, buckets: map[string]*modelBucket{}, known: map[string]*modelJob{},
		ended: map[string]modelJob{}, dead: map[string][]*modelJob{}, stamps: map[string]float64{},
	}
}

func (m *model) bucket(class, key string) *modelBucket {
	name := class + "/" + key
	b := m.buckets[name]
	if b == nil {
		b = &modelBucket{class: m.classes[class], name: name}
		m.buckets[name] = b
	}
	return b
}

func (b *modelBucket) level() int { return len(b.line) + len(b.later) }

func (m *model) due(b *modelBucket) float64 {
	if !b.hasSlot {
		return m.now
	}
	return min(b.slot, m.now) + b.class.t
}

// next is when the head of the line would leave.
func (m *model) next(b *modelBucket) float64 { return max(m.due(b), b.hold, b.backoff, m.now) }

// ahead counts the jobs that are in the line before one that joins it at a time.
func (b *modelBucket) ahead(from float64) int {
	n := len(b.line)
	for _, j := range b.later {
		if j.joins <= from {
			n++
		}
	}
	return n
}

func (m *model) stamp(shard string) float64 {
	m.stamps[shard] = max(m.stamps[shard]+1, m.now)
	return m.stamps[shard]
}

// modelSubmission is a submission and what the real queue answered, which decides only what is too close to call.
type modelSubmission struct {
	class, key, id, payload, ref, shard string
	notBefore, maxWait                  float64
	got                                 string
}

// admit answers one submission and changes the model. joined counts the idle buckets that got jobs in the same call.
func (m *model) admit(s modelSubmission, joined *int) modelAnswer {
	b := m.bucket(s.class, s.key)
	b.shard = s.shard
	if known := m.known[b.name+" "+s.id]; known != nil {
		if known.payload != s.payload {
			b.class.reject(queue.ReasonConflict)
			return modelAnswer{kind: "conflict"}
		}
		b.class.books.Duplicate++
		answer := known.answer
		answer.kind, answer.dropped = "duplicate", ""
		return answer
	}
	if b.draining || b.class.Draining {
		b.class.reject(queue.ReasonDraining)
		return modelAnswer{kind: "draining"}
	}
	if b.level() >= b.class.Capacity {
		m.expire(b)
	}
	full := b.level() >= b.class.Capacity
	if b.level() == 0 && m.due(b) <= m.now+blur {
		b.slot, b.hasSlot = m.now+min(joinSpread*float64(*joined), b.class.t/joinShare)-b.class.t, true
		*joined++
	}
	drops := full && b.class.Overflow == queue.DropOldest
	from := max(s.notBefore, m.now)
	ahead := b.ahead(from)
	if drops && ahead > 0 {
		ahead--
	}
	start := max(m.next(b)+float64(ahead)*b.class.t, from)
	wait := b.class.maxWait
	if s.maxWait > 0 && (wait == 0 || s.maxWait < wait) {
		wait = s.maxWait
	}
	over := start - from - wait
	if full && !drops || wait > 0 && (over > blur || over > -blur && s.got == "would_expire") {
		a := modelAnswer{kind: "would_expire", level: b.level(), capacity: b.class.Capacity, retry: -1}
		at := m.now
		if full && !drops {
			a.kind, at = "full", m.refuse(b)
		}
		if !b.paused && !b.class.Paused {
			a.retry = m.fits(b, from, wait, at) - m.now
		}
		b.class.reject(queue.Reason(a.kind))
		return a
	}
	dropped := ""
	if drops {
		dropped = m.dropOldest(b)
	}
	j := &modelJob{b: b, ref: s.ref, id: s.id, payload: s.payload, number: m.stamp(s.shard), wait: wait}
	if wait > 0 {
		j.expires = from + wait
	}
	m.place(b, j, from)
	b.class.books.Admitted++
	j.answer = modelAnswer{
		kind: "admitted", position: ahead + 1, level: b.level(), capacity: b.class.Capacity, start: start, dropped: dropped,
	}
	m.known[b.name+" "+s.id] = j
	return j.answer
}

// fits is when, at the earliest, a job that may join from a time on would wait no longer than it may: the line gets
// shorter until then, and longer by what joins it.
func (m *model) fits(b *modelBucket, from, wait, at float64) float64 {
	if wait == 0 {
		return at
	}
	free := m.next(b) + float64(len(b.line))*b.class.t
	for i := 0; ; i++ {
		if free > from+wait {
			at = max(at, free-wait)
		}
		if i == len(b.later) || b.later[i].joins > max(math.Ceil(at-1e-6), from) {
			return at
		}
		free = max(free, b.later[i].joins) + b.class.t
	}
}

func (c *modelClass) reject(r queue.Reason) {
	if c.books.Rejected == nil {
		c.books.Rejected = map[queue.Reason]int64{}
	}
	c.books.Rejected[r]++
}

func (m *model) place(b *modelBucket, j *modelJob, from float64) {
	if from > m.now {
		j.moment, j.delayed = from, true
		m.setAside(j, from)
		return
	}
	j.moment = j.number
	m.join(b, j, m.now)
}

// setAside has a job wait until it joins the line.
func (m *model) setAside(j *modelJob, joins float64) {
	j.place, j.joins = queue.Later, joins
	j.b.later = insert(j.b.later, j)
}

// join: a bucket earns no credit while its line is empty.
func (m *model) join(b *modelBucket, j *modelJob, at float64) {
	if len(b.line) == 0 && (!b.hasSlot || b.slot < at-b.class.t) {
		b.slot, b.hasSlot = at-b.class.t, true
	}
	j.place, j.joins, j.parked = queue.Line, 0, false
	b.line = insert(b.line, j)
}

// insert keeps jobs in order: those that are later by when they join, then all by their places in the line.
func insert(jobs []*modelJob, j *modelJob) []*modelJob {
	jobs = append(jobs, j)
	slices.SortFunc(jobs, func(a, b *modelJob) int {
		return cmp.Or(
			cmp.Compare(a.joins, b.joins), before(a.parked, b.parked), cmp.Compare(a.moment, b.moment),
			before(a.delayed, b.delayed), cmp.Compare(a.number, b.number),
		)
	})
	return jobs
}

// before orders what is true before what is not.
func before(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	default:
		return 1
	}
}

// roomAt is when a place opens: the departure that takes the level below the capacity.
func (m *model) roomAt(b *modelBucket) float64 {
	need := b.level() - b.class.Capacity + 1
	at := m.next(b) - b.class.t
	for i := range need {
		at += b.class.t
		if i >= len(b.line) {
			at = max(at, b.later[i-len(b.line)].joins)
		}
	}
	return at
}

// refuse tells producers different times, an interval apart, beginning anew after as many as there are places; none when
// nobody can tell.
func (m *model) refuse(b *modelBucket) float64 {
	if b.paused || b.class.Paused {
		return 0
	}
	earliest := m.roomAt(b)
	told := earliest
	if b.hasTold {
		told = max(b.told+b.class.t, earliest)
		if told > earliest+(float64(b.class.Capacity)+1.0/16)*b.class.t {
			told = earliest
		}
	}
	b.told, b.hasTold = math.Ceil(told-blur), true
	return told
}

// late tells whether a job has waited longer than it may.
func (m *model) late(b *modelBucket, j *modelJob) bool {
	return j.expires > 0 && j.expires+b.class.catchUp < m.now
}

func (m *model) expire(b *modelBucket) {
	for _, j := range slices.Concat(b.line, b.later) {
		if m.late(b, j) {
			m.leave(j, queue.Expired)
		}
	}
}

func remove(jobs []*modelJob, j *modelJob) []*modelJob {
	return slices.DeleteFunc(slices.Clone(jobs), func(k *modelJob) bool { return k == j })
}

// visit is depart looking at a bucket: what has waited too long goes, and what is to join joins.
func (m *model) visit(b *modelBucket) {
	m.expire(b)
	for len(b.later) > 0 && b.later[0].joins <= m.now {
		j := b.later[0]
		b.later = b.later[1:]
		m.join(b, j, j.joins)
	}
}

// open tells whether a job may leave the bucket now.
func (m *model) open(b *modelBucket, early float64) bool {
	return len(b.line) > 0 && !b.class.Paused && m.opens(b) <= m.now+early
}

// takeSlot moves the slot at a departure; what came later than the catch-up is lost. Buckets that are all late get
// different phases.
func (m *model) takeSlot(b *modelBucket, behind *int) {
	kept := m.now - b.class.catchUp
	if due := m.due(b); due >= kept-1e-3 {
		b.slot, b.hasSlot = due, true
		return
	}
	b.slot, b.hasSlot = min(kept+min(lateSpread*float64(*behind), b.class.t/lateShare), m.now), true
	*behind++
}

// opening is when depart must look at a bucket next; infinite for never.
func (m *model) opening(b *modelBucket) float64 {
	at := math.Inf(1)
	if b.level() == 0 || b.class.Paused {
		return at
	}
	at = m.opens(b)
	if len(b.line) == 0 {
		at = max(at, b.later[0].joins)
	}
	for _, j := range slices.Concat(b.line, b.later) {
		if j.expires > 0 {
			at = min(at, j.expires+b.class.catchUp+1)
		}
	}
	if len(b.line) > 0 && b.class.suspect(b.line[0]) { // it may have to wait for a worker that has none
		at = max(at, m.now+suspectWait)
	}
	return at
}
