package live

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/spout-queue/spout/queue"
)

func bucket(class, key string, level int) queue.Bucket {
	return queue.Bucket{Class: class, Key: key, Level: level, Line: level, Capacity: 100, Rate: queue.Rate{Limit: 1, Period: time.Second}, Interval: time.Second}
}

// swept is a Live that has seen buckets.
func swept(now time.Time, buckets ...queue.Bucket) *Live {
	l := New(nil, nil)
	for _, b := range buckets {
		l.known.note(b, now)
	}
	l.known.whole = true
	return l
}

// standing is of class a.
func standing(moves int64) queue.Standing {
	return queue.Standing{Class: "a", Capacity: 10, Rate: queue.Rate{Limit: 1, Period: time.Second}, Moves: []int64{moves}}
}

// walk is one that found these levels in class a, which has one shard.
func (k *known) walk(moves int64, now time.Time, levels ...queue.Level) (walked bool) {
	for _, at := range k.decide([]queue.Standing{standing(moves)}, now) {
		walked = true
		for _, l := range levels {
			k.saw(at, l, now)
		}
		k.walkedThrough(at)
		k.gone(now)
	}
	return walked
}

// large is what is known of so many buckets that not every new one is read as a whole.
func large(now time.Time) known {
	k := newKnown()
	for i := range fewMarks {
		k.note(bucket("b", fmt.Sprint(i), 1), now)
	}
	return k
}

func line(name string, n int) queue.Level { return queue.Level{Name: name, Line: n, Later: -1} }

func TestChoose(t *testing.T) {
	t.Parallel()
	paused := bucket("a", "closed", 85)
	paused.Paused = true
	slow := bucket("b", "slow", 10)
	slow.Interval = time.Hour
	l := swept(time.Now(), bucket("a", "x1", 10), bucket("a", "x2", 95), bucket("b", "y", 50), paused, slow, bucket("b", "empty", 0))
	for name, c := range map[string]struct {
		q    Query
		want []string
		of   int
	}{
		"fullest":          {Query{Limit: 3}, []string{"a/closed", "a/x2", "b/y"}, 5},
		"of a class":       {Query{Limit: 3, Class: "b"}, []string{"b/y", "b/slow"}, 2},
		"with a prefix":    {Query{Limit: 3, Prefix: "x"}, []string{"a/x2", "a/x1"}, 2},
		"what a person":    {Query{Limit: 3, Sees: []string{"b"}}, []string{"b/y", "b/slow"}, 2},
		"does not see":     {Query{Limit: 3, Sees: []string{"b"}, Class: "a"}, nil, 0},
		"most jobs":        {Query{Limit: 2, Sort: "level"}, []string{"a/x2", "a/closed"}, 5},
		"longest to empty": {Query{Limit: 1, Sort: "wait"}, []string{"b/slow"}, 5},
		"by name":          {Query{Limit: 2, Sort: "name"}, []string{"a/closed", "a/x1"}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := l.Choose(c.q); !slices.Equal(got.Names, c.want) || got.Of != c.of {
				t.Errorf("%v of %d, want %v of %d", got.Names, got.Of, c.want, c.of)
			}
		})
	}
}

// A bucket that is shown gives its place only to one that is clearly fuller.
func TestChooseStays(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := swept(now, bucket("a", "shown", 50), bucket("a", "other", 40))
	choose := func() []string { return l.known.choose(Query{Limit: 1}, []string{"a/shown"}, now).Names }
	l.known.note(bucket("a", "other", 53), now)
	if got := choose(); got[0] != "a/shown" {
		t.Errorf("%v is chosen for 3 jobs more", got)
	}
	l.known.note(bucket("a", "other", 70), now)
	if got := choose(); got[0] != "a/other" {
		t.Errorf("%v is chosen although another is clearly fuller", got)
	}
}

// What needs somebody comes before what is only full.
func TestChooseTrouble(t *testing.T) {
	t.Parallel()
	now := time.Now()
	sick, stalled := bucket("a", "sick", 10), bucket("a", "stalled", 85)
	sick.Sick = "why"
	stalled.At, stalled.Due = now, now.Add(-time.Minute)
	l := swept(now, bucket("a", "full", 100), sick, stalled)
	if got := l.Choose(Query{Limit: 3}).Names; !slices.Equal(got, []string{"a/sick", "a/stalled", "a/full"}) {
		t.Errorf("%v", got)
	}
}

