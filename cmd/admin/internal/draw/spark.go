package draw

import (
	"html/template"
	"math"
	"strings"
)

// Spark is a small line of what was: points of the same distance, oldest first, NaN where nobody knows.
type Spark struct {
	ID, Label string
	Points    []float64
}

const sparkWidth, sparkHeight = 120.0, 26.0

// Path is the line, and the area below it.
func (s Spark) Path() (line, area string) {
	highest := 0.0
	for _, p := range s.Points {
		if !math.IsNaN(p) {
			highest = max(highest, p)
		}
	}
	if highest == 0 {
		highest = 1
	}
	var l, a strings.Builder
	began := math.NaN()
	var x float64
	for i, p := range s.Points {
		if math.IsNaN(p) {
			began = endArea(&a, began, x)
			continue
		}
		x = sparkWidth * float64(i) / float64(max(1, len(s.Points)-1))
		y := sparkHeight - 2 - p/highest*(sparkHeight-4)
		point := coordinate(x) + " " + coordinate(y)
		if math.IsNaN(began) {
			began = x
			l.WriteString("M" + point)
			a.WriteString("M" + coordinate(x) + " " + coordinate(sparkHeight) + "L" + point)
			continue
		}
		l.WriteString("L" + point)
		a.WriteString("L" + point)
	}
	endArea(&a, began, x)
	return l.String(), a.String()
}

func endArea(a *strings.Builder, began, x float64) float64 {
	if !math.IsNaN(began) {
		a.WriteString("L" + coordinate(x) + " " + coordinate(sparkHeight) + "Z")
	}
	return math.NaN()
}

// Attributes are those that change.
func (s Spark) Attributes() Attributes {
	line, area := s.Path()
	return Attributes{s.ID: {"aria-label": s.Label}, s.ID + "-line": {"d": line}, s.ID + "-area": {"d": area}}
}

// SVG draws it.
func (s Spark) SVG() template.HTML {
	line, area := s.Path()
	return render(sparkTemplate, map[string]string{"ID": s.ID, "Label": s.Label, "Line": line, "Area": area})
}

//nolint:gochecknoglobals // a constant, but for its type
var sparkTemplate = template.Must(template.New("spark").Parse(
	`<svg id="{{.ID}}" class="spark" viewBox="0 0 120 26" preserveAspectRatio="none" role="img" aria-label="{{.Label}}"><path id="{{.ID}}-area" class="area" d="{{.Area}}"/><path id="{{.ID}}-line" class="line" d="{{.Line}}"/></svg>`))
