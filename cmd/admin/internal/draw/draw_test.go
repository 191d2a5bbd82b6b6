package draw_test

import (
	"encoding/xml"
	"errors"
	"io"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/spout-queue/spout/cmd/admin/internal/draw"
)

// elements of a drawing by id, with their attributes; the drawing must be well-formed.
func elements(t *testing.T, drawing string) map[string]map[string]string {
	t.Helper()
	found := map[string]map[string]string{}
	d := xml.NewDecoder(strings.NewReader(drawing))
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("%v in %s", err, drawing)
		}
		start, ok := token.(xml.StartElement)
		if !ok {
			continue
		}
		at := map[string]string{}
		for _, a := range start.Attr {
			at[a.Name.Local] = a.Value
		}
		if at["style"] != "" || start.Name.Local == "style" || start.Name.Local == "script" {
			t.Errorf("%s has what the policy forbids", start.Name.Local)
		}
		if at["id"] != "" {
			found[at["id"]] = at
		}
	}
}

// What is told to have changed is what a new drawing would have.
func same(t *testing.T, drawing string, told draw.Attributes) {
	t.Helper()
	drawn := elements(t, drawing)
	for id, attributes := range told {
		for name, value := range attributes {
			if got, ok := drawn[id][name]; !ok || got != value {
				t.Errorf("%s of %s is drawn as %q and told as %q", name, id, got, value)
			}
		}
	}
}

func TestBucket(t *testing.T) {
	t.Parallel()
	b := draw.Bucket{ID: "x", Label: `<b>"&'`, Shape: draw.Open, Level: 5, Capacity: 10, High: 8, In: 2, Out: 1, Rate: 2}
	same(t, string(b.SVG()), b.Attributes())
	at := b.Attributes()
	for id, want := range map[string]map[string]string{
		"x":        {"class": "vessel is-open flows was-higher", "aria-label": `<b>"&'`},
		"x-water":  {"y": "68", "height": "36"},
		"x-high":   {"transform": "translate(0 46.4)"},
		"x-in":     {"width": "10", "x": "55", "height": "66"},
		"x-stream": {"width": "5", "x": "57.5"},
	} {
		for name, value := range want {
			if at[id][name] != value {
				t.Errorf("%s of %s is %q, want %q", name, id, at[id][name], value)
			}
		}
	}
	for name, c := range map[string]struct {
		b      draw.Bucket
		class  string
		stream string
	}{
		"empty":       {draw.Bucket{Shape: draw.Open, Capacity: 10, Rate: 1}, "vessel is-open", "0"},
		"rejecting":   {draw.Bucket{Shape: draw.Open, Level: 10, Capacity: 10, High: 10, Out: 1, Rate: 1, Spills: true}, "vessel is-open spills flows", "10"},
		"paused":      {draw.Bucket{Shape: draw.Paused, Level: 1, Capacity: 10, High: 1, Out: 1, Rate: 1}, "vessel is-paused", "0"},
		"draining":    {draw.Bucket{Shape: draw.Draining, Level: 1, Capacity: 10, High: 1, Out: 9, Rate: 1}, "vessel is-draining flows", "10"},
		"stalled":     {draw.Bucket{Shape: draw.Stalled, Level: 1, Capacity: 10, High: 1, Out: 1, Rate: 1}, "vessel is-stalled", "0"},
		"a trickle":   {draw.Bucket{Shape: draw.Open, Capacity: 10, Out: 0.001, Rate: 1}, "vessel is-open flows", "1.5"},
		"not a rate":  {draw.Bucket{Shape: draw.Open, Capacity: 10, Out: math.NaN(), Rate: 1}, "vessel is-open", "0"},
		"no capacity": {draw.Bucket{Shape: draw.Unread}, "vessel is-unread", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c.b.ID = "y"
			same(t, string(c.b.SVG()), c.b.Attributes())
			if at := c.b.Attributes(); at["y"]["class"] != c.class || at["y-stream"]["width"] != c.stream {
				t.Errorf("%q with a stream of %s, want %q and %s", at["y"]["class"], at["y-stream"]["width"], c.class, c.stream)
			}
		})
	}
	// Of another state is told what is not as it was.
	fuller := b
	fuller.Level, fuller.Label = 6, "fuller"
	told := fuller.Since(b)
	for id, attributes := range fuller.Attributes() {
		for name, value := range attributes {
			if got, ok := told[id][name]; ok != (value != at[id][name]) && id != "x" && id != "x-in" || ok && got != value {
				t.Errorf("%s of %s, %q, is told as %q (%v)", name, id, value, got, ok)
			}
		}
	}
	if told := b.Since(b); len(told) != 0 || len(b.Since(draw.Bucket{ID: "other"})) != len(at) {
		t.Errorf("nothing changed, and %v is told", told)
	}
	// A level above the capacity reaches over the rim, and no further.
	a := draw.Bucket{ID: "y", Level: 11, Capacity: 10}.Attributes()["y-water"]["y"]
	z := draw.Bucket{ID: "y", Level: 1e6, Capacity: 10}.Attributes()["y-water"]["y"]
	if a != z || a >= "32" {
		t.Errorf("11 of 10 stands at %s, a million at %s", a, z)
	}
}

