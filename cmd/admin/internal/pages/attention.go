package pages

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spout-queue/spout/cmd/admin/internal/live"
)

// attention is something that somebody should look at.
type attention struct {
	Kind string // bad or warn
	What string // in short, with the name
	Mean string // what it means and what to do
	URL  string
}

// attentionsMost is how many things are listed: who reads more has lost the first.
const attentionsMost = 10

// attentions lists what is wrong, the worst first.
func (p *Pages) attentions(picture *live.Picture, classes []live.Class, troubles map[string]live.Trouble) []attention {
	var list []attention
	level := int64(0)
	for _, c := range classes {
		level += c.Level
		list = append(list, p.classAttentions(c, troubles[c.Class])...)
	}
	if picture.Workers.Alive == 0 && level > 0 {
		// First, since it is why classes are stalled.
		list = slices.Insert(list, 0, attention{"bad", "No worker is alive", "Jobs wait and nothing lets them go: start a worker.", p.url("/workers")})
	}
	if picture.Workers.Silent > 0 {
		list = append(list, attention{
			"warn", plural(picture.Workers.Silent, "worker is", "workers are") + " silent",
			"What they have out returns to its buckets when others take them for dead.", p.url("/workers"),
		})
	}
	if s := picture.Store; s.Max > 0 && float64(s.Used) > fullStore*float64(s.Max) {
		list = append(list, attention{"bad", "Redis is nearly full", "Submissions are refused until jobs have drained or it has more memory.", p.url("/workers")})
	}
	slices.SortStableFunc(list, func(a, b attention) int { return cmp.Compare(a.Kind, b.Kind) }) // bad before warn
	if more := len(list) - attentionsMost; more > 0 {
		list = append(list[:attentionsMost], attention{"warn", plural(more, "more", "more"), "See the classes below.", p.url("/classes")})
	}
	return list
}

func (p *Pages) classAttentions(c live.Class, t live.Trouble) []attention {
	name := c.Class
	var list []attention
	add := func(kind, what, mean, url string) { list = append(list, attention{kind, what, mean, url}) }
	class := p.url("/class", "name", name)
	bucket := func(key string) string { return p.url("/bucket", "class", name, "key", key) }
	if c.Stalled > stalledAfter(c) && !c.Paused {
		add("bad", name+" is stalled", "Its next departure is long overdue: no worker serves it, or none has a free slot.", class)
	}
	if n := t.Count[live.Sick]; n > 0 {
		add("bad", named(n, name, t.Example[live.Sick])+" sick", "Workers set it aside since its data cannot be read. Mend it, then resume it.", bucket(t.Example[live.Sick]))
	}
	switch {
	case t.Rejecting > 0:
		add("bad", named(t.Rejecting, name, t.RejectingExample)+" rejecting", "More comes in than its rate lets go: producers are told to come back later.", bucket(t.RejectingExample))
	case c.Known && c.Rejected > 0:
		add("bad", name+" is rejecting", "Producers are told to come back later.", class)
	}
	if c.Known && c.Dying > 0 {
		add("warn", "Dead jobs of "+name+" grow", "Attempts fail for good: see their errors.", p.url("/dead", "class", name))
	}
	if c.Paused {
		add("warn", name+" is paused", "Nothing leaves until somebody resumes it.", class)
		return list
	}
	if n := t.Count[live.Paused]; n > 0 {
		add("warn", named(n, name, t.Example[live.Paused])+" paused", "Nothing leaves until somebody resumes it.", bucket(t.Example[live.Paused]))
	}
	if n := t.Count[live.Held]; n > 0 {
		add("warn", named(n, name, t.Example[live.Held])+" held", "Closed until a time, since its service or an operator asked for it.", bucket(t.Example[live.Held]))
	}
	return list
}

// named is one bucket by its name with its verb, or how many of a class.
func named(n int, class, key string) string {
	if n == 1 {
		return class + "/" + key + " is"
	}
	return number(n) + " buckets of " + class + " are"
}

func plural(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + more
}

func attentionVersion(list []attention) string {
	var b strings.Builder
	for _, a := range list {
		b.WriteString(a.Kind + a.What + a.URL + "\n")
	}
	return b.String()
}
