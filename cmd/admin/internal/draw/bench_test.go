package draw_test

import (
	"testing"

	"github.com/spout-queue/spout/cmd/admin/internal/draw"
)

// BenchmarkGrid draws 10,000 buckets, as each tab has it once, and then what changed.
func BenchmarkGrid(b *testing.B) {
	g := draw.Grid{ID: "grid", Cells: make([]draw.Cell, 10_000)}
	for i := range g.Cells {
		g.Cells[i] = draw.Cell{Used: true, Level: draw.LevelOf(float64(i%7) / 10)}
	}
	b.ReportAllocs()
	for b.Loop() {
		if len(g.Attributes()) == 0 {
			b.Fatal("nothing is drawn")
		}
	}
}