// What rejects counts as fuller, for a while.
func TestRejecting(t *testing.T) {
	t.Parallel()
	now := time.Now()
	full, rejecting := bucket("a", "full", 100), bucket("a", "rejecting", 100)
	l := swept(now, full, rejecting)
	rejecting.Overflowed = 3
	l.known.note(rejecting, now)
	if got := l.Choose(Query{Limit: 1}).Names; got[0] != "a/rejecting" {
		t.Errorf("%v comes first", got)
	}
	if got := l.Troubles()["a"]; got.Rejecting != 1 || got.RejectingExample != "rejecting" {
		t.Errorf("%+v", got)
	}
	if l.known.marks["a/rejecting"].rejecting(now.Add(time.Minute)) {
		t.Error("it rejects for ever")
	}
}

// Each bucket keeps its place in the grid; places of those that are gone are taken by others.
func TestGrid(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := swept(now, bucket("a", "1", 10), bucket("b", "2", 100))
	if b, ok := l.At(Query{}, 1); !ok || b.Class != "b" || b.Key != "2" || b.Level != 100 || !b.Used {
		t.Fatalf("in place 1 is %+v", b)
	}
	if _, ok := l.At(Query{Sees: []string{"a"}}, 1); ok {
		t.Error("a place tells of a class that is not seen")
	}
	for _, slot := range []int{-1, 2, 1 << 40} {
		if _, ok := l.At(Query{}, slot); ok {
			t.Errorf("there is a bucket in place %d", slot)
		}
	}
	g := l.Grid(Query{Sees: []string{"b"}})
	if g.Used != 1 || g.Cells[0].Used || g.Cells[1].Pressure != 1 || !g.Whole {
		t.Errorf("%+v", g)
	}
	later := now.Add(6 * time.Minute) // after its high-water mark
	l.known.note(bucket("a", "1", 0), later)
	l.known.tidy(later)
	l.known.note(bucket("c", "3", 50), later)
	if b, ok := l.At(Query{}, 0); !ok || b.Class != "c" {
		t.Errorf("the free place has %+v", b)
	}
}

// A bucket that left the index keeps its high-water line for 5 minutes, as an empty one.
func TestEmptied(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := New(nil, nil)
	l.known.walk(1, now, line("a/1", 10))
	if !l.known.walk(2, now) {
		t.Fatal("what moved is not walked again")
	}
	l.known.tidy(now)
	if g := l.Grid(Query{}); g.Used != 1 || g.Cells[0].Pressure != 0 {
		t.Errorf("%+v", g)
	}
	if b := l.Buckets([]string{"a/1"})[0]; b.High != 10 || b.Level != 0 {
		t.Errorf("high %d of level %d", b.High, b.Level)
	}
	l.known.tidy(now.Add(6 * time.Minute))
	if g := l.Grid(Query{}); g.Used != 0 {
		t.Errorf("%+v", g)
	}
}

// Where nothing moves nothing is walked, for long; where a class has other settings, all its buckets are seen in their light.
func TestDecide(t *testing.T) {
	t.Parallel()
	now := time.Now()
	k := large(now)
	if !k.walk(1, now, line("a/1", 3), line("a/2", 10)) {
		t.Fatal("what was never seen is not walked")
	}
	if k.walk(1, now.Add(time.Minute)) {
		t.Error("what stands still is walked")
	}
	if !k.suspects["a/2"] || k.suspects["a/1"] {
		t.Errorf("a full bucket is to be read as a whole, for what it rejects, and no other: %v", k.suspects)
	}
	other := standing(1)
	other.Capacity, other.Paused = 20, true
	if len(k.decide([]queue.Standing{other}, now)) != 1 {
		t.Error("a class with other settings is not walked")
	}
	if m := k.marks["a/1"]; m.shapeNow() != Paused || !k.suspects["a/1"] {
		t.Errorf("a bucket of a paused class is %s", m.shapeNow())
	}
	k.walkedThrough(spot{"a", 0})
	k.decide([]queue.Standing{standing(1)}, now)
	if m := k.marks["a/1"]; m.shapeNow() != Open {
		t.Errorf("a bucket of a class that was resumed is %s", m.shapeNow())
	}
	other.Capacity = 30 // while the walk is under way
	during := k.decide([]queue.Standing{other}, now)
	k.walkedThrough(spot{"a", 0})
	if after := k.decide([]queue.Standing{other}, now); len(during) != 0 || len(after) != 1 {
		t.Errorf("other settings during a walk lead to %v, and %v after it", during, after)
	}
	k.walkedThrough(spot{"a", 0})
	k.walk(1, now, line("a/1", 3), line("a/2", 10))
	if !k.walk(1, now.Add(walkAgain), line("a/1", 3), line("a/2", 10)) {
		t.Error("what stands still is never walked again")
	}
	k.decide(nil, now)
	if k.marks["a/1"] != nil || k.marks["a/2"] != nil || len(k.regions) != 0 {
		t.Error("buckets of a class that is gone are remembered")
	}
}

