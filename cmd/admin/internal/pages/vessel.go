package pages

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"strings"
	"time"

	"github.com/spout-queue/spout/cmd/admin/internal/draw"
	"github.com/spout-queue/spout/cmd/admin/internal/live"
	"github.com/spout-queue/spout/queue"
)

// safeID is an id in HTML for a name that may be anything.
func safeID(kind, name string) string {
	sum := sha256.Sum256([]byte(name))
	return kind + "-" + hex.EncodeToString(sum[:6])
}

// vessel is one bucket as it is drawn.
type vessel struct {
	live.Bucket
	ID    string
	URL   string
	Share int // of the capacity, percent
	State vesselState
	Label string // the drawing in words; empty for those of now
}

// vesselState says what is the matter, in words beside the drawing.
type vesselState struct {
	Shape string // of package draw
	Kind  string // of a badge: good, warn, bad or empty
	Text  string
	Until string // of a hold, RFC 3339
	Why   string
}

// vessels are buckets as they are known by now.
func (p *Pages) vessels(names []string) []vessel {
	list := make([]vessel, 0, len(names))
	for _, b := range p.Live.Buckets(names) {
		list = append(list, p.vessel(b.Name(), b))
	}
	return list
}

const (
	readWait  = 400 * time.Millisecond
	readEvery = 3 * time.Millisecond
)

// readVessels gives buckets that nobody looked at before a moment to be read.
func (p *Pages) readVessels(ctx context.Context, list []vessel) []vessel {
	names := make([]string, len(list))
	for i, v := range list {
		names[i] = v.name()
	}
	ctx, cancel := context.WithTimeout(ctx, readWait)
	defer cancel()
	tick := time.NewTicker(readEvery)
	defer tick.Stop()
	for unread(list) {
		select {
		case <-tick.C:
			list = p.vessels(names)
		case <-ctx.Done():
			return list
		}
	}
	return list
}

func unread(list []vessel) bool {
	for _, v := range list {
		if !v.Read {
			return true
		}
	}
	return false
}

func (v vessel) name() string { return v.Class + "/" + v.Key }

func (p *Pages) vessel(name string, b live.Bucket) vessel {
	v := vessel{Bucket: b, ID: safeID("b", name), URL: p.url("/bucket", "class", b.Class, "key", b.Key), State: stateOf(b)}
	if b.Capacity > 0 {
		v.Share = int(100 * float64(b.Level) / float64(b.Capacity))
	}
	return v
}

// stateOf says what is the matter with a bucket, the worst first.
func stateOf(b live.Bucket) vesselState {
	shape := live.ShapeOf(b.Bucket)
	switch {
	case !b.Read:
		return vesselState{Shape: draw.Unread, Text: "being read"}
	case shape == live.Sick:
		return vesselState{Shape: draw.Sick, Kind: "bad", Text: "sick, set aside", Why: b.Sick}
	case b.Stalled:
		return vesselState{Shape: draw.Stalled, Kind: "bad", Text: "stalled, overdue " + shortDuration(b.At.Sub(b.Due))}
	case shape == live.Paused:
		return vesselState{Shape: draw.Paused, Kind: "warn", Text: "paused", Why: "until somebody resumes it"}
	case shape == live.Held:
		return vesselState{Shape: draw.Held, Kind: "warn", Text: "held", Until: b.Hold.Format(queue.TimeFormat), Why: b.HoldReason}
	case shape == live.Draining:
		return vesselState{Shape: draw.Draining, Kind: "warn", Text: "draining", Why: "admits nothing"}
	case b.Known && b.Overflow > 0:
		return vesselState{Shape: draw.Open, Kind: "bad", Text: "rejecting " + perSecond(b.Overflow)}
	case b.Capacity > 0 && b.Level >= b.Capacity:
		return vesselState{Shape: draw.Open, Kind: "bad", Text: "full"}
	}
	return vesselState{Shape: draw.Open}
}

// drawing of the bucket.
func (v vessel) drawing() draw.Bucket {
	d := draw.Bucket{
		ID: v.ID, Label: v.Label, Shape: v.State.Shape, Level: v.Level, Capacity: v.Capacity, High: v.High,
		Rate: ratePerSecond(v.Rate), Spills: v.Known && v.Overflow > 0,
	}
	if v.Label == "" {
		d.Label = v.label()
	}
	if v.Known {
		d.In, d.Out = v.In, v.Departed
	}
	return d
}

func ratePerSecond(r queue.Rate) float64 {
	if r.Period <= 0 {
		return 0
	}
	return float64(r.Limit) / r.Period.Seconds()
}

// SVG draws it.
func (v vessel) SVG() template.HTML { return v.drawing().SVG() }

// label is the drawing in words.
func (v vessel) label() string {
	if !v.Read {
		return "Bucket " + v.name() + ": being read"
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Bucket %s: %s of %s places taken", v.name(), number(v.Level), number(v.Capacity))
	if v.High > v.Level {
		fmt.Fprintf(&b, ", at most %s in 5 minutes", number(v.High))
	}
	b.WriteString("; " + v.Flow())
	if v.State.Text != "" {
		b.WriteString("; " + v.State.Text)
	}
	if v.State.Why != "" {
		b.WriteString(", " + v.State.Why)
	}
	return b.String()
}

// Flow is what comes in and goes out.
func (v vessel) Flow() string {
	if !v.Known {
		return "rate " + v.Rate.String()
	}
	return "in " + perSecond(v.In) + ", out " + perSecond(v.Departed) + " of " + v.Rate.String()
}

// Level in words.
func (v vessel) Places() string { return number(v.Level) + " of " + number(v.Capacity) }

// perSecond is a rate as people read it: slow ones by the minute.
func perSecond(f float64) string {
	switch {
	case f <= 0:
		return "0/s"
	case f < 0.1:
		return number(f*60) + "/min"
	}
	return number(f) + "/s"
}

// patch says what of the drawing and of the words beside it is not as it was; all of it where that was another bucket.
func (v vessel) patch(p patch, was vessel) {
	if v == was {
		return
	}
	anew := v.ID != was.ID
	p.add(v.drawing().Since(was.drawing()))
	if anew || v.Level != was.Level || v.Capacity != was.Capacity {
		p[v.ID+"-places"] = map[string]string{"": v.Places()}
	}
	if anew || v.Known != was.Known || v.In != was.In || v.Departed != was.Departed || v.Rate != was.Rate {
		p[v.ID+"-flow"] = map[string]string{"": v.Flow()}
	}
	if anew || v.State != was.State {
		p[v.ID+"-state"] = map[string]string{"": v.State.Text, "class": "badge " + v.State.Kind, "hidden": hidden(v.State.Text == "")}
		p[v.ID+"-until"] = map[string]string{"data-until": v.State.Until, "hidden": hidden(v.State.Until == "")}
		p[v.ID+"-why"] = map[string]string{"": v.State.Why}
	}
}

// hidden is the value of that attribute in a patch.
func hidden(is bool) string {
	if is {
		return "hidden"
	}
	return ""
}
