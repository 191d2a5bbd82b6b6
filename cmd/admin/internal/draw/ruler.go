package draw

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"time"
)

// Ruler draws how exactly a bucket kept its pace in the last minute: the slots as ticks along the bottom, and on them each
// start, as high as it was late.
type Ruler struct {
	// Until is the right end, now; Window is how much time it shows.
	Until  time.Time
	Window time.Duration
	// Interval is T, and Fresh the lateness up to which a start is good (law 3: G).
	Interval, Fresh time.Duration
	Starts          []Start
	// Backs are the slots of departures that went back to the bucket: rings around them.
	Backs []time.Time
	// Text says the same in words, for who does not see it.
	Text string
}

// Start is one start of a handler, and the slot it belongs to.
type Start struct{ Due, Started time.Time }

// Lateness is the start seen from its slot.
func (s Start) Lateness() time.Duration { return s.Started.Sub(s.Due) }

// The geometry of a ruler, in units of its view box.
const (
	rulerWidth  = 1000.0
	rulerBottom = 92.0 // where the slots are
	rulerTop    = 14.0 // where the latest start is
	rulerSlots  = 240  // more than these are drawn as a strip
	stripParts  = 120
)

type rulerMark struct {
	X, Y   float64
	Late   bool
	Points string // of the mark of a late one
	Title  string
}

type rulerBar struct {
	X, Y, Width, Height float64
	Over                bool
}

type rulerShape struct {
	Ruler
	Slots  []float64 // without a start
	Used   []float64
	Marks  []rulerMark
	Rings  []float64
	Bars   []rulerBar
	Strip  bool
	GoodY  float64 // the height of Fresh
	IdealY float64 // of a strip: as many starts as the rate gives
	Bottom float64
}

// SVG draws it: as a strip of densities where the slots would lie too close together to tell one from the other.
func (r Ruler) SVG() template.HTML {
	shape := rulerShape{Ruler: r, Bottom: rulerBottom}
	if r.Dense() {
		shape.strip()
	} else {
		shape.slots()
		shape.marks()
		for _, t := range r.Backs {
			if r.shows(t) {
				shape.Rings = append(shape.Rings, r.x(t))
			}
		}
	}
	return render(rulerTemplate, shape)
}

// Dense tells whether it is drawn as a strip of densities.
func (r Ruler) Dense() bool {
	return r.Interval <= 0 || float64(r.Window)/float64(r.Interval) > rulerSlots || len(r.Starts) > rulerSlots
}

func (r Ruler) x(t time.Time) float64 {
	return round(rulerWidth - share(r.Until.Sub(t), r.Window)*rulerWidth)
}

func (r Ruler) shows(t time.Time) bool { return !t.Before(r.Until.Add(-r.Window)) && !t.After(r.Until) }

// slots are the dues of the starts, and those an interval apart between them that nothing started on.
func (s *rulerShape) slots() {
	starts := slices.Clone(s.Starts)
	slices.SortFunc(starts, func(a, b Start) int { return a.Due.Compare(b.Due) })
	for i, start := range starts {
		if s.shows(start.Due) {
			s.Used = append(s.Used, s.x(start.Due))
		}
		next := s.Until
		if i+1 < len(starts) {
			next = starts[i+1].Due
		}
		// Half an interval is left out before the next: what comes late begins a new chain of slots there.
		for t := start.Due.Add(s.Interval); t.Add(s.Interval / 2).Before(next); t = t.Add(s.Interval) {
			if s.shows(t) {
				s.Slots = append(s.Slots, s.x(t))
			}
		}
	}
}

// marks are the starts. Those that are late have another shape.
func (s *rulerShape) marks() {
	worst := 2 * s.Fresh
	for _, start := range s.Starts {
		worst = max(worst, start.Lateness())
	}
	y := func(late time.Duration) float64 {
		return round(rulerBottom - share(late, worst)*(rulerBottom-rulerTop))
	}
	s.GoodY = y(s.Fresh)
	for _, start := range s.Starts {
		if !s.shows(start.Started) {
			continue
		}
		m := rulerMark{X: s.x(start.Started), Y: y(start.Lateness()), Late: start.Lateness() > s.Fresh}
		m.Points = fmt.Sprintf("%g,%g %g,%g %g,%g", m.X, m.Y-7, m.X+6, m.Y+5, m.X-6, m.Y+5)
		m.Title = fmt.Sprintf("%s, %.1f ms late", start.Started.UTC().Format("15:04:05.000"), float64(start.Lateness().Microseconds())/1000)
		s.Marks = append(s.Marks, m)
	}
}

// strip counts the starts part by part, against what the rate gives in that time.
func (s *rulerShape) strip() {
	s.Strip = true
	var counts [stripParts]int
	for _, start := range s.Starts {
		if s.shows(start.Started) {
			part := int(share(s.Window-s.Until.Sub(start.Started), s.Window) * stripParts)
			counts[min(part, stripParts-1)]++
		}
	}
	ideal := 0.0
	if s.Interval > 0 {
		ideal = float64(s.Window) / stripParts / float64(s.Interval)
	}
	most := max(1, ideal*1.3, float64(slices.Max(counts[:])))
	height := func(n float64) float64 { return round(n / most * (rulerBottom - rulerTop)) }
	s.IdealY = rulerBottom - height(ideal)
	for i, n := range counts {
		if n > 0 {
			h := height(float64(n))
			s.Bars = append(s.Bars, rulerBar{round(float64(i) * rulerWidth / stripParts), rulerBottom - h, round(rulerWidth/stripParts - 1), h, float64(n) > ideal+1.5})
		}
	}
}

func round(v float64) float64 { return math.Round(v*10) / 10 }

//nolint:gochecknoglobals // a constant, but for its type
var rulerTemplate = template.Must(template.New("ruler").Parse(`<svg class="ruler" viewBox="0 0 1000 104" role="img" aria-labelledby="ruler-text" focusable="false">
<title id="ruler-text">{{.Text}}</title>
{{- $bottom := .Bottom}}
<line class="axis" x1="0" x2="1000" y1="{{$bottom}}" y2="{{$bottom}}"></line>
{{- if .Strip}}
{{- range .Bars}}
<rect class="bar{{if .Over}} over{{end}}" x="{{.X}}" y="{{.Y}}" width="{{.Width}}" height="{{.Height}}"></rect>
{{- end}}
<line class="ideal" x1="0" x2="1000" y1="{{.IdealY}}" y2="{{.IdealY}}"></line>
{{- else}}
{{- if .Marks}}<line class="good" x1="0" x2="1000" y1="{{.GoodY}}" y2="{{.GoodY}}"></line>{{end}}
{{- range .Slots}}
<line class="slot" x1="{{.}}" x2="{{.}}" y1="{{$bottom}}" y2="100"></line>
{{- end}}
{{- range .Used}}
<line class="slot used" x1="{{.}}" x2="{{.}}" y1="84" y2="100"></line>
{{- end}}
{{- range .Rings}}
<circle class="back" cx="{{.}}" cy="{{$bottom}}" r="6"></circle>
{{- end}}
{{- range .Marks}}
<g class="start{{if .Late}} late{{end}}"><title>{{.Title}}</title><line x1="{{.X}}" x2="{{.X}}" y1="{{.Y}}" y2="{{$bottom}}"></line>
{{- if .Late}}<polygon points="{{.Points}}"></polygon>{{else}}<circle cx="{{.X}}" cy="{{.Y}}" r="4.5"></circle>{{end}}</g>
{{- end}}
{{- end}}
</svg>`))
