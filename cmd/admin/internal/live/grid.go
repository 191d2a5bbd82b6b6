package live

import "time"

// Cell is one bucket in the pressure grid.
type Cell struct {
	// Used tells whether there is one; places of buckets that are gone stay empty until others take them.
	Used bool
	// Pressure is level / capacity.
	Pressure  float64
	Shape     Shape
	Rejecting bool
}

// Grid is all buckets that the sweeps found, each in a place that it keeps.
type Grid struct {
	Cells []Cell
	// Used cells, and Over: buckets that are not in the grid, since there are too many.
	Used, Over int
	// Whole tells whether all buckets were seen at least once.
	Whole bool
}

// Grid draws what the sweeps found for who sees the classes (all when empty); class leaves out others, unless empty.
func (l *Live) Grid(q Query) Grid {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	g := Grid{Cells: make([]Cell, len(l.known.slots)), Whole: l.known.whole, Over: l.known.over()}
	for i, m := range l.known.slots {
		if m != nil && q.takes(m) {
			g.Cells[i] = m.cell(now)
			g.Used++
		}
	}
	return g
}

// Place is a bucket in a cell of the grid.
type Place struct {
	Class, Key      string
	Level, Capacity int
	Cell
}

// At is what is in a place of the grid, false when there is no bucket that the question takes.
func (l *Live) At(q Query, slot int) (Place, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if slot < 0 || slot >= len(l.known.slots) {
		return Place{}, false
	}
	m := l.known.slots[slot]
	if m == nil || !q.takes(m) {
		return Place{}, false
	}
	return Place{m.class, m.key, m.level, m.capacity, m.cell(time.Now())}, true
}

// cell is a bucket as a cell of the grid.
func (m *mark) cell(now time.Time) Cell {
	return Cell{true, m.pressure(), m.shapeNow(), m.rejecting(now)}
}

// Trouble counts the buckets of a class that need somebody, by shape, and those that reject; Example is one of each.
type Trouble struct {
	Count   map[Shape]int
	Example map[Shape]string // key
	// Rejecting buckets, and one of them.
	Rejecting        int
	RejectingExample string
}

// Troubles tells what the sweeps found, by class.
func (l *Live) Troubles() map[string]Trouble {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	all := map[string]Trouble{}
	for _, m := range l.known.slots {
		if m == nil {
			continue
		}
		shape, rejecting := m.shapeNow(), m.rejecting(now)
		if shape == Open && !rejecting {
			continue
		}
		t, ok := all[m.class]
		if !ok {
			t = Trouble{Count: map[Shape]int{}, Example: map[Shape]string{}}
		}
		if shape != Open {
			if t.Count[shape]++; t.Example[shape] == "" || m.key < t.Example[shape] {
				t.Example[shape] = m.key
			}
		}
		if rejecting {
			if t.Rejecting++; t.RejectingExample == "" || m.key < t.RejectingExample {
				t.RejectingExample = m.key
			}
		}
		all[m.class] = t
	}
	return all
}
