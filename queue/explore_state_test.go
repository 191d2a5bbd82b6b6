package queue_test

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2"
)

const exploreTag = "{spout:0}:"

// place is where a job is. The zero value: nowhere, it is final and forgotten.
type place struct {
	kind          string // line, later, out, dead, mark
	bucket        string
	score         int64 // in line, later or dead
	parked        bool  // in later: it keeps its number
	worker, stamp string
}

func (p place) waits() bool { return p.kind == "line" || p.kind == "later" }

// over tells whether the job is gone: what is left is at most the mark of its identity.
func (p place) over() bool { return p.kind == "" || p.kind == "mark" }

// record is what is stored of a job, apart from its place.
type record struct {
	bucket  string
	number  int64 // of its admission
	delayed bool
	expires int64 // 0 never
	cancel  bool  // it was cancelled while it was out
	past    pastOf
}

// seenBucket is the own state of a bucket.
type seenBucket struct {
	slot        float64
	hasSlot     bool
	paused      bool
	draining    bool
	hold        int64  // until when an operator closed it
	backoff     int64  // until when its head waits
	head        string // that head
	line, later int
	joins       int64            // the first of later
	expiry      map[string]int64 // by ref
	flight      []string
}

// seen is the whole state of the one shard, read past the scripts.
type seen struct {
	places  map[string]place
	records map[string]record
	buckets map[string]*seenBucket
	due     map[string]map[string]float64 // class -> bucket -> score
	classes map[string]float64            // class -> score of its earliest
	books   map[string]map[string]int64
	class   map[string]seenClass
	workers map[string]string   // beats
	cancels map[string][]string // worker -> refs
	ended   map[string]string   // ref -> how, of what the retention keeps
	stamp   int64
	server  string   // the process that answers, and since when the data is doubted
	since   int64    // that time, 0 never
	other   []string // keys that hold nothing of a job or bucket
	trouble []string // what contradicts itself
}

// seenClass is what is stored of a class, beside its settings and books.
type seenClass struct {
	paused, draining, tracked bool
	dead                      int // jobs
}

func (s *seen) bucket(name string) *seenBucket {
	if s.buckets[name] == nil {
		s.buckets[name] = &seenBucket{}
	}
	return s.buckets[name]
}

func (s *seen) put(ref string, p place) {
	if was, ok := s.places[ref]; ok {
		s.trouble = append(s.trouble, fmt.Sprintf("job %s is in two places: %+v and %+v", ref, was, p))
	}
	s.places[ref] = p
}

func look(m *miniredis.Miniredis) *seen {
	s := &seen{
		places: map[string]place{}, records: map[string]record{}, buckets: map[string]*seenBucket{},
		due: map[string]map[string]float64{}, classes: map[string]float64{}, books: map[string]map[string]int64{},
		class: map[string]seenClass{}, workers: map[string]string{}, cancels: map[string][]string{}, ended: map[string]string{},
	}
	var jobs []string
	for _, key := range m.Keys() {
		kind, name, _ := strings.Cut(strings.TrimPrefix(key, exploreTag), ":")
		switch kind {
		case "line", "later":
			s.lookWaiting(m, key, kind, name)
		case "out":
			s.lookOut(m, key, name)
		case "job":
			jobs = append(jobs, name)
		case "class", "dead":
			s.lookClass(m, key, kind, name)
		case "due", "stats":
			s.lookIndex(m, key, kind, name)
		case "bucket", "expiry", "flight":
			s.lookBucket(m, key, kind, name)
		default:
			s.lookOther(m, key, kind, name)
		}
	}
	s.lookJobs(m, jobs)
	return s
}

func (s *seen) lookClass(m *miniredis.Miniredis, key, kind, name string) {
	c := s.class[name]
	if kind == "dead" {
		for ref, at := range sortedSet(m, key) {
			s.put(ref, place{kind: "dead", score: int64(at)})
			c.dead++
		}
	} else {
		c.paused, c.draining = m.HGet(key, "paused") != "", m.HGet(key, "draining") != ""
		c.tracked = m.HGet(key, "tracked") != ""
	}
	s.class[name] = c
}

func (s *seen) lookIndex(m *miniredis.Miniredis, key, kind, name string) {
	switch {
	case kind == "stats":
		s.books[name] = readHash(m, key)
	case name == "":
		s.classes = sortedSet(m, key)
	default:
		s.due[name] = sortedSet(m, key)
	}
}