func TestGrid(t *testing.T) {
	t.Parallel()
	cells := make([]draw.Cell, 45) // 40 in a row
	for i := range cells {
		cells[i] = draw.Cell{Used: i != 1, Level: draw.LevelOf(1)}
	}
	cells[2] = draw.Cell{Used: true, Closed: true, Rejecting: true}
	g := draw.Grid{ID: "g", Label: `<x>`, Cells: cells}
	same(t, string(g.SVG()), g.Attributes())
	at := g.Attributes()
	for id, want := range map[string]string{
		"g-0-0": "M48 0h24v24h-24z", "g-0-6": "M0 0h24v24h-24zM72 0h888v24h-888z", "g-1-6": "M0 24h120v24h-120z", "g-0-3": "",
		"g-0-8": "M50 2l20 20m0-20l-20 20", "g-0-7": "M49 1h21v4h-21z",
	} {
		if at[id]["d"] != want {
			t.Errorf("%s is %q, want %q", id, at[id]["d"], want)
		}
	}
	if g.Columns() != 40 || g.Shape() != "24x2" {
		t.Errorf("%d columns, %s", g.Columns(), g.Shape())
	}
	many := draw.Grid{ID: "g", Cells: make([]draw.Cell, 20_000)}
	for i := range many.Cells {
		many.Cells[i] = draw.Cell{Used: true, Level: draw.LevelOf(float64(i%7) / 6), Closed: i%100 == 0}
	}
	if n := len(many.SVG()); n > 600_000 {
		t.Errorf("20,000 cells take %d bytes", n)
	}
	same(t, string(many.SVG()), many.Attributes())
	same(t, string(draw.Grid{ID: "e"}.SVG()), draw.Grid{ID: "e"}.Attributes())
}

// Of a grid only the bands are told in which something changed.
func TestGridSince(t *testing.T) {
	t.Parallel()
	before := draw.Grid{ID: "g", Label: "l", Cells: make([]draw.Cell, 5000)}
	for i := range before.Cells {
		before.Cells[i] = draw.Cell{Used: true}
	}
	if told := before.Since(before); len(told) != 0 {
		t.Errorf("nothing changed, and %d are told", len(told))
	}
	after := before
	after.Cells = slices.Clone(before.Cells)
	after.Cells[4321].Level = 6
	told := after.Since(before)
	all := after.Attributes()
	if len(told) == 0 || len(told) > len(all)/10 {
		t.Errorf("%d of %d are told for one cell", len(told), len(all))
	}
	for id, attributes := range before.Attributes() {
		if changed := all[id]["d"] != attributes["d"]; changed && told[id]["d"] != all[id]["d"] {
			t.Errorf("%s changed and is told as %q", id, told[id]["d"])
		}
	}
	larger := draw.Grid{ID: "g", Label: "l", Cells: make([]draw.Cell, 9000)}
	if told := larger.Since(before); len(told) != len(larger.Attributes()) {
		t.Errorf("%d are told of a grid of another shape", len(told))
	}
	more := after
	more.Cells = append(slices.Clone(after.Cells), draw.Cell{Used: true})
	if told := more.Since(after); more.Shape() != after.Shape() || len(told) == 0 || len(told) > len(all)/10 {
		t.Errorf("%d are told for one cell more", len(told))
	}
}

func TestLevelOf(t *testing.T) {
	t.Parallel()
	for pressure, want := range map[float64]uint8{-1: 0, 0: 0, 0.01: 1, 0.2: 2, 0.5: 3, 0.99: 5, 1: 6, 7: 6} {
		if got := draw.LevelOf(pressure); got != want {
			t.Errorf("%v is drawn as %d, want %d", pressure, got, want)
		}
	}
}

func TestSpark(t *testing.T) {
	t.Parallel()
	nan := math.NaN()
	for name, c := range map[string]struct {
		points     []float64
		line, area string
	}{
		"nothing":    {nil, "", ""},
		"not known":  {[]float64{nan, nan}, "", ""},
		"one":        {[]float64{3}, "M0 2", "M0 26L0 2L0 26Z"},
		"zero":       {[]float64{0, 0}, "M0 24L120 24", "M0 26L0 24L120 24L120 26Z"},
		"with a gap": {[]float64{1, nan, 2}, "M0 13M120 2", "M0 26L0 13L0 26ZM120 26L120 2L120 26Z"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := draw.Spark{ID: "s", Label: `"><x>`, Points: c.points}
			same(t, string(s.SVG()), s.Attributes())
			if line, area := s.Path(); line != c.line || area != c.area {
				t.Errorf("%q and %q, want %q and %q", line, area, c.line, c.area)
			}
		})
	}
}
