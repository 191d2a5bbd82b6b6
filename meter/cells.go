package meter

import (
	"strings"
	"sync"
	"sync/atomic"
)

// cell is the meter of one key, under a lock of its own. It is one line of the processor's cache, and all that a check of a bucket
// reads when the key is as short as most are: a check of many keys is mostly a wait for memory.
type cell struct {
	mu    sync.Mutex
	size  atomic.Uint32 // of the key; 0 while the cell is free. Written last
	gone  bool          // its meter is no longer here
	short [shortKey]byte
	state
}

const shortKey = 19

// is tells whether it is the cell of a key of so many bytes.
func (c *cell) is(key string) bool {
	if len(key) <= shortKey {
		return string(c.short[:len(key)]) == key
	}
	return string(c.short[:]) == key[:shortKey] && c.long == key
}

// begin gives a free cell to a key. A key that is not short is written with the first cell and read without a lock ever after.
func (c *cell) begin(key string, s state) {
	if copy(c.short[:], key) < len(key) && (s.more == nil || s.long == "") {
		if s.more == nil {
			s.more = &more{}
		}
		s.long = strings.Clone(key) // it may be a part of something larger
	}
	c.state = s
	c.size.Store(uint32(len(key))) //nolint:gosec // at most longestKey
}

// shard has some of the cells of a table: a hash table with open addressing that is read without a lock. A cell is given away
// once. What is to leave becomes gone, and the cells are made anew without it; what is to stay moves, and is gone where it was.
type shard struct {
	mu    sync.Mutex // of those who add, remove or move cells
	used  int
	cells atomic.Pointer[[]cell]
	_     [40]byte // a cache line of its own
}

// find returns the cell of a key, or nil. Unless the caller has the shard's lock, it may be gone by now.
func (s *shard) find(hash uint64, key string) *cell {
	all := s.cells.Load()
	if all == nil {
		return nil
	}
	cells := *all
	for i := first(hash, cells); ; i = next(i, cells) {
		c := &cells[i]
		switch c.size.Load() {
		case 0:
			return nil
		case uint32(len(key)): //nolint:gosec // at most longestKey
			if c.is(key) {
				return c
			}
		}
	}
}

// lock returns the locked cell of a key, or nil.
func (s *shard) lock(hash uint64, key string) *cell {
	c := s.find(hash, key)
	if c == nil {
		return nil
	}
	c.mu.Lock()
	if !c.gone {
		return c
	}
	c.mu.Unlock()
	s.mu.Lock() // it is moving
	defer s.mu.Unlock()
	if c = s.find(hash, key); c != nil {
		c.mu.Lock()
	}
	return c
}

// There are cells for a power of two, and a fourth of them is free. The low bits of the hash have chosen the shard.
func first(hash uint64, cells []cell) int { return int(hash/shardCount) & (len(cells) - 1) } //nolint:gosec // only bits
func next(i int, cells []cell) int        { return (i + 1) & (len(cells) - 1) }

func free(hash uint64, cells []cell) *cell {
	i := first(hash, cells)
	for cells[i].size.Load() != 0 {
		i = next(i, cells)
	}
	return &cells[i]
}

// key of a cell, as find is asked for it.
func (c *cell) key() string {
	if n := int(c.size.Load()); n <= shortKey {
		return string(c.short[:n])
	}
	return c.long
}

// keep adds the cell of a key that has none. It needs the shard's lock, and no lock of a cell.
func (t *table) keep(s *shard, hash uint64, key string, st state) {
	if all := s.cells.Load(); all == nil || 4*(s.used+1) > 3*len(*all) {
		t.renew(s, s.used+1)
	}
	s.used++
	free(hash, *s.cells.Load()).begin(key, st)
}

// renew moves all cells of a shard that are not gone, to where there is room for n.
func (t *table) renew(s *shard, n int) {
	size := 8
	for 3*size < 4*n {
		size *= 2
	}
	cells := make([]cell, size)
	if old := s.cells.Load(); old != nil {
		for i := range *old {
			c := &(*old)[i]
			if c.size.Load() == 0 || c.gone {
				continue
			}
			c.mu.Lock()
			c.gone = true
			key := c.key()
			free(t.hash(key), cells).begin(key, c.state)
			c.mu.Unlock()
		}
	}
	s.cells.Store(&cells)
}

// collect forgets the cells of a shard that have said nothing since a time, and tells how many. It needs the shard's lock.
func (t *table) collect(s *shard, since int64) int {
	all := s.cells.Load()
	if all == nil {
		return 0
	}
	n := 0
	for i := range *all {
		c := &(*all)[i]
		c.mu.Lock()
		if c.size.Load() != 0 && c.until <= since {
			c.gone = true
			n++
		}
		c.mu.Unlock()
	}
	if n > 0 {
		s.used -= n
		t.renew(s, s.used)
		t.keys.Add(-int64(n))
	}
	return n
}
