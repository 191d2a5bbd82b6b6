package pages

import (
	"context"
	"fmt"
	"html/template"
	"slices"
	"time"

	"github.com/spout-queue/spout/cmd/admin/internal/draw"
	"github.com/spout-queue/spout/queue"
)

// goodFor is the longest that a departure stays good, unless workers are told otherwise (--freshness): law 3's G.
const goodFor = 25 * time.Millisecond

// startsTold is how many starts of a bucket a worker tells of at most.
const startsTold = 2000

// pace is how exactly a bucket kept its interval in the last minute.
type pace struct {
	Drawing template.HTML
	Starts  int
	Told    int // starts and departures that went back
	Dense   bool
	Text    string
	// Early counts starts closer to the one before than the interval and its allowance permit; Kind is good or bad.
	Early int
	Kind  string
	Last  time.Time
}

func (p *Pages) paceOf(ctx context.Context, class queue.Class, b queue.Bucket) (pace, error) {
	starts, err := p.Desk.Client().Starts(ctx, b.Class, b.Key)
	if err != nil {
		return pace{}, err
	}
	return judgePace(class, b, starts), nil
}

// judgePace draws the starts of the last minute, and says in words what the drawing shows.
func judgePace(class queue.Class, b queue.Bucket, told []queue.Start) pace {
	starts, backs := apart(told)
	allowance := class.CatchUp + goodFor
	if class.Pace == queue.PaceStrict {
		allowance = queue.StrictFreshness
	}
	out := pace{Starts: len(starts), Told: len(told), Kind: "good"}
	ruler := draw.Ruler{Until: b.At, Window: queue.StartsOver, Interval: b.Interval, Fresh: goodFor, Backs: backs}
	late := make([]time.Duration, 0, len(starts))
	closest := time.Duration(-1)
	var slot time.Time // by GCRA: the earliest that the next start conforms
	for i, s := range starts {
		ruler.Starts = append(ruler.Starts, draw.Start{Due: s.Due, Started: s.Started})
		late = append(late, s.Lateness)
		if i > 0 {
			if gap := s.Started.Sub(starts[i-1].Started); closest < 0 || gap < closest {
				closest = gap
			}
			if s.Started.Before(slot.Add(-allowance)) {
				out.Early++
			}
		}
		slot = laterOf(slot, s.Started).Add(b.Interval)
		out.Last = s.Started
	}
	out.Text = paceText(b, late, closest, out.Early, allowance)
	if n := len(backs); n > 0 {
		out.Text += " " + plural(n, "departure", "departures") + " went back to the line: too old to start, held, or given back as a worker stopped."
	}
	if out.Early > 0 {
		out.Kind = "bad"
	}
	ruler.Text = "Pacing of the last minute. " + out.Text
	out.Drawing, out.Dense = ruler.SVG(), ruler.Dense()
	return out
}

// apart tells starts from departures that went back, of which the slots are.
func apart(told []queue.Start) (starts []queue.Start, backs []time.Time) {
	for _, s := range told {
		if s.Back {
			backs = append(backs, s.Due)
			continue
		}
		starts = append(starts, s)
	}
	return starts, backs
}

func laterOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func paceText(b queue.Bucket, late []time.Duration, closest time.Duration, early int, allowance time.Duration) string {
	if len(late) == 0 {
		return "No start of the last minute is known. Workers are asked while this page is open, and answer within two seconds."
	}
	slices.Sort(late)
	of := ""
	if len(late) >= startsTold {
		of = "the latest "
	}
	text := fmt.Sprintf("%s%s starts; lateness p50 %s, p99 %s.", of, number(len(late)), exactDuration(late[len(late)/2]), exactDuration(late[(len(late)*99-1)/100]))
	if late[len(late)-1] > time.Second {
		text += " What starts after a pause or a hold counts from its slot, and is as late as that was long."
	}
	if len(late) == 1 {
		return text
	}
	text += fmt.Sprintf(" The closest two were %s apart, T is %s.", exactDuration(closest), exactDuration(b.Interval))
	if early == 0 {
		return text + fmt.Sprintf(" All conform to the rate, with %s allowed.", exactDuration(allowance))
	}
	return text + fmt.Sprintf(" %s came earlier than T − %s allows: was the rate changed in this minute, or is a worker's clock off?", number(early), exactDuration(allowance))
}
