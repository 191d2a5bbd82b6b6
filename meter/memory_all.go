package meter

import (
	"cmp"
	"context"
	"fmt"
	"slices"
)

// all decides under the locks of all shards it needs, which it takes in one order, so that no two callers wait for each
// other.
func (m *memory) all(_ context.Context, claims []claim) ([]answer, error) {
	keepers := make([]*memoryKeeper, len(claims))
	for i, c := range claims {
		k, ok := c.keeper.(*memoryKeeper)
		if !ok {
			return nil, fmt.Errorf("%w: claims of different stores", ErrInvalid)
		}
		keepers[i] = k
	}
	shards := lockAll(keepers, claims)
	defer func() {
		for _, s := range shards {
			s.mu.Unlock()
		}
	}()
	return m.decideAll(keepers, claims)
}

// place of a claim in the order of locks.
type place struct {
	table int
	index uint64
	*shard
}

func lockAll(keepers []*memoryKeeper, claims []claim) []place {
	places := make([]place, len(claims))
	for i, k := range keepers {
		n := k.table.shardOf(claims[i].key)
		places[i] = place{k.table.number, n, &k.table.shards[n]}
	}
	slices.SortFunc(places, func(a, b place) int {
		return cmp.Or(cmp.Compare(a.table, b.table), cmp.Compare(a.index, b.index))
	})
	places = slices.CompactFunc(places, func(a, b place) bool { return a.shard == b.shard })
	for _, p := range places {
		p.mu.Lock()
	}
	return places
}

// decideAll looks at every claim first, and then takes all or asks the refused ones for their penalty. It needs the locks.
func (m *memory) decideAll(keepers []*memoryKeeper, claims []claim) ([]answer, error) {
	now := m.now()
	cells := make([]*state, len(claims))
	fresh := 0
	for i, k := range keepers {
		if cells[i] = k.shard(claims[i].key).cells[claims[i].key]; cells[i] == nil {
			cells[i] = &state{}
			fresh++
		}
	}
	if !m.reserve(int64(fresh)) { // before anything changes
		return nil, m.full(claims[0].key)
	}
	answers, together := make([]answer, len(claims)), true
	for i, k := range keepers {
		k.law.do(cells[i], now, call{op: opPeek, least: claims[i].cost}, &answers[i])
		together = together && (answers[i].verdict == conforming || !claims[i].must)
	}
	for i, k := range keepers {
		if n := claims[i].cost; together || answers[i].verdict == refused {
			answers[i] = answer{}
			k.law.do(cells[i], now, call{op: opTake, least: n, most: n}, &answers[i])
		}
		s, key := k.shard(claims[i].key), claims[i].key
		if cells[i].until > now && s.cells[key] == nil {
			s.keep(key, cells[i])
			fresh--
		}
	}
	m.keys.Add(-int64(fresh))
	return answers, nil
}

func (k *memoryKeeper) shard(key string) *shard { return &k.table.shards[k.table.shardOf(key)] }