// lookOther reads what belongs to the shard, to workers and to jobs that have ended.
func (s *seen) lookOther(m *miniredis.Miniredis, key, kind, name string) {
	switch kind {
	case "workers":
		names, _ := m.HKeys(key)
		for _, worker := range names {
			s.workers[worker] = m.HGet(key, worker)
		}
	case "cancel":
		s.cancels[name], _ = m.HKeys(key)
	case "ended":
		s.ended[name] = m.HGet(key, "state")
		if s.ended[name] == "" || m.TTL(key) <= 0 {
			s.trouble = append(s.trouble, fmt.Sprintf("what is kept of job %s (%q) stays for ever", name, s.ended[name]))
		}
	case "stamp":
		text, _ := m.Get(key)
		s.stamp = parse(text)
	case "server":
		stored, _ := m.Get(key)
		id, rest, _ := strings.Cut(stored, " ")
		_, since, _ := strings.Cut(rest, " ") // behind what tells processes apart for less
		s.server = id + " " + since
		s.since = parse(since)
	default:
		s.other = append(s.other, key)
	}
}

func sortedSet(m *miniredis.Miniredis, key string) map[string]float64 {
	z, _ := m.SortedSet(key) // the key exists and is one
	return z
}

func readHash(m *miniredis.Miniredis, key string) map[string]int64 {
	h := map[string]int64{}
	names, _ := m.HKeys(key)
	for _, name := range names {
		h[name] = parse(m.HGet(key, name))
	}
	return h
}

func parse(s string) int64 {
	n, _ := strconv.ParseInt(s, 10, 64)
	return n
}

func (s *seen) lookWaiting(m *miniredis.Miniredis, key, kind, name string) {
	b := s.bucket(name)
	b.joins = math.MaxInt64
	for member, score := range sortedSet(m, key) {
		ref := member[strings.LastIndexByte(member, ':')+1:]
		s.put(ref, place{kind: kind, bucket: name, score: int64(score), parked: member[0] == '!'})
		if kind == "line" {
			b.line++
			continue
		}
		b.later++
		b.joins = min(b.joins, int64(score))
	}
}

func (s *seen) lookOut(m *miniredis.Miniredis, key, worker string) {
	refs, _ := m.HKeys(key)
	for _, ref := range refs {
		part := strings.Fields(m.HGet(key, ref)) // the keys of these buckets have no spaces
		s.put(ref, place{kind: "out", bucket: part[2], worker: worker, stamp: part[0]})
	}
}

func (s *seen) lookBucket(m *miniredis.Miniredis, key, kind, name string) {
	b := s.bucket(name)
	switch kind {
	case "expiry":
		b.expiry = map[string]int64{}
		for member, at := range sortedSet(m, key) {
			b.expiry[member[strings.LastIndexByte(member, ':')+1:]] = int64(at)
		}
		return
	case "flight":
		b.flight, _ = m.SMembers(key)
		return
	}
	if slot := m.HGet(key, "slot"); slot != "" {
		whole, decimals, _ := strings.Cut(slot, ".")
		w, _ := strconv.ParseFloat(whole, 64)
		d, _ := strconv.ParseFloat("0."+decimals, 64)
		b.slot, b.hasSlot = w+d, true
	}
	b.paused, b.draining = m.HGet(key, "paused") != "", m.HGet(key, "draining") != ""
	b.hold = parse(m.HGet(key, "hold"))
	until, head, _ := strings.Cut(m.HGet(key, "backoff"), " ")
	b.backoff, b.head = parse(until), head
}

func (s *seen) lookJobs(m *miniredis.Miniredis, refs []string) {
	for _, ref := range refs {
		key := exploreTag + "job:" + ref
		_, bucket, _ := strings.Cut(m.HGet(key, "is"), "\n")
		number, _, _ := strings.Cut(m.HGet(key, "meta"), " ")
		member := m.HGet(key, "member")
		if member != "" {
			number, _, _ = strings.Cut(member, ":")
		}
		s.records[ref] = record{
			bucket: bucket, number: parse(number), delayed: member != "", expires: parse(m.HGet(key, "expires")),
			cancel: m.HGet(key, "cancel") != "", past: readPast(m.HGet(key, "past")),
		}
		if m.HGet(key, "run") == "" && m.TTL(key) > 0 {
			s.put(ref, place{kind: "mark"})
		} else if _, ok := s.places[ref]; !ok {
			s.trouble = append(s.trouble, fmt.Sprintf("job %s is stored and nowhere: lost", ref))
		}
	}
	for ref, p := range s.places {
		if r, ok := s.records[ref]; !ok || (p.bucket != "" && r.bucket != p.bucket) {
			s.trouble = append(s.trouble, fmt.Sprintf("job %s at %+v is stored as %+v", ref, p, r))
		}
	}
}

// order of two jobs of one bucket: the moment they joined the line, then their admission; who was admitted at the moment
// that a delayed one joins comes after it.
func (s *seen) order(a, b string, at func(string) int64) int {
	x, y := s.records[a], s.records[b]
	if at(a) == at(b) && x.delayed != y.delayed {
		return map[bool]int{true: -1, false: 1}[x.delayed]
	}
	return cmp.Or(cmp.Compare(at(a), at(b)), cmp.Compare(x.number, y.number))
}
