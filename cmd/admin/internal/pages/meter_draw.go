package pages

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spout-queue/spout/cmd/admin/internal/playground"
	"github.com/spout-queue/spout/meter"
)

// Measures of a lane's drawing, in its own units: the base line, the height of the area above it, and the width of a span.
const (
	laneBase  = 40.0
	laneArea  = 26.0
	laneWidth = 480.0
)

// meterLane is one algorithm as the page shows it.
type meterLane struct {
	Name, Fits, About string
	State, Kind       string // of the last click: what was said, and conform, refuse or none
	Remaining, Limit  int64
	Used              string // of the bar, in percent
	Reset             string
	Conformed         int
	Refused           int
	// Scroll moves what was drawn to where it belongs by now. Area, Edges, Pass and Stop are paths.
	Scroll, Area, Edges, Pass, Stop string
	Text                            string // of the drawing, for who does not see it
	ID                              string
}

func meterLanes(look playground.Look) []meterLane {
	lanes := make([]meterLane, len(look.Lanes))
	for i, l := range look.Lanes {
		x := across(look)
		about := algorithms(l.Algorithm)
		lanes[i] = meterLane{
			ID: strconv.Itoa(i), Name: string(l.Algorithm), Fits: about.fits, About: about.is,
			Remaining: l.Remaining, Limit: l.Limit, Used: decimal(100 * float64(l.Limit-l.Remaining) / float64(l.Limit)),
			Conformed: l.Conformed, Refused: l.Refused, Reset: resetText(l.ResetAfter),
			Scroll: scroll(look), Area: area(l, x), Edges: edges(look, l.Algorithm), Pass: passes(l, x), Stop: stops(l, x),
			Text: fmt.Sprintf("%s: in the last %s, %d of %d clicks conformed", l.Algorithm, shortDuration(look.Span()), recent(l), len(l.Marks)),
		}
		lanes[i].Kind, lanes[i].State = told(l, look.Now)
	}
	return lanes
}

// patch is what of the lane changes on the page.
func (l meterLane) patch(p patch) {
	id := "lane-" + l.ID + "-"
	p[id+"state"] = map[string]string{"": l.State, "class": "told " + l.Kind}
	p[id+"left"] = map[string]string{"": l.left()}
	p[id+"reset"] = map[string]string{"": l.Reset}
	p[id+"bar"] = map[string]string{"width": l.Used}
	p[id+"sum"] = map[string]string{"": l.Sum()}
	p[id+"scroll"] = map[string]string{"transform": l.Scroll}
	p[id+"area"] = map[string]string{"d": l.Area}
	p[id+"edges"] = map[string]string{"d": l.Edges}
	p[id+"pass"] = map[string]string{"d": l.Pass}
	p[id+"stop"] = map[string]string{"d": l.Stop}
	p[id+"text"] = map[string]string{"": l.Text}
}

func (l meterLane) left() string { return fmt.Sprintf("%d of %d", l.Remaining, l.Limit) }

// Left is what would conform now.
func (l meterLane) Left() string { return l.left() }

// Sum counts the clicks since the begin.
func (l meterLane) Sum() string {
	return fmt.Sprintf("%d conformed, %d refused", l.Conformed, l.Refused)
}

// told is what the last click was told, and what became of it.
func told(l playground.Lane, now time.Duration) (kind, text string) {
	switch {
	case !l.Clicked:
		return "none", "not asked yet"
	case l.Last.Conform:
		return "conform", "conforms"
	case l.Last.Never:
		return "refuse", "refused: the cost is above the limit, it can never conform"
	case l.RetryAt <= now:
		return "again", "refused; the same cost conforms by now"
	}
	return "refuse", "refused, retry after " + shortDuration((l.RetryAt - now).Round(100*time.Millisecond))
}

func resetText(d time.Duration) string {
	if d == 0 {
		return "as new"
	}
	return "as new in " + shortDuration(d.Round(100*time.Millisecond))
}

func recent(l playground.Lane) int {
	n := 0
	for _, m := range l.Marks {
		if m.Conform {
			n++
		}
	}
	return n
}

// across places times: what is drawn keeps its place, and the group around it is moved.
func across(look playground.Look) func(time.Duration) float64 {
	scale := laneWidth / look.Span().Seconds()
	return func(at time.Duration) float64 { return at.Seconds() * scale }
}

// scroll puts now at the right end. It stands still once the last click is out of sight.
func scroll(look playground.Look) string {
	now := min(look.Now, max(look.Last, 0)+look.Span()+time.Second)
	return "translate(" + decimal(laneWidth-across(look)(now)) + " 0)"
}

// passes are strokes that stand on the base line, with a foot; stops are crosses that hang below it.
func passes(l playground.Lane, x func(time.Duration) float64) string {
	var b strings.Builder
	for _, m := range l.Marks {
		if m.Conform {
			fmt.Fprintf(&b, "M%s %gv-22m-2.5 4l2.5 -4 2.5 4", decimal(x(m.At)), laneBase)
		}
	}
	return b.String()
}

func stops(l playground.Lane, x func(time.Duration) float64) string {
	var b strings.Builder
	for _, m := range l.Marks {
		if !m.Conform {
			fmt.Fprintf(&b, "M%s %gl6 6m0 -6l-6 6", decimal(x(m.At)-3), laneBase+3)
		}
	}
	return b.String()
}

// area is how much of the limit is in use: it drains along a line in a bucket, in steps in a window.
func area(l playground.Lane, x func(time.Duration) float64) string {
	if len(l.Levels) == 0 {
		return ""
	}
	y := func(used int64) string { return decimal(laneBase - laneArea*float64(used)/float64(l.Limit)) }
	var b strings.Builder
	fmt.Fprintf(&b, "M%s %g", decimal(x(l.Levels[0].At)), laneBase)
	for i, level := range l.Levels {
		fmt.Fprintf(&b, "L%s %sV%s", decimal(x(level.At)), y(level.Before), y(level.After))
		// The last one is drawn to where it is empty: what is after now is out of sight, and the path need not change meanwhile.
		last := i+1 == len(l.Levels)
		switch {
		case !l.Evenly() && !last:
			fmt.Fprintf(&b, "H%s", decimal(x(min(level.Empty, l.Levels[i+1].At))))
		case !l.Evenly():
			fmt.Fprintf(&b, "H%s", decimal(x(level.Empty)))
		}
		if last || level.Empty <= l.Levels[i+1].At {
			fmt.Fprintf(&b, "L%s %g", decimal(x(level.Empty)), laneBase)
		}
	}
	return b.String() + "z"
}

// edges are where the windows begin of the algorithms that count in aligned ones.
func edges(look playground.Look, a meter.Algorithm) string {
	if a != meter.FixedWindow && a != meter.SlidingCounter {
		return ""
	}
	x := across(look)
	period := look.Period
	first := look.Begin.Add(look.Now-look.Span()).UnixMicro()/period.Microseconds() - 1
	var b strings.Builder
	for at := time.UnixMicro(first * period.Microseconds()).Sub(look.Begin); at < look.Now+period; at += period {
		fmt.Fprintf(&b, "M%s 4V50", decimal(x(at)))
	}
	return b.String()
}

func decimal(f float64) string { return strconv.FormatFloat(f, 'f', 1, 64) }
