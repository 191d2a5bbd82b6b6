package bridge

import "testing"

func TestFinals(t *testing.T) {
	t.Parallel()
	var f finals
	if f.has(1) {
		t.Error("a message is final before any was")
	}
	f.add(1)
	f.add(2)
	f.add(1 + doneMost) // in the place of the first
	for seq, want := range map[uint64]bool{1: false, 2: true, 3: false, 1 + doneMost: true} {
		if f.has(seq) != want {
			t.Errorf("message %d is final: %v, want %v", seq, f.has(seq), want)
		}
	}
}
