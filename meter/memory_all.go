package meter

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// all decides under the locks of all shards it needs, which it takes in one order, so that no two callers wait for each
// other. They keep cells from coming, moving and going.
func (m *memory) all(_ context.Context, claims []claim) ([]answer, error) {
	places := make([]place, len(claims))
	for i, c := range claims {
		k, ok := c.keeper.(*memoryKeeper)
		if !ok {
			return nil, fmt.Errorf("%w: claims of different stores", ErrInvalid)
		}
		hash := k.table.hash(c.key)
		places[i] = place{memoryKeeper: k, claim: c, hash: hash, shard: k.table.shard(hash)}
	}
	for _, p := range inOrder(places) {
		p.shard.mu.Lock()
		defer p.shard.mu.Unlock()
	}
	fresh := int64(0)
	for i := range places {
		p := &places[i]
		if p.cell = p.shard.find(p.hash, p.key); p.cell == nil {
			fresh++
		}
	}
	if !m.reserve(fresh) { // before anything changes
		return nil, m.full(claims[0].key)
	}
	now := m.now()
	answers := decideAll(places, now)
	for i := range places {
		if p := &places[i]; p.cell == nil && p.fresh.until > now {
			p.table.keep(p.shard, p.hash, p.key, p.fresh)
			fresh--
		}
	}
	m.keys.Add(-fresh)
	return answers, nil
}

// place is where a claim is decided.
type place struct {
	*memoryKeeper
	claim
	hash  uint64
	shard *shard
	cell  *cell // nil when the key has no meter yet
	fresh state // of such a key
}

// inOrder has each shard once, in the order of locks.
func inOrder(places []place) []place {
	shards := slices.Clone(places)
	slices.SortFunc(shards, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.table.number, b.table.number), cmp.Compare(a.hash%shardCount, b.hash%shardCount))
	})
	return slices.CompactFunc(shards, func(a, b place) bool { return a.shard == b.shard })
}

// decideAll looks at every claim first, and then takes all or asks the refused ones for their penalty. It needs the locks of
// the shards: nobody else has two cells without them.
func decideAll(places []place, now int64) []answer {
	states := make([]*state, len(places))
	for i := range places {
		p := &places[i]
		if p.cell == nil {
			states[i] = &p.fresh
			continue
		}
		p.cell.mu.Lock()
		defer p.cell.mu.Unlock()
		states[i] = &p.cell.state
	}
	answers, together := make([]answer, len(places)), true
	for i, p := range places {
		p.law.do(states[i], now, call{op: opPeek, least: p.cost}, &answers[i])
		together = together && (answers[i].verdict == conforming || !p.must)
	}
	for i, p := range places {
		if n := p.cost; together || answers[i].verdict == refused {
			answers[i] = answer{}
			p.law.do(states[i], now, call{op: opTake, least: n, most: n}, &answers[i])
		}
	}
	return answers
}
