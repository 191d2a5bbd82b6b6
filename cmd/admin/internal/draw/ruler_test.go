package draw_test

import (
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/admin/internal/draw"
)

func at(seconds float64) time.Time {
	return time.Unix(1_700_000_000, 0).UTC().Add(time.Duration(seconds * float64(time.Second)))
}

// count counts elements by what their tags begin with.
func count(drawing, tag string) int { return strings.Count(drawing, "<"+tag) }

func TestRuler(t *testing.T) {
	t.Parallel()
	r := draw.Ruler{Until: at(60), Window: time.Minute, Interval: 10 * time.Second, Fresh: 25 * time.Millisecond, Text: `<b>"text"`}
	start := func(due, late float64) draw.Start { return draw.Start{Due: at(due), Started: at(due + late)} }
	for _, c := range []struct {
		name              string
		starts            []draw.Start
		used, slots, good int
		late              int
	}{
		{"nothing", nil, 0, 0, 0, 0},
		{"every slot", []draw.Start{start(5, .001), start(15, .002), start(25, .01), start(35, .02), start(45, 0), start(55, .025)}, 6, 0, 6, 0},
		{"a slot without a start", []draw.Start{start(5, .001), start(25, .001), start(45, .001), start(55, .001)}, 4, 2, 4, 0},
		{"late ones have another shape", []draw.Start{start(45, .001), start(55, .2)}, 2, 0, 1, 1},
		{"what is older is left out", []draw.Start{start(-20, .001), start(55, .001)}, 1, 5, 1, 0},
	} {
		r.Starts = c.starts
		svg := string(r.SVG())
		used, slots := count(svg, `line class="slot used"`), count(svg, `line class="slot"`)
		if used != c.used || slots != c.slots || count(svg, "circle") != c.good || count(svg, "polygon") != c.late {
			t.Errorf("%s: %d used and %d other slots, %d good and %d late starts:\n%s", c.name, used, slots, count(svg, "circle"), count(svg, "polygon"), svg)
		}
		if !strings.Contains(svg, "&lt;b&gt;&#34;text&#34;") || strings.Contains(svg, "NaN") || strings.Contains(svg, "style=") {
			t.Errorf("%s: %s", c.name, svg)
		}
	}
}

// Departures that went back are rings at their slots.
func TestRulerBacks(t *testing.T) {
	t.Parallel()
	r := draw.Ruler{Until: at(60), Window: time.Minute, Interval: 10 * time.Second, Backs: []time.Time{at(-1), at(30), at(61)}}
	if svg := string(r.SVG()); count(svg, `circle class="back" cx="500"`) != 1 || count(svg, "circle") != 1 {
		t.Error(svg)
	}
}

// Many starts become a strip of bars, with the rate as a line; no bar is drawn where nothing started.
func TestStrip(t *testing.T) {
	t.Parallel()
	r := draw.Ruler{Until: at(60), Window: time.Minute, Interval: 10 * time.Millisecond, Fresh: 25 * time.Millisecond}
	for i := range 1000 {
		s := at(40 + float64(i)/100)
		r.Starts = append(r.Starts, draw.Start{Due: s, Started: s})
	}
	svg := string(r.SVG())
	if bars := count(svg, `rect class="bar`); !r.Dense() || bars < 20 || bars > 21 || count(svg, `line class="ideal"`) != 1 || count(svg, "circle") != 0 {
		t.Errorf("%d bars:\n%s", count(svg, `rect class="bar`), svg)
	}
	if strings.Contains(svg, "bar over") {
		t.Error("starts at the rate are drawn as too many")
	}
	for range 200 {
		r.Starts = append(r.Starts, draw.Start{Due: at(45.25), Started: at(45.25)})
	}
	if svg := string(r.SVG()); count(svg, `rect class="bar over"`) != 1 {
		t.Errorf("too many at once are not seen:\n%s", svg)
	}
}

func TestTimeline(t *testing.T) {
	t.Parallel()
	l := draw.Timeline{ID: "x", Until: at(3600), Text: `</title><script>`, Spans: []draw.Span{
		{Kind: "wait", From: at(0), To: at(3599)},
		{Kind: "run", From: at(3599), To: at(3599.001), End: "bad"},
		{Kind: "later", From: at(3599.001), To: at(3600)},
	}}
	svg := string(l.SVG())
	if count(svg, "rect") != 3 || count(svg, `line class="end bad"`) != 1 || strings.Contains(svg, "<script") {
		t.Errorf("%s", svg)
	}
	// A millisecond of an hour is seen.
	_, run, _ := strings.Cut(svg, `class="span run"`)
	_, width, _ := strings.Cut(run, `width="`)
	if width, _, _ = strings.Cut(width, `"`); !strings.HasPrefix(width, "6.9") {
		t.Errorf("a short attempt is %s wide", width)
	}
	if svg := string(draw.Timeline{ID: "x"}.SVG()); count(svg, "rect") != 0 || strings.Contains(svg, "NaN") {
		t.Errorf("no life: %s", svg)
	}
}
