package pages

import (
	"fmt"
	"html/template"

	"github.com/spout-queue/spout/cmd/admin/internal/draw"
	"github.com/spout-queue/spout/cmd/admin/internal/live"
)

// gridPart is the pressure grid.
type gridPart struct {
	live.Grid
	drawing draw.Grid
	Full    int
}

func newGridPart(g live.Grid) *gridPart {
	cells := make([]draw.Cell, len(g.Cells))
	part := &gridPart{Grid: g}
	half, closed, rejecting := 0, 0, 0
	for i, c := range g.Cells {
		cells[i] = draw.Cell{Used: c.Used, Level: draw.LevelOf(c.Pressure), Closed: c.Used && c.Shape != live.Open && c.Shape != live.Draining, Rejecting: c.Rejecting}
		switch {
		case c.Used && c.Pressure >= 1:
			part.Full++
		case c.Pressure >= 0.5:
			half++
		}
		if cells[i].Closed {
			closed++
		}
		if c.Rejecting {
			rejecting++
		}
	}
	part.drawing = draw.Grid{ID: "grid", Cells: cells, Label: fmt.Sprintf(
		"Pressure of %s buckets: %s full, %s at least half full, %s closed, %s rejecting", number(g.Used), number(part.Full), number(half), number(closed), number(rejecting))}
	return part
}

// SVG draws it.
func (g *gridPart) SVG() template.HTML { return g.drawing.SVG() }

// Label is the grid in words.
func (g *gridPart) Label() string { return g.drawing.Label }

func (g *gridPart) version() string {
	if g == nil {
		return ""
	}
	return g.drawing.Shape()
}

// patch says what changed of the grid since an earlier one, nil for all of it.
func (g *gridPart) patch(p patch, earlier *gridPart) {
	if g == nil {
		return
	}
	was := draw.Grid{}
	if earlier != nil {
		was = earlier.drawing
	}
	p.add(g.drawing.Since(was))
	p["grid-words"] = map[string]string{"": g.Label()}
}

// placeText is a cell of the grid in words.
func placeText(b live.Place, there bool) string {
	if !there {
		return "No bucket"
	}
	text := fmt.Sprintf("%s/%s: %s of %s places taken", b.Class, b.Key, number(b.Level), number(b.Capacity))
	if b.Shape != live.Open {
		text += ", " + string(b.Shape)
	}
	if b.Rejecting {
		text += ", rejecting"
	}
	return text
}
