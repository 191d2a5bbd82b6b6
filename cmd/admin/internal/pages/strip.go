package pages

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/spout-queue/spout/cmd/admin/internal/draw"
	"github.com/spout-queue/spout/cmd/admin/internal/live"
)

// strip is one line about the whole installation.
type strip struct{ Cells []stripCell }

type stripCell struct {
	ID, Name, Text, More string
	Kind                 string // of what is wrong with it: warn, bad or empty
}

// slowStore is a round trip to Redis that people should know of: starts are good for 25 ms.
const slowStore = 10 * time.Millisecond

// fullStore is the share of Redis's memory from which on admission stops, see ADR 17.
const fullStore = 0.8

func newStrip(picture *live.Picture, classes []live.Class, now time.Time) strip {
	var in, out, rejected float64
	var level int64
	known := false
	for _, c := range classes {
		in, out, rejected, level = in+c.In, out+c.Departed, rejected+c.Rejected, level+c.Level
		known = known || c.Known
	}
	flow := stripCell{ID: "strip-flow", Name: "In and out", Text: "measuring"}
	if len(classes) == 0 {
		flow.Text = "no class yet"
	}
	if known {
		flow.Text, flow.More = perSecond(in)+" in, "+perSecond(out)+" out", "none rejected"
		if rejected > 0 {
			flow.More, flow.Kind = perSecond(rejected)+" rejected", "warn"
		}
	}
	cells := []stripCell{storeCell(picture.Store), workersCell(picture.Workers, level)}
	if picture.NATS != nil {
		cells = append(cells, natsCell(*picture.NATS))
	}
	return strip{append(cells, stripCell{ID: "strip-level", Name: "Waiting", Text: number(level) + " jobs"}, flow, liveCell(picture, now))}
}

func natsCell(n live.NATS) stripCell {
	c := stripCell{ID: "strip-nats", Name: "NATS"}
	switch {
	case !n.Asked:
		c.Text = "asking"
	case n.Err != nil:
		c.Text, c.More, c.Kind = "away", "nothing comes in by it", "bad"
	default:
		c.Text, c.More = "connected", number(n.Waiting)+" messages wait"
	}
	return c
}

func storeCell(s live.Store) stripCell {
	c := stripCell{ID: "strip-store", Name: "Redis", Text: latency(s.Latency)}
	if s.Used > 0 { // an embedded one does not say
		c.More = bytesText(s.Used)
	}
	if s.Max > 0 {
		c.More += " of " + bytesText(s.Max)
	}
	switch {
	case s.Max > 0 && float64(s.Used) > fullStore*float64(s.Max):
		c.Kind = "bad"
	case s.Latency > slowStore:
		c.Kind = "warn"
	}
	return c
}

// latency with one decimal below 10 ms.
func latency(d time.Duration) string {
	if d < 10*time.Millisecond {
		return fmt.Sprintf("%.1fms", float64(d)/float64(time.Millisecond))
	}
	return shortDuration(d)
}

func bytesText(n int64) string {
	const kib = 1024
	f, unit := float64(n), "B"
	for _, next := range []string{"KiB", "MiB", "GiB", "TiB"} {
		if f < kib {
			break
		}
		f, unit = f/kib, next
	}
	return number(math.Round(f*10)/10) + " " + unit
}

func workersCell(w live.Workers, level int64) stripCell {
	c := stripCell{ID: "strip-workers", Name: "Workers", Text: number(w.Alive) + " alive", More: "all beat"}
	if w.Silent > 0 {
		c.More, c.Kind = number(w.Silent)+" silent", "warn"
	}
	if w.Alive == 0 {
		c.Text, c.More = "none", "nothing drains"
		if c.Kind = "warn"; level > 0 {
			c.Kind = "bad"
		}
	}
	return c
}

