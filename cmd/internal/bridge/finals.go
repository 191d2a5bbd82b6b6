package bridge

// doneMost is how many messages are remembered as final, in case their acknowledgement was lost.
const doneMost = 8192

// finals remembers the last messages that became final.
type finals struct {
	known map[uint64]struct{}
	ring  []uint64
	next  int
}

func (f *finals) has(seq uint64) bool {
	_, ok := f.known[seq]
	return ok
}

func (f *finals) add(seq uint64) {
	if f.known == nil {
		f.known, f.ring = map[uint64]struct{}{}, make([]uint64, doneMost)
	}
	delete(f.known, f.ring[f.next])
	f.ring[f.next] = seq
	f.known[seq] = struct{}{}
	f.next = (f.next + 1) % doneMost
}
