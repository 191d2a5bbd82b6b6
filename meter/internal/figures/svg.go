package figures

import (
	"fmt"
	"strings"
	"time"
)

// Measures of a picture, in pixels.
const (
	labelWidth = 176
	plotWidth  = 480
	noteWidth  = 124
	laneHeight = 52
	barHeight  = 30
	topHeight  = 46
)

// style follows the reader's colour scheme. What is admitted stands up and what is refused hangs down, so that nobody needs the colours.
const style = `
.t{font:13px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#1f2328}
.s{font:11px system-ui,-apple-system,"Segoe UI",sans-serif;fill:#59636e}
.e{text-anchor:end}.m{text-anchor:middle}
.u{fill:#b6d4f5;opacity:.75}.g{stroke:#d1d9e0;stroke-width:1}.b{stroke:#818b98;stroke-width:1}
.a{stroke:#1a7f37;stroke-width:1.6}.r{stroke:#cf222e;stroke-width:1.6}.n{stroke:#59636e;stroke-width:1.6}
@media (prefers-color-scheme:dark){
.t{fill:#f0f6fc}.s{fill:#9198a1}.u{fill:#1f4a7a;opacity:.75}.g{stroke:#3d444d}.b{stroke:#656c76}
.a{stroke:#3fb950}.r{stroke:#f85149}.n{stroke:#9198a1}}
`

// Draw draws the arrivals and below them each lane: what it admitted, what it refused, and as an area how much of the limit was in
// use. Vertical lines are a period apart.
func Draw(title string, arrivals []time.Duration, length, period time.Duration, lanes []Lane) string {
	var b strings.Builder
	width := labelWidth + plotWidth + noteWidth
	height := topHeight + (len(lanes)+1)*laneHeight + 40
	x := func(at time.Duration) string {
		return fmt.Sprintf("%.1f", labelWidth+float64(at)/float64(length)*plotWidth)
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img">`+"\n", width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n<style>%s</style>\n", title, style)
	fmt.Fprintf(&b, `<text class="t" x="8" y="20">%s</text>`+"\n", title)
	bottom := topHeight + (len(lanes)+1)*laneHeight
	for at := time.Duration(0); at <= length; at += period {
		fmt.Fprintf(&b, `<path class="g" d="M%s %dV%d"/><text class="s m" x="%s" y="%d">%v</text>`+"\n", x(at), topHeight-6, bottom, x(at), bottom+15, at)
	}
	base := topHeight + barHeight
	fmt.Fprintf(&b, `<text class="t e" x="%d" y="%d">arrivals</text>`+"\n", labelWidth-12, base-2)
	ticks(&b, "n", x, arrivals, base, base-22)
	fmt.Fprintf(&b, `<path class="b" d="M%d %dh%d"/><text class="s" x="%d" y="%d">%d calls</text>`+"\n",
		labelWidth, base, plotWidth, labelWidth+plotWidth+10, base-2, len(arrivals))
	for _, lane := range lanes {
		base += laneHeight
		area(&b, lane, length, base)
		ticks(&b, "a", x, lane.Admitted, base, base-18)
		ticks(&b, "r", x, lane.Refused, base+1, base+8)
		fmt.Fprintf(&b, `<path class="b" d="M%d %dh%d"/><text class="t e" x="%d" y="%d">%s</text>`+"\n",
			labelWidth, base, plotWidth, labelWidth-12, base-2, lane.Name)
		fmt.Fprintf(&b, `<text class="s" x="%d" y="%d">%d admitted</text><text class="s" x="%d" y="%d">up to %d in %v</text>`+"\n",
			labelWidth+plotWidth+10, base-12, len(lane.Admitted), labelWidth+plotWidth+10, base+3, lane.Most(period), period)
	}
	fmt.Fprintf(&b, `<path class="a" d="M%d %dv-11"/><text class="s" x="%d" y="%d">admitted</text>`, labelWidth, height-4, labelWidth+8, height-5)
	fmt.Fprintf(&b, `<path class="r" d="M%d %dv7"/><text class="s" x="%d" y="%d">refused</text>`, labelWidth+80, height-11, labelWidth+88, height-5)
	fmt.Fprintf(&b, `<path class="u" d="M%d %dv-11h14v11z"/><text class="s" x="%d" y="%d">part of the limit in use</text>`+"\n</svg>\n",
		labelWidth+154, height-4, labelWidth+174, height-5)
	return b.String()
}

// ticks are vertical strokes.
func ticks(b *strings.Builder, class string, x func(time.Duration) string, at []time.Duration, from, to int) {
	if len(at) == 0 {
		return
	}
	fmt.Fprintf(b, `<path class="%s" d="`, class)
	for _, t := range at {
		fmt.Fprintf(b, "M%s %dV%d", x(t), from, to)
	}
	b.WriteString("\"/>\n")
}

// area is how much of the limit is in use, as a staircase.
func area(b *strings.Builder, lane Lane, length time.Duration, base int) {
	fmt.Fprintf(b, `<path class="u" d="M%d %d`, labelWidth, base)
	last := int64(-1)
	for i, used := range lane.Used {
		if used == last {
			continue
		}
		last = used
		fmt.Fprintf(b, "H%.1fV%.1f", labelWidth+float64(time.Duration(i)*Step)/float64(length)*plotWidth,
			float64(base)-float64(used)/float64(lane.Limit)*barHeight)
	}
	fmt.Fprintf(b, `H%dV%dz"/>`+"\n", labelWidth+plotWidth, base)
}