func liveCell(picture *live.Picture, now time.Time) stripCell {
	c := stripCell{ID: "strip-live", Name: "Numbers", Text: "live", More: "as of " + picture.At.UTC().Format(time.TimeOnly) + " UTC"}
	if age, stale := picture.Stale(now); stale {
		if c.Text, c.Kind = "stale", "bad"; picture.At.IsZero() {
			c.More = "never read"
		} else {
			c.More = shortDuration(age) + " old"
		}
	}
	return c
}

func (s strip) patch(p patch) {
	for _, c := range s.Cells {
		p[c.ID] = map[string]string{"class": "cell " + c.Kind}
		p[c.ID+"-text"] = map[string]string{"": c.Text}
		p[c.ID+"-more"] = map[string]string{"": c.More}
	}
}

// classRow is one class in the table.
type classRow struct {
	live.Class
	ID, URL string
	State   vesselState
	Spark   draw.Spark
}

func (p *Pages) classRows(classes []live.Class) []classRow {
	rows := make([]classRow, len(classes))
	for i, c := range classes {
		name := c.Class
		id := safeID("c", name)
		rows[i] = classRow{
			Class: c, ID: id, URL: p.url("/class", "name", name), State: classState(c),
			Spark: draw.Spark{ID: id + "-spark", Label: sparkLabel(c), Points: c.Recent},
		}
	}
	return rows
}

func sparkLabel(c live.Class) string {
	highest := 0.0
	for _, f := range c.Recent {
		if !math.IsNaN(f) {
			highest = max(highest, f)
		}
	}
	return "Departures of " + c.Class + " in the last 15 minutes: at most " + perSecond(highest)
}

// classState says what closes a class.
func classState(c live.Class) vesselState {
	switch {
	case c.Paused:
		return vesselState{Kind: "warn", Text: "paused"}
	case c.Stalled > stalledAfter(c):
		return vesselState{Kind: "bad", Text: "stalled " + shortDuration(c.Stalled)}
	case c.Known && c.Rejected > 0:
		return vesselState{Kind: "bad", Text: "rejecting"}
	case c.Held:
		return vesselState{Kind: "warn", Text: "held"}
	case c.Draining:
		return vesselState{Kind: "warn", Text: "draining"}
	}
	return vesselState{}
}

// stalledAfter is how long overdue a bucket of a class must be to be called stalled.
func stalledAfter(c live.Class) time.Duration { return max(2*time.Second, 2*c.Rate.Interval()) }

// rate is one of the class's numbers per second.
func (c classRow) rate(f float64) string {
	if !c.Known {
		return "…"
	}
	return perSecond(f)
}

// InText, OutText and RejectedText are what the table says.
func (c classRow) InText() string { return c.rate(c.In) }

// OutText is what leaves.
func (c classRow) OutText() string { return c.rate(c.Departed) }

// RejectedText is what finds no room.
func (c classRow) RejectedText() string { return c.rate(c.Rejected) }

// OldestText is how long the job has waited that waits longest.
func (c classRow) OldestText() string {
	if c.Oldest <= 0 {
		return "–"
	}
	return shortDuration(c.Oldest)
}

func (c classRow) patch(p patch) {
	p.add(c.Spark.Attributes())
	for name, text := range map[string]string{
		"in": c.InText(), "out": c.OutText(), "rejected": c.RejectedText(), "level": number(c.Level), "oldest": c.OldestText(),
		"outnow": number(c.Out), "dead": number(c.Dead),
	} {
		p[c.ID+"-"+name] = map[string]string{"": text}
	}
	p[c.ID+"-state"] = map[string]string{"": c.State.Text, "class": "badge " + c.State.Kind, "hidden": hidden(c.State.Text == "")}
}

// rowsVersion changes when other classes are listed.
func rowsVersion(rows []classRow) string {
	var b strings.Builder
	for _, c := range rows {
		b.WriteString(c.ID + " " + c.Rate.String() + ",")
	}
	return b.String()
}
