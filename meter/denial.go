package meter

import (
	"hash/maphash"
	"strings"
	"sync"
	"time"
)

const denialShards = 64

// denials remembers refusals until their retry-after. It is exact: a refused cost does not conform before that, since
// whatever else happens meanwhile takes more, but for refunds, settlements and resets, which forget the refusal. The time
// is counted from before the question was sent, so that it never ends later here than in the store. A nil one has nothing to
// forget.
type denials struct {
	began  time.Time
	seed   maphash.Seed
	shards [denialShards]denialShard
}

type denialShard struct {
	mu     sync.Mutex
	most   int
	forgot uint64 // how often a key of the shard was forgotten
	keys   map[string]*denial
}

// denial is a refusal. It is not changed any more.
type denial struct {
	cost        int64
	sent, until time.Duration // since began
	answer      answer
}

// ticket is the time before a question is sent, and what had been forgotten by then.
type ticket struct {
	sent   time.Duration
	forgot uint64
}

func newDenials(most int) *denials {
	d := &denials{began: time.Now(), seed: maphash.MakeSeed()}
	for i := range d.shards {
		d.shards[i].most = (most + denialShards - 1) / denialShards
		d.shards[i].keys = map[string]*denial{}
	}
	return d
}

// shard returns the locked shard of a key.
func (d *denials) shard(key string) *denialShard {
	s := &d.shards[maphash.String(d.seed, key)%denialShards]
	s.mu.Lock()
	return s
}

// find gives the refusal of the same cost, as of now: what is left of its times is rounded up.
func (d *denials) find(key string, cost int64, a *answer) bool {
	now := time.Since(d.began)
	s := d.shard(key)
	known := s.keys[key]
	s.mu.Unlock()
	if known == nil || known.cost != cost || now >= known.until {
		return false
	}
	passed := (now - known.sent).Microseconds()
	a.verdict, a.remaining, a.at = known.answer.verdict, known.answer.remaining, known.answer.at
	a.retry = known.answer.retry - passed
	a.reset = max(a.retry, known.answer.reset-passed)
	return true
}

func (d *denials) ticket(key string) ticket {
	s := d.shard(key)
	defer s.mu.Unlock()
	return ticket{time.Since(d.began), s.forgot}
}

// remember keeps a refusal, unless its key may have been forgotten since the ticket was drawn. The refusal of a smaller
// cost is kept before that of a larger one.
func (d *denials) remember(t ticket, key string, cost int64, refusal answer) {
	s := d.shard(key)
	defer s.mu.Unlock()
	known, ok := s.keys[key]
	switch {
	case s.forgot != t.forgot:
		return
	case ok && known.cost < cost && known.until > time.Since(d.began):
		return
	case !ok && !s.room(time.Since(d.began)):
		return
	}
	s.keys[strings.Clone(key)] = &denial{cost, t.sent, t.sent + micros(refusal.retry), refusal}
}

// room drops what is over when the shard is full, and tells whether one more fits.
func (s *denialShard) room(now time.Duration) bool {
	if len(s.keys) < s.most {
		return true
	}
	for key, known := range s.keys {
		if known.until <= now {
			delete(s.keys, key)
		}
	}
	return len(s.keys) < s.most
}

func (d *denials) forget(key string) {
	if d == nil {
		return
	}
	s := d.shard(key)
	defer s.mu.Unlock()
	s.forgot++
	delete(s.keys, key)
}
