package draw

import (
	"html/template"
	"slices"
	"strconv"
)

// Cell is one bucket of a [Grid], or a place without one.
type Cell struct {
	Used              bool
	Level             uint8 // see [LevelOf]
	Closed, Rejecting bool
}

// Grid draws thousands of buckets as cells of one drawing: the fuller, the stronger; a cross for closed ones and a bar for
// those that reject. It is made of bands of some rows: where one cell changes, not all of it is drawn and sent again.
type Grid struct {
	ID, Label string
	Cells     []Cell
}

const (
	gridWidth  = 960
	gridHeight = 300 // unless there are too many cells
	gridBands  = 32  // at most
	gridLevels = 7
)

// LevelOf is how a pressure (1 is full) is drawn: 0 for empty, then by fifths, 6 for full.
func LevelOf(pressure float64) uint8 {
	switch {
	case pressure <= 0:
		return 0
	case pressure >= 1:
		return gridLevels - 1
	}
	return 1 + uint8(pressure*(gridLevels-2))
}

// Size of a cell: the largest with which all have room.
func (g Grid) size() int {
	for _, size := range []int{24, 20, 16, 12, 10, 8} {
		if rows(len(g.Cells), gridWidth/size)*size <= gridHeight {
			return size
		}
	}
	return 6
}

func rows(n, columns int) int { return max(1, (n+columns-1)/columns) }

// Columns of the grid.
func (g Grid) Columns() int { return gridWidth / g.size() }

// Shape changes when the grid must be drawn again.
func (g Grid) Shape() string {
	return strconv.Itoa(g.size()) + "x" + strconv.Itoa(rows(len(g.Cells), g.Columns()))
}

// bands are the cells of each, those of some whole rows.
func (g Grid) bands() [][]Cell {
	columns := g.Columns()
	each := columns * ((rows(len(g.Cells), columns) + gridBands - 1) / gridBands)
	return slices.Collect(slices.Chunk(g.Cells, each))
}

// Attributes are the paths of the cells.
func (g Grid) Attributes() Attributes { return g.Since(Grid{}) }

// Since are the attributes of the bands that are not as they were in an earlier drawing; all of them if that had another shape.
func (g Grid) Since(earlier Grid) Attributes {
	at := Attributes{}
	if g.Label != earlier.Label || len(g.Cells) != len(earlier.Cells) {
		at[g.ID] = map[string]string{"aria-label": g.Label, "data-cells": strconv.Itoa(len(g.Cells))}
	}
	var was [][]Cell
	if earlier.Shape() == g.Shape() {
		was = earlier.bands()
	}
	y, size := 0, g.size()
	for i, cells := range g.bands() {
		if i >= len(was) || !slices.Equal(cells, was[i]) {
			for part, path := range paths(cells, g.Columns(), size, y) {
				at[g.part(i, part)] = map[string]string{"d": path}
			}
		}
		y += rows(len(cells), g.Columns()) * size
	}
	return at
}

// A band is drawn in parts: one for each level, what rejects, and what is closed.
const rejectingPart, closedPart, gridParts = gridLevels, gridLevels + 1, gridLevels + 2

// part is the id of a part of a band.
func (g Grid) part(band, part int) string {
	return g.ID + "-" + strconv.Itoa(band) + "-" + strconv.Itoa(part)
}

// paths draws a band whose first row is at y. Equal cells beside each other are drawn as one.
func paths(cells []Cell, columns, size, y int) (drawn [gridParts]string) {
	var to [gridParts][]byte
	for i := 0; i < len(cells); {
		c, x := cells[i], i%columns
		run := 1
		for x+run < columns && i+run < len(cells) && cells[i+run] == c {
			run++
		}
		top := y + i/columns*size
		if c.Used {
			to[c.Level] = rectangle(to[c.Level], x*size, top, run*size, size)
			for j := x; j < x+run; j++ {
				if c.Rejecting {
					to[rejectingPart] = rectangle(to[rejectingPart], j*size+1, top+1, size-3, max(2, size/5))
				}
				if c.Closed {
					to[closedPart] = cross(to[closedPart], j*size+2, top+2, size-4)
				}
			}
		}
		i += run
	}
	for part, path := range to {
		drawn[part] = string(path)
	}
	return drawn
}

func rectangle(d []byte, x, y, width, height int) []byte {
	d = path(d, "M", x, " ", y)
	return append(path(d, "h", width, "v", height, "h-", width), 'z')
}

func cross(d []byte, x, y, size int) []byte {
	d = path(d, "M", x, " ", y)
	return path(d, "l", size, " ", size, "m0-", size, "l-", size, " ", size)
}

// path appends words and numbers by turns.
func path(d []byte, parts ...any) []byte {
	for _, part := range parts {
		switch part := part.(type) {
		case string:
			d = append(d, part...)
		case int:
			d = strconv.AppendInt(d, int64(part), 10)
		}
	}
	return d
}

// gaps are the lines between the cells.
func gaps(size, height int) string {
	var d []byte
	for x := 0; x <= gridWidth; x += size {
		d = path(d, "M", x, " 0v", height)
	}
	for y := 0; y <= height; y += size {
		d = path(d, "M0 ", y, "h", gridWidth)
	}
	return string(d)
}

// SVG draws it, with a cursor that a script may move.
func (g Grid) SVG() template.HTML {
	size := g.size()
	height := rows(len(g.Cells), g.Columns()) * size
	data := gridDrawing{ID: g.ID, Label: g.Label, Width: gridWidth, Height: height, Size: size, Cells: len(g.Cells), Gaps: gaps(size, height)}
	at := g.Attributes()
	for band := range g.bands() {
		for part := range gridParts {
			id := g.part(band, part)
			p := gridPath{id, "p" + strconv.Itoa(part), at[id]["d"]}
			switch part {
			case rejectingPart:
				p.Class = "rejecting"
				data.Marks = append(data.Marks, p)
			case closedPart:
				p.Class = "closed"
				data.Marks = append(data.Marks, p)
			default:
				data.Fills = append(data.Fills, p)
			}
		}
	}
	return render(gridTemplate, data)
}

type gridDrawing struct {
	ID, Label                  string
	Width, Height, Size, Cells int
	Fills, Marks               []gridPath // below and above the gaps
	Gaps                       string
}

type gridPath struct{ ID, Class, Path string }

//nolint:gochecknoglobals // a constant, but for its type
var gridTemplate = template.Must(template.New("grid").Parse(
	`<svg id="{{.ID}}" class="grid" viewBox="0 0 {{.Width}} {{.Height}}" role="img" aria-label="{{.Label}}" data-size="{{.Size}}" data-width="{{.Width}}" data-cells="{{.Cells}}">
{{range .Fills}}<path id="{{.ID}}" class="{{.Class}}" d="{{.Path}}"/>
{{end}}<path class="gaps" d="{{.Gaps}}"/>
{{range .Marks}}<path id="{{.ID}}" class="{{.Class}}" d="{{.Path}}"/>
{{end}}<rect class="cursor" width="{{.Size}}" height="{{.Size}}"/>
</svg>`))
