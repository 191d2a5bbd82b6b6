package draw

import (
	"html/template"
	"math"
)

// Shapes of a [Bucket], besides those that only say what closes it.
const (
	Open     = "open"
	Paused   = "paused"   // a bar across the tap
	Held     = "held"     // an hourglass
	Draining = "draining" // a lid
	Sick     = "sick"     // a crack
	Stalled  = "stalled"  // a warning, and a dry tap
	Unread   = "unread"   // an empty outline
)

// Bucket is a vessel: water up to the level, a line where it stood highest, what flows in and out, and what spills over.
type Bucket struct {
	// ID begins the ids of its elements; it must be safe in HTML.
	ID string
	// Label is the text alternative.
	Label string
	// Shape is one of the shapes above.
	Shape                 string
	Level, Capacity, High int
	// In, Out and Rate are per second; the tap is as wide as the rate.
	In, Out, Rate float64
	// Spills: it rejects.
	Spills bool
}

// The vessel inside, in the units of the drawing. Water that jobs coming back added above the capacity reaches over the rim.
const (
	brim, floor = 32.0, 104.0
	tapWidth    = 10.0
	centre      = 60.0
	most        = 1.08
)

// at is how high a level stands.
func (b Bucket) at(level int) float64 {
	full := min(most, float64(level)/float64(max(1, b.Capacity)))
	return floor - full*(floor-brim)
}

// width of a flow: as wide as the tap at the rate, at most somewhat wider, and never too thin to be seen.
func (b Bucket) width(flow float64) float64 {
	if flow <= 0 || b.Rate <= 0 || math.IsNaN(flow) {
		return 0
	}
	return max(1.5, min(1.6, flow/b.Rate)*tapWidth)
}

// flows tells whether water may leave.
func (b Bucket) flows() bool { return b.Shape == Open || b.Shape == Draining }

// form is what of a drawing changes, in the units of the drawing.
type form struct {
	class, label              string
	surface, high, in, stream float64
}

func (b Bucket) form() form {
	f := form{class: "vessel is-" + b.Shape, label: b.Label, surface: b.at(b.Level), high: b.at(b.High), in: b.width(b.In)}
	if b.flows() {
		f.stream = min(tapWidth, b.width(b.Out))
	}
	if b.Spills {
		f.class += " spills"
	}
	if f.stream > 0 {
		f.class += " flows"
	}
	if b.High > b.Level {
		f.class += " was-higher"
	}
	return f
}

// Attributes are those of the drawing that change, by element.
func (b Bucket) Attributes() Attributes { return b.Since(Bucket{}) }

// Since are the attributes that are not as they were in an earlier drawing; all of them if that was of another bucket.
func (b Bucket) Since(earlier Bucket) Attributes {
	is, was, at := b.form(), earlier.form(), Attributes{}
	anew := b.ID != earlier.ID
	if anew || is.class != was.class || is.label != was.label {
		at[b.ID] = map[string]string{"class": is.class, "aria-label": is.label}
	}
	if anew || is.surface != was.surface {
		at[b.ID+"-water"] = map[string]string{"y": coordinate(is.surface), "height": coordinate(floor - is.surface)}
		at[b.ID+"-top"] = map[string]string{"y": coordinate(is.surface - 0.8)}
	}
	if anew || is.high != was.high {
		at[b.ID+"-high"] = map[string]string{"transform": "translate(0 " + coordinate(is.high) + ")"}
	}
	if anew || is.in != was.in || is.surface != was.surface {
		at[b.ID+"-in"] = map[string]string{"x": coordinate(centre - is.in/2), "width": coordinate(is.in), "height": coordinate(is.surface - 2)}
	}
	if anew || is.stream != was.stream {
		at[b.ID+"-stream"] = map[string]string{"x": coordinate(centre - is.stream/2), "width": coordinate(is.stream)}
	}
	return at
}

// SVG draws it.
func (b Bucket) SVG() template.HTML {
	return render(bucketTemplate, struct {
		ID string
		At Attributes
	}{b.ID, b.Attributes()})
}

//nolint:gochecknoglobals // a constant, but for its type
var bucketTemplate = template.Must(template.New("bucket").Funcs(template.FuncMap{
	"of": func(at Attributes, id, part, name string) string { return at[id+part][name] },
}).Parse(`<svg id="{{.ID}}" class="{{of .At .ID "" "class"}}" viewBox="0 0 120 140" role="img" aria-label="{{of .At .ID "" "aria-label"}}">
<rect class="glass" x="26" y="32" width="68" height="72"/>
<rect id="{{.ID}}-in" class="in" x="{{of .At .ID "-in" "x"}}" y="2" width="{{of .At .ID "-in" "width"}}" height="{{of .At .ID "-in" "height"}}"/>
<rect id="{{.ID}}-water" class="water" x="26" width="68" y="{{of .At .ID "-water" "y"}}" height="{{of .At .ID "-water" "height"}}"/>
<rect id="{{.ID}}-top" class="top" x="26" width="68" y="{{of .At .ID "-top" "y"}}" height="1.6"/>
<path class="ticks" d="M27 50h7M27 68h10M27 86h7"/>
<g id="{{.ID}}-high" class="high" transform="{{of .At .ID "-high" "transform"}}"><path class="dashes" d="M26 0H97"/><path class="flag" d="M96 0l8-4.5v9z"/></g>
<rect id="{{.ID}}-stream" class="stream" x="{{of .At .ID "-stream" "x"}}" y="104" width="{{of .At .ID "-stream" "width"}}" height="36"/>
<path class="drops" d="M60 108v32"/>
<path class="spill" d="M24 29C14 29 13 38 13 50V92M96 29C106 29 107 38 107 50V92"/>
<path class="spilt" d="M13 97v5M13 108v3M107 97v5M107 108v3"/>
<path class="wall" d="M20 27L26 32V101Q26 104 29 104H54V116M66 116V104H91Q94 104 94 101V32L100 27"/>
<g class="lid"><path d="M15 18H105V25H15Z"/><path d="M52 10H68V18H52Z"/></g>
<g class="bar"><path d="M46 117H74V123H46Z"/><path d="M74 120H86M86 115V125"/></g>
<g class="sign pause"><path d="M49 53H57V83H49ZM63 53H71V83H63Z"/></g>
<g class="sign hourglass"><path d="M46 50H74M46 86H74M50 50C50 60 58 62 58 68C58 74 50 76 50 86M70 50C70 60 62 62 62 68C62 74 70 76 70 86"/></g>
<g class="sign warning"><path d="M60 49L80 84H40Z"/><path d="M60 61V72M60 77V79"/></g>
<g class="sign crack"><path d="M42 28L51 44L44 56L57 68L48 82L55 104"/></g>
</svg>`))
