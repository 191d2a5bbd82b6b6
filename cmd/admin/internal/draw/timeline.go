package draw

import (
	"html/template"
	"time"
)

// Timeline draws the life of a job from left to right: thin where it waited, thick where it was out, each end with a mark.
type Timeline struct {
	// ID makes the ids of the drawing's own elements unique on a page; a plain word.
	ID    string
	Spans []Span
	// Until is the right end: now, unless the job has ended. Open says that it goes on from there.
	Until time.Time
	Open  bool
	// Text says the same in words, for who does not see it.
	Text string
}

// Span is one part of a life. Kind is wait, later (delayed or parked), out (departed, not started yet) or run.
type Span struct {
	Kind     string
	From, To time.Time
	// Label is written over it where there is room: few words.
	Label string
	// End is what it ended with: good, bad, back, or nothing.
	End string
}

// The geometry of a timeline, in units of its view box.
const (
	timelineWidth  = 1000.0
	timelineLeast  = 7.0 // so that a short attempt in a long life is seen
	timelineMiddle = 44.0
)

type spanShape struct {
	Kind, Label, End string
	X, Width, Y, H   float64
	EndX             float64
	Middle           float64
}

// SVG draws it.
func (t Timeline) SVG() template.HTML {
	return render(timelineTemplate, struct {
		Timeline
		Shapes []spanShape
		Middle float64
	}{t, t.shapes(), timelineMiddle})
}

// shapes places the spans: by time, each at least as wide as can be seen.
func (t Timeline) shapes() []spanShape {
	if len(t.Spans) == 0 {
		return nil
	}
	total := t.Until.Sub(t.Spans[0].From)
	room := timelineWidth - 20
	shapes, x := make([]spanShape, len(t.Spans)), 0.0
	for i, s := range t.Spans {
		shapes[i] = spanShape{Kind: s.Kind, Label: s.Label, End: s.End, X: x, Width: max(timelineLeast, share(s.To.Sub(s.From), total)*room), Middle: timelineMiddle}
		x += shapes[i].Width
	}
	// The least widths may have made it too wide: then all shrink alike.
	for i, at := 0, 10.0; i < len(shapes); i++ {
		s := &shapes[i]
		if x > 0 {
			s.Width *= room / x
		}
		s.X, at = at, at+s.Width
		s.EndX = at
		s.Y, s.H = timelineMiddle-3, 6
		if s.Kind == "run" || s.Kind == "out" {
			s.Y, s.H = timelineMiddle-11, 22
		}
		if float64(len([]rune(s.Label)))*8 > s.Width {
			s.Label = ""
		}
	}
	return shapes
}

// share is a part of a whole, 0 to 1.
func share(part, whole time.Duration) float64 {
	if whole <= 0 {
		return 0
	}
	return min(1, max(0, float64(part)/float64(whole)))
}

//nolint:gochecknoglobals // a constant, but for its type
var timelineTemplate = template.Must(template.New("timeline").Parse(`<svg class="timeline" viewBox="0 0 1000 88" role="img" aria-labelledby="{{.ID}}-text" focusable="false" preserveAspectRatio="none">
<title id="{{.ID}}-text">{{.Text}}</title>
<line class="axis" x1="10" x2="990" y1="{{.Middle}}" y2="{{.Middle}}"></line>
{{- range .Shapes}}
<rect class="span {{.Kind}}" x="{{.X}}" y="{{.Y}}" width="{{.Width}}" height="{{.H}}"></rect>
{{- if .End}}<line class="end {{.End}}" x1="{{.EndX}}" x2="{{.EndX}}" y1="22" y2="66"></line>{{end}}
{{- end}}
</svg>`))
