package live

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spout-queue/spout/cmd/admin/internal/changes"
	"github.com/spout-queue/spout/queue"
)

const (
	// walkStep is how many buckets one command of a walk looks at, about, and walkSteps how many of them one step makes.
	walkStep  = 500
	walkSteps = 4
	// firstSteps and firstTime bound what the first step does instead, so that a small installation is whole at once.
	firstSteps = 24
	firstTime  = 20 * time.Millisecond
	// doubtsMost is how many buckets are read as a whole at once: in one step, while it is not the first.
	doubtsMost = 50
	// againASecond is how many buckets are read as a whole although nothing speaks for it: what no walk shows is found in the end.
	againASecond = 10
)

// sweep keeps known what there is to choose from. It walks through the classes whose books moved, shard by shard, and reads as a
// whole what a walk cannot tell of.
type sweep struct {
	l       *Live
	walks   []queue.Walk // one per shard
	turn    int          // whose is next
	planned bool
	again   int // the place of the grid from where on buckets are read again
	log     *changes.Log
}

func newSweep(l *Live) *sweep {
	w := &sweep{l: l, walks: make([]queue.Walk, l.client.Shards()), log: changes.Open(l.client.Redis(), l.client.Prefix())}
	for shard := range w.walks {
		w.walks[shard].Shard = shard
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, r := range l.known.regions { // the walks of a session before ended with it
		r.waits, r.walked = false, time.Time{}
	}
	return w
}

// plan decides once a second where to walk.
func (w *sweep) plan(standings []queue.Standing) {
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	now, k := time.Now(), &w.l.known
	for _, at := range k.decide(standings, now) {
		w.walks[at.shard].Classes = append(w.walks[at.shard].Classes, at.class)
	}
	k.tidy(now)
	for range min(againASecond, len(k.slots)) {
		if m := k.slots[w.again%len(k.slots)]; m != nil {
			k.suspects[m.class+"/"+m.key] = true
		}
		w.again++
	}
	w.planned = true
}

// hands has the buckets read as a whole that operators changed: books do not tell of that.
func (w *sweep) hands(ctx context.Context) error {
	w.l.mu.Lock()
	place := w.l.place
	w.l.mu.Unlock()
	list, place, err := w.log.Since(ctx, place)
	if err != nil {
		return err
	}
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	w.l.place = place
	for _, c := range list {
		w.l.changed[c.Class] = c.ID
		if strings.HasPrefix(c.Target, c.Class+"/") {
			w.l.known.suspects[c.Target] = true
		}
	}
	return nil
}

// step goes on with the sweep, and tells whether all was seen for the first time. An error only delays it: others tell of it.
func (w *sweep) step(ctx context.Context) (whole bool) {
	if !w.planned {
		return false
	}
	first := !w.l.sweptOnce()
	steps, reads := walkSteps, 1
	if first {
		steps, reads = firstSteps, firstSteps
	}
	begun := time.Now()
	goesOn := func() bool { return !w.l.hurried() && time.Since(begun) < firstTime }
	for ; steps > 0 && goesOn(); steps-- {
		if walk := w.next(); walk == nil || w.walk(ctx, walk) != nil {
			break
		}
	}
	more, err := true, error(nil)
	for ; reads > 0 && more && err == nil && goesOn(); reads-- {
		more, err = w.read(ctx)
	}
	if !first || err != nil || w.walking() {
		return false
	}
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	w.l.known.whole = true
	return true
}

// next is the walk whose turn it is, nil when none has anywhere to go.
func (w *sweep) next() *queue.Walk {
	for range w.walks {
		walk := &w.walks[w.turn%len(w.walks)]
		w.turn++
		if len(walk.Classes) > 0 {
			return walk
		}
	}
	return nil
}

func (w *sweep) walking() bool {
	for _, walk := range w.walks {
		if len(walk.Classes) > 0 {
			return true
		}
	}
	return false
}

// walk goes on with a walk by one command.
func (w *sweep) walk(ctx context.Context, walk *queue.Walk) error {
	classes := walk.Classes
	list, err := w.l.client.Buckets().Levels(ctx, walk, walkStep)
	if err != nil {
		return err
	}
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	now, k := time.Now(), &w.l.known
	for _, l := range list {
		k.saw(spot{classOf(l.Name), walk.Shard}, l, now)
	}
	for _, class := range classes[:len(classes)-len(walk.Classes)] {
		k.walkedThrough(spot{class, walk.Shard})
	}
	if len(walk.Classes) < len(classes) {
		k.gone(now)
	}
	return nil
}

// read reads as a whole some buckets of which more is to be known, unless that is done anyway, since they are looked at, and tells
// whether there were any.
func (w *sweep) read(ctx context.Context) (more bool, err error) {
	w.l.mu.Lock()
	names := slices.DeleteFunc(w.l.known.doubts(doubtsMost), func(name string) bool {
		is := w.l.buckets[name]
		if is == nil || time.Since(is.read) > wantedFor {
			return false
		}
		delete(w.l.known.suspects, name)
		return true
	})
	w.l.mu.Unlock()
	if len(names) == 0 {
		return false, nil
	}
	list, err := w.l.client.Buckets().Some(ctx, names)
	if err != nil && !errors.Is(err, queue.ErrInvalid) {
		return false, err
	}
	w.l.mu.Lock()
	defer w.l.mu.Unlock()
	for _, name := range names { // also those of classes that are gone, and what cannot be a name
		delete(w.l.known.suspects, name)
	}
	for _, b := range list {
		w.l.known.note(b, time.Now())
	}
	return true, nil
}

func (l *Live) sweptOnce() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.known.whole
}
