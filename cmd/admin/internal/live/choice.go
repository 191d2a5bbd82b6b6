package live

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Query asks for buckets to show.
type Query struct {
	// Sees are the classes that who asks may see; empty means all.
	Sees []string
	// Class and Prefix of the key leave out others; empty leave out none.
	Class, Prefix string
	// Sort is full (the default), level, wait (what the line takes at its rate) or name.
	Sort string
	// Limit is the most.
	Limit int
}

// Choice is the answer to a query. It stays as it is for some seconds, so that what is shown is not always another thing.
type Choice struct {
	// Names of the buckets, class/key.
	Names []string
	// Of is how many there were to choose from: buckets that have jobs, had some in the last minutes, or are closed.
	Of int
}

const (
	// chooseEvery is how long a choice stands, and chooseSoon where a bucket filled since, closed, or began to reject.
	chooseEvery = 3 * time.Second
	chooseSoon  = time.Second / 2
	// choiceKept is how long one is remembered that nobody asks for, and choicesMost how many are.
	choiceKept  = 15 * time.Second
	choicesMost = 200
	// orderEvery is how long those that stay are shown in the same order.
	orderEvery = 15 * time.Second
	// stay is by how much less full than others a bucket may be that was chosen before.
	stay = 0.1
	// rejectingWorth, sickWorth and closedWorth are by how much fuller a bucket counts that rejects, was set aside, or lets
	// nothing go for another reason.
	rejectingWorth, sickWorth, closedWorth = 0.5, 1, 0.2
)

// selection is a choice that stands for a while.
type selection struct {
	choice Choice
	made   time.Time
	sorted time.Time // when they were put in order
	asked  time.Time
	whole  bool
	news   int
}

// Choose chooses buckets of those that the sweeps found.
func (l *Live) Choose(q Query) Choice {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	id := strings.Join([]string{strings.Join(q.Sees, ","), q.Class, q.Sort, strconv.Itoa(q.Limit), q.Prefix}, "\x00")
	s := l.chosen[id]
	if s == nil {
		l.forgetChoices(now)
		s = &selection{}
		l.chosen[id] = s
	}
	s.asked = now
	soon := chooseEvery
	switch {
	case !s.whole: // the first sweep is under way
		soon = tick
	case s.news != l.known.news:
		soon = chooseSoon
	}
	if now.Sub(s.made) >= soon {
		choice := l.known.choose(q, s.choice.Names, now)
		if now.Sub(s.sorted) < orderEvery && sameNames(choice.Names, s.choice.Names) {
			choice.Names = s.choice.Names
		} else {
			s.sorted = now
		}
		s.choice, s.made, s.whole, s.news = choice, now, l.known.whole, l.known.news
	}
	return s.choice
}

func (l *Live) forgetChoices(now time.Time) {
	for id, s := range l.chosen {
		if now.Sub(s.asked) > choiceKept || len(l.chosen) >= choicesMost {
			delete(l.chosen, id)
		}
	}
}

func (q Query) takes(m *mark) bool {
	return (q.Class == "" || m.class == q.Class) && (len(q.Sees) == 0 || slices.Contains(q.Sees, m.class)) && strings.HasPrefix(m.key, q.Prefix)
}

// worth is what a bucket is sorted by, the highest first.
func (q Query) worth(m *mark, now time.Time) float64 {
	switch q.Sort {
	case "level":
		return float64(m.level)
	case "wait":
		return m.empties().Seconds()
	case "name":
		return 0
	}
	worth := m.pressure()
	if m.rejecting(now) { // of full ones, those that hurt somebody
		worth += rejectingWorth
	}
	switch shape := m.shapeNow(); {
	case shape == Sick:
		worth += sickWorth
	case shape != Open || m.late:
		worth += closedWorth
	}
	return worth
}

// candidate is a bucket that may be chosen.
type candidate struct {
	worth float64
	of    *mark
}

// before sorts those first that are worth more.
func (c candidate) before(o candidate) int {
	return cmp.Or(cmp.Compare(o.worth, c.worth), cmp.Compare(c.of.class, o.of.class), cmp.Compare(c.of.key, o.of.key))
}

// choose takes the first of all, by inserting into a short list: of thousands nearly all are behind its end.
func (k *known) choose(q Query, before []string, now time.Time) Choice {
	was := make(map[*mark]bool, len(before))
	for _, name := range before {
		was[k.marks[name]] = true
	}
	list := make([]candidate, 0, q.Limit+1)
	choice := Choice{}
	for _, m := range k.slots {
		if m == nil || !q.takes(m) {
			continue
		}
		choice.Of++
		c := candidate{q.worth(m, now), m}
		if was[m] {
			c.worth *= 1 + stay
		}
		if len(list) == q.Limit && (q.Limit == 0 || c.before(list[q.Limit-1]) > 0) {
			continue
		}
		i, _ := slices.BinarySearchFunc(list, c, candidate.before)
		list = slices.Insert(list, i, c)
		list = list[:min(len(list), q.Limit)]
	}
	for _, c := range list {
		choice.Names = append(choice.Names, c.of.class+"/"+c.of.key)
	}
	return choice
}

// sameNames tells whether two lists have the same names, in whatever order.
func sameNames(a, b []string) bool {
	a, b = slices.Clone(a), slices.Clone(b)
	slices.Sort(a)
	slices.Sort(b)
	return slices.Equal(a, b)
}