// What a walk cannot tell of is read as a whole: closed buckets, overdue and sick ones, those that have delayed jobs too. And only once.
func TestDoubts(t *testing.T) {
	t.Parallel()
	now := time.Now()
	k := large(now)
	k.note(queue.Bucket{Class: "a", Key: "later", Level: 3, Line: 2, Later: 1, Capacity: 10}, now)
	levels := []queue.Level{
		line("a/flows", 3),
		{Name: "a/delayed", Later: 2},
		{Name: "a/remembers"},
		line("a/later", 3),
		{Name: "a/paused", Line: 1, Later: -1, Opens: queue.Never},
		{Name: "a/held", Line: 1, Later: -1, Opens: time.Hour},
		{Name: "a/overdue", Line: 1, Later: -1, Opens: -time.Minute},
		{Name: "a/sick", Later: -1, Opens: queue.Never},
	}
	want := []string{"a/held", "a/later", "a/overdue", "a/paused", "a/sick"}
	k.walk(1, now, levels...)
	if got := k.doubts(10); !slices.Equal(sorted(got), want) {
		t.Errorf("to be read are %v, want %v", got, want)
	}
	if len(k.doubts(2)) != 2 {
		t.Error("more are read than may be")
	}
	sick := queue.Bucket{Class: "a", Key: "sick", Sick: "why"}
	k.note(sick, now)
	for _, name := range want {
		delete(k.suspects, name)
	}
	if k.walk(2, now, levels...); len(k.suspects) != 0 {
		t.Errorf("again to be read are %v", k.suspects)
	}
	if m := k.marks["a/delayed"]; m.level != 2 || k.marks["a/later"].level != 4 || k.marks["a/remembers"] != nil {
		t.Errorf("%+v", m)
	}
}

func sorted(list []string) []string { slices.Sort(list); return list }

func TestKnownIsBounded(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := New(nil, nil)
	levels := make([]queue.Level, knownMost+7)
	for i := range levels {
		levels[i] = line(fmt.Sprint("a/", i), 1)
	}
	l.known.walk(1, now, levels...)
	if g := l.Grid(Query{}); g.Used != knownMost || g.Over != 7 {
		t.Errorf("%d are drawn and %d over", g.Used, g.Over)
	}
	for i := range choicesMost + 50 {
		l.Choose(Query{Limit: 1, Prefix: fmt.Sprint(i)})
	}
	if len(l.chosen) > choicesMost {
		t.Errorf("%d choices are remembered", len(l.chosen))
	}
	names := make([]string, wantedMost+50)
	for i := range names {
		names[i] = fmt.Sprint("a/", i)
	}
	if got := l.Buckets(names); len(got) != len(names) || len(l.buckets) > wantedMost {
		t.Errorf("%d buckets are told of and %d looked at", len(got), len(l.buckets))
	}
}

// Where nothing waits any more nothing is the oldest, also before the heads of the lines are looked at again.
func TestNothingIsOldest(t *testing.T) {
	t.Parallel()
	now := time.Now()
	was := stand{at: now, oldest: 3 * time.Second, moved: true}
	if is := was.then(queue.Standing{}, now.Add(time.Second)); is.Oldest != 0 {
		t.Errorf("of no job the oldest waits for %v", is.Oldest)
	}
	if is := was.then(queue.Standing{Books: queue.Books{Admitted: 1}}, now.Add(time.Second)); is.Oldest != 3*time.Second {
		t.Errorf("the oldest waits for %v", is.Oldest)
	}
}
