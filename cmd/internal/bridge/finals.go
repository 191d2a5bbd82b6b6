package bridge

// doneMost is how many messages are remembered as final, in case their acknowledgement was lost.
const doneMost = 8192

// finals remembers the last messages that became final, each in a place of its own until a later one takes that. Sequences begin
// with 1.
type finals []uint64

func (f finals) has(seq uint64) bool { return f != nil && f[seq%doneMost] == seq }

func (f *finals) add(seq uint64) {
	if *f == nil {
		*f = make(finals, doneMost)
	}
	(*f)[seq%doneMost] = seq
}
