package queue_test

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/spout-queue/spout/queue"
)

// pastOf is what a job has been through since it was admitted; failures and crashes since it was last sent round.
type pastOf struct{ backs, attempts, fails, crashes int }

func readPast(text string) (p pastOf) {
	if text != "" {
		_, _ = fmt.Sscan(text, &p.backs, &p.attempts, &p.fails, &p.crashes)
	}
	return p
}

// suspect tells whether one more crash is the job's last.
func (p pastOf) suspect(c queue.Class) bool { return p.crashes >= max(1, c.MaxCrashes-1) }

// ledger is what the explorer knows of the shard's data. It is rolled back with it.
type ledger struct {
	classes   map[string]queue.Class
	home      map[string]int64  // ref -> the score it has in line, for ever, or until it goes to the tail
	pasts     map[string]pastOf // by ref
	notBefore map[string]int64  // ref -> until when it waits at the head of its line, as order hold wants
	suspects  map[string]bool   // stamps of departures as a suspect
	stamps    map[string]bool   // of all departures
	closed    map[string]int64  // bucket -> until when an operator holds it
	admitted  map[string]int64  // by class
	revived   map[string]int64
	ended     map[string]int64 // the dead too
}

func newLedger() ledger {
	return ledger{
		classes: map[string]queue.Class{}, home: map[string]int64{}, pasts: map[string]pastOf{}, notBefore: map[string]int64{},
		suspects: map[string]bool{}, stamps: map[string]bool{}, closed: map[string]int64{},
		admitted: map[string]int64{}, revived: map[string]int64{}, ended: map[string]int64{},
	}
}

func (l *ledger) clone() ledger {
	return ledger{
		maps.Clone(l.classes), maps.Clone(l.home), maps.Clone(l.pasts), maps.Clone(l.notBefore), maps.Clone(l.suspects),
		maps.Clone(l.stamps), maps.Clone(l.closed), maps.Clone(l.admitted), maps.Clone(l.revived), maps.Clone(l.ended),
	}
}

// dump is a copy of all data of a Redis.
type dump struct {
	texts  map[string]string
	hashes map[string][]string // field, value, …
	sets   map[string][]string
	sorted map[string]map[string]float64
	lives  map[string]time.Duration
}

func dumpOf(m *miniredis.Miniredis) dump {
	d := dump{map[string]string{}, map[string][]string{}, map[string][]string{}, map[string]map[string]float64{}, map[string]time.Duration{}}
	for _, key := range m.Keys() {
		switch m.Type(key) {
		case "string":
			d.texts[key], _ = m.Get(key)
		case "hash":
			names, _ := m.HKeys(key)
			for _, name := range names {
				d.hashes[key] = append(d.hashes[key], name, m.HGet(key, name))
			}
		case "set":
			d.sets[key], _ = m.SMembers(key)
		default:
			d.sorted[key] = maps.Clone(sortedSet(m, key)) // it is the server's own
		}
		if ttl := m.TTL(key); ttl > 0 {
			d.lives[key] = ttl
		}
	}
	return d
}

func (d *dump) restore(m *miniredis.Miniredis) {
	m.FlushAll()
	for key, text := range d.texts {
		_ = m.Set(key, text) // nothing else is there
	}
	for key, pairs := range d.hashes {
		m.HSet(key, pairs...)
	}
	for key, members := range d.sets {
		_, _ = m.SAdd(key, members...)
	}
	for key, scores := range d.sorted {
		for member, score := range scores {
			_, _ = m.ZAdd(key, score, member)
		}
	}
	for key, ttl := range d.lives {
		m.SetTTL(key, ttl)
	}
}

// rollback is a copy of all data, and of what the explorer knew of it, that comes back a few steps later, as when Redis is
// restarted from its last dump, or a replica that lags behind takes over.
type rollback struct {
	ledger ledger
	data   dump
	at     int // the step at which it comes back
}

// roll keeps a copy now and then, and lets it come back.
func (x *explorer) roll() {
	switch {
	case x.copy == nil && x.now.server != "" && x.random.IntN(12) == 0:
		x.copy = &rollback{x.clone(), dumpOf(x.m), len(x.steps) + 1 + x.random.IntN(15)}
		x.note("(redis writes its data down)")
	case x.copy != nil && len(x.steps) >= x.copy.at:
		x.lose()
		x.copy = nil
	}
}

// lose rolls the data back. Mostly another process answers from then on, and says so; otherwise it must be a worker that
// notices, whose calls the data does not know.
func (x *explorer) lose() {
	x.copy.data.restore(x.m)
	x.advance(x.latest - x.clock + 1) // so that no two losses are noticed at one moment
	x.ledger = x.copy.ledger
	x.held, x.line.held = nil, nil
	x.now = look(x.m)
	for _, w := range x.workers {
		w.sight = sight{}
	}
	for _, w := range x.gone {
		w.sight = sight{}
	}
	x.unnoticed = true
	ahead := x.ahead()
	if ahead == nil || x.random.IntN(2) == 0 {
		_, since, _ := strings.Cut(x.now.server, " ")
		if since != "" {
			_ = x.m.Set(exploreTag+"server", "before - "+since)
		}
		x.now = look(x.m)
		x.note("redis is another one and lost data")
		x.unnoticed = since != "" // nothing had ever departed
		return
	}
	x.note("redis lost data")
	x.depart(ahead, queue.Ask{Want: 3}, noFault)
	x.must(!x.unnoticed, "worker %s had heard of call %d, and nobody noticed that the data does not know it", ahead.name, ahead.heard)
}

// notice notes that the scripts know of a loss of data.
func (x *explorer) notice() {
	x.unnoticed, x.doubted, x.doubt = false, true, x.real
	x.since = max(x.since, x.now.since)
}

// ahead is a worker that has heard of calls that the data does not know.
func (x *explorer) ahead() *exploreWorker {
	for _, w := range x.workers {
		beat := x.now.workers[w.name]
		if w.heard > parse(beat[strings.LastIndexByte(beat, ' ')+1:]) {
			return w
		}
	}
	return nil
}

// reconcile is what a worker does that was told of a loss: it gives back what it has out by what Redis says, and knows nothing of.
func (x *explorer) reconcile(w *exploreWorker) {
	owned, err := w.outlet.Owned(x.ctx)
	x.must(err == nil, "owned: %v", err)
	var verdicts []queue.Verdict
	for _, ref := range sortedKeys(owned) {
		if !x.knows(w.name, ref, owned[ref]) {
			verdicts = append(verdicts, queue.Verdict{Ref: ref, Stamp: owned[ref], Outcome: queue.Back})
		}
	}
	x.settle(w, verdicts, noFault)
}
