package queue_test

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2"
)

const exploreTag = "{spout:0}:"

// place is where a job is. The zero value: nowhere, it is final and forgotten.
type place struct {
	kind          string // line, later, out, dead, mark
	bucket        string
	score         int64 // in line or later
	worker, stamp string
}

// record is what is stored of a job, apart from its place.
type record struct {
	bucket  string
	number  int64 // of its admission
	delayed bool
	expires int64 // 0 never
}

// seenBucket is the own state of a bucket.
type seenBucket struct {
	slot        float64
	hasSlot     bool
	paused      bool
	line, later int
	joins       int64 // the first of later
	expiry      int64 // the first one, if any
}

// seen is the whole state of the one shard, read past the scripts.
type seen struct {
	places  map[string]place
	records map[string]record
	buckets map[string]*seenBucket
	due     map[string]map[string]float64 // class -> bucket -> score
	classes map[string]float64            // class -> score of its earliest
	books   map[string]map[string]int64
	paused  map[string]bool // classes
	other   []string        // keys that hold nothing of a job or bucket
	trouble []string        // what contradicts itself
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
		paused: map[string]bool{},
	}
	var jobs []string
	for _, key := range m.Keys() {
		kind, name, _ := strings.Cut(strings.TrimPrefix(key, exploreTag), ":")
		switch kind {
		case "line", "later":
			s.lookWaiting(m, key, kind, name)
		case "out":
			s.lookOut(m, key, name)
		case "dead":
			for ref := range sortedSet(m, key) {
				s.put(ref, place{kind: "dead"})
			}
		case "bucket":
			s.lookBucket(m, key, name)
		case "expiry":
			first := slices.Min(slices.Collect(maps.Values(sortedSet(m, key))))
			s.bucket(name).expiry = int64(first)
		case "due":
			if name == "" {
				s.classes = sortedSet(m, key)
			} else {
				s.due[name] = sortedSet(m, key)
			}
		case "stats":
			s.books[name] = readHash(m, key)
		case "job":
			jobs = append(jobs, name)
		case "class":
			s.paused[name] = m.HGet(key, "paused") != ""
		default:
			s.other = append(s.other, key)
		}
	}
	s.lookJobs(m, jobs)
	return s
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
		s.put(ref, place{kind: kind, bucket: name, score: int64(score)})
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

func (s *seen) lookBucket(m *miniredis.Miniredis, key, name string) {
	b := s.bucket(name)
	if slot := m.HGet(key, "slot"); slot != "" {
		whole, decimals, _ := strings.Cut(slot, ".")
		w, _ := strconv.ParseFloat(whole, 64)
		d, _ := strconv.ParseFloat("0."+decimals, 64)
		b.slot, b.hasSlot = w+d, true
	}
	b.paused = m.HGet(key, "paused") != ""
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
		s.records[ref] = record{bucket, parse(number), member != "", parse(m.HGet(key, "expires"))}
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

// checkIndex: every bucket that has jobs has an entry in the due index, not later than it opens.
func (x *explorer) checkIndex() {
	s := x.now
	for name, b := range s.buckets {
		class, _, _ := strings.Cut(name, "/")
		score, ok := s.due[class][name]
		if !ok {
			x.must(b.line+b.later == 0 && !b.paused, "bucket %s has jobs or a pause and no entry in the due index", name)
			continue
		}
		opens := x.opening(class, b)
		x.must(score <= max(opens, float64(x.latest)), "bucket %s opens at %.0f, its entry is at %.0f", name, opens, score)
	}
	for class, entries := range s.due {
		earliest := slices.Min(slices.Collect(maps.Values(entries)))
		at, ok := s.classes[class]
		x.must(ok, "class %s has buckets and no entry in the due index", class)
		x.must(!s.paused[class] || math.IsInf(at, 1), "paused class %s is at %.0f", class, at)
		x.must(s.paused[class] || at <= earliest, "class %s is at %.0f, its first bucket at %.0f", class, at, earliest)
	}
}

// opening is when depart must look at a bucket, whole microseconds.
func (x *explorer) opening(class string, b *seenBucket) float64 {
	at := math.Inf(1)
	if !b.paused {
		at = math.Inf(-1)
		if b.hasSlot {
			at = b.slot + intervalOf(x.classes[class].Rate)
		}
		if b.line == 0 && b.later > 0 {
			at = max(at, float64(b.joins))
		}
	}
	if b.line+b.later > 0 && b.expiry > 0 {
		at = min(at, float64(b.expiry+x.classes[class].CatchUp.Microseconds()+1))
	}
	return math.Ceil(at - 1e-3)
}

// checkBooks is law 5: both sides, of every class.
func (x *explorer) checkBooks() {
	count := map[string]map[string]int64{}
	for class := range x.classes {
		count[class] = map[string]int64{}
	}
	for _, p := range x.now.places {
		if class, _, ok := strings.Cut(p.bucket, "/"); ok {
			count[class][p.kind]++
		}
	}
	for class := range x.classes {
		b, n := x.now.books[class], count[class]
		in := b["admitted"] + b["returned"]
		gone := b["departed"] + b["expired"] + b["purged"] + b["sick"]
		x.must(in == n["line"]+n["later"]+gone, "books of %s: %d came in, %d + %d wait and %d went: %v",
			class, in, n["line"], n["later"], gone, b)
		x.must(b["departed"] == b["returned"]+b["done"]+b["dead"]+n["out"], "books of %s: %d are out: %v", class, n["out"], b)
		x.must(b["sick"] == 0 && b["sick_buckets"] == 0, "%s has something sick: %v", class, b)
	}
}
