package queue_test

import (
	"errors"
	"slices"
	"time"

	"github.com/spout-queue/spout/queue"
)

// operate is an operator's hand on classes and buckets.
func (x *explorer) operate() {
	class, key := x.randomBucket()
	buckets, classes := x.operator.Buckets(), x.operator.Classes()
	var err error
	hand := func(what string, call func() error) {
		x.note("%s %s/%s", what, class, key)
		x.do(act{kind: "hand"}, func(*act) { err = call() })
	}
	switch x.random.IntN(10) {
	case 0:
		hand("pause", func() error { return buckets.Pause(x.ctx, class, key) })
	case 1:
		hand("resume", func() error { return buckets.Resume(x.ctx, class, key) })
	case 2:
		hand("drain", func() error { return buckets.Drain(x.ctx, class, key) })
	case 3:
		x.hold(class, key)
	case 4:
		x.unhold(class, key)
	case 5:
		hand("pause the class of", func() error { return classes.Pause(x.ctx, class) })
	case 6:
		hand("drain the class of", func() error { return classes.Drain(x.ctx, class) })
	case 7:
		hand("resume the class of", func() error { return classes.Resume(x.ctx, class) })
	case 8:
		x.do(act{kind: "purge", bucket: class + "/" + key}, func(*act) { _, err = buckets.Purge(x.ctx, class, key) })
		x.note("purge %s/%s", class, key)
	case 9:
		c := x.randomClass(class)
		x.note("put %+v", c)
		x.do(act{kind: "hand"}, func(*act) { x.put(c) })
	}
	x.must(err == nil, "operate: %v", err)
}

func (x *explorer) hold(class, key string) {
	until := x.clock + x.random.Int64N(4*int64(intervalOf(x.classes[class].Rate)))
	x.note("hold %s/%s until %d", class, key, until)
	x.do(act{kind: "hand"}, func(*act) {
		err := x.operator.Buckets().Hold(x.ctx, class, key, time.UnixMicro(until))
		x.must(err == nil, "hold: %v", err)
		x.closed[class+"/"+key] = until
	})
}

func (x *explorer) unhold(class, key string) {
	x.note("unhold %s/%s", class, key)
	x.do(act{kind: "hand"}, func(*act) {
		err := x.operator.Buckets().Unhold(x.ctx, class, key)
		x.must(err == nil, "unhold: %v", err)
		delete(x.closed, class+"/"+key)
		for ref, p := range x.now.places {
			if p.bucket == class+"/"+key {
				delete(x.notBefore, ref)
			}
		}
	})
}

// handle is somebody's hand on one job, or on the dead.
func (x *explorer) handle() {
	class, key := x.randomBucket()
	switch n := x.random.IntN(20); {
	case n < 10:
		x.cancel(x.randomRef(func(p place) bool { return !p.over() }))
	case n < 15:
		x.revive(x.randomRef(func(p place) bool { return p.kind == "dead" }))
	case n < 16:
		x.reviveAll(class)
	case n < 18:
		x.trim(class)
	case n < 19:
		x.purgeDead(class, "")
	default:
		x.purgeDead(class, key)
	}
}

// randomRef picks a job, mostly one whose place is as wanted.
func (x *explorer) randomRef(wanted func(place) bool) string {
	refs := sortedKeys(x.now.places)
	if x.random.IntN(8) > 0 {
		refs = slices.DeleteFunc(refs, func(ref string) bool { return !wanted(x.now.places[ref]) })
	}
	if len(refs) == 0 {
		return "0-AAAAAAAAAAAAAAAAAAAAAA"
	}
	return refs[x.random.IntN(len(refs))]
}

func (x *explorer) cancel(ref string) {
	f := x.fate()
	was := x.now.places[ref]
	x.do(act{kind: "cancel", refs: []string{ref}}, func(*act) {
		state, err := x.client.Cancel(x.ctx, ref)
		x.note("cancel %s (%s): %s %v", ref, f, state, err)
		if f != noFault {
			return
		}
		flagged := was.kind == "out" && look(x.m).records[ref].cancel
		switch {
		case was.waits():
			x.must(err == nil && state == queue.Cancelled, "cancel of %s, which was %+v: %s %v", ref, was, state, err)
		case was.kind == "out":
			x.must(err == nil && state == queue.Out && flagged, "cancel of %s, which was %+v: %s %v", ref, was, state, err)
		case was.kind == "dead":
			x.must(errors.Is(err, queue.ErrConflict), "cancel of %s, which is dead: %s %v", ref, state, err)
		default:
			x.must(errors.Is(err, queue.ErrNotFound), "cancel of %s, which is gone: %s %v", ref, state, err)
		}
	})
}

func (x *explorer) revive(ref string) {
	f := x.fate()
	was := x.now.places[ref]
	x.do(act{kind: "revive", refs: []string{ref}}, func(*act) {
		r, err := x.client.Dead().Retry(x.ctx, ref)
		x.note("revive %s (%s): %d of %d, %v", ref, f, r.Level, r.Capacity, err)
		if f != noFault {
			return
		}
		is := look(x.m).places[ref]
		x.must((err == nil) == (was.kind == "dead" && is.kind == "line"), "revive of %s, which was %+v and is %+v: %v", ref, was, is, err)
		x.must(was.kind == "dead" || errors.Is(err, queue.ErrNotFound), "revive of %s, which is not dead: %v", ref, err)
	})
}

// deadOf lists the dead jobs of a class.
func (x *explorer) deadOf(class string) (refs []string) {
	for ref, p := range x.now.places {
		if p.kind == "dead" && x.classOf(x.now.records[ref].bucket).Name == class {
			refs = append(refs, ref)
		}
	}
	return refs
}

func (x *explorer) reviveAll(class string) {
	x.do(act{kind: "revive", refs: x.deadOf(class)}, func(*act) {
		sum, err := x.operator.Dead().RetryAll(x.ctx, class, "", time.Time{}, nil)
		x.note("revive all of %s: %+v %v", class, sum, err)
		x.must(err == nil || errors.Is(err, queue.ErrDraining), "revive all: %v", err)
	})
}

func (x *explorer) trim(class string) {
	x.do(act{kind: "trim"}, func(*act) {
		err := x.operator.Dead().Trim(x.ctx, x.classes[class])
		x.note("trim %s: %v", class, err)
		x.must(err == nil, "trim: %v", err)
		x.must(look(x.m).class[class].dead <= x.classes[class].Dead.Max, "%s keeps too many dead jobs", class)
	})
}

func (x *explorer) purgeDead(class, key string) {
	bucket := class
	if key != "" {
		bucket += "/" + key
	}
	x.do(act{kind: "dead purge", bucket: bucket}, func(*act) {
		n, err := x.operator.Dead().Purge(x.ctx, class, key)
		x.note("purge the dead of %s: %d %v", bucket, n, err)
		x.must(err == nil, "purge the dead: %v", err)
	})
}

// watch is what workers do for each other: one looks at another's beat, or reclaims what it has out because its beat has
// not moved since somebody looked.
func (x *explorer) watch() {
	all := slices.Concat(x.workers, x.gone)
	w := all[x.random.IntN(len(all))]
	if w.sight.beat == "" || x.random.IntN(2) == 0 {
		beats, err := x.operator.Beats(x.ctx, 0)
		x.must(err == nil, "beats: %v", err)
		for _, v := range all {
			if v == w || v.sight.beat == "" {
				v.sight = sight{beats[v.name], x.moved[v.name]}
			}
		}
	}
	if w.sight.beat != "" && x.random.IntN(5) > 0 {
		x.reclaim(w, x.fate())
	}
}

func (x *explorer) reclaim(w *exploreWorker, f fault) {
	saw := w.sight
	lives := x.moved[w.name] != saw.moves
	x.do(act{kind: "reclaim", worker: w.name, moves: saw.moves}, func(*act) {
		r, err := x.client.Reclaim(x.ctx, 0, w.name, saw.beat)
		x.note("reclaim %s, beat %s (%s): %+v %v", w.name, saw.beat, f, r, err)
		x.must(err == nil || f != noFault, "reclaim: %v", err)
		x.must(f != noFault || r.Refused == lives, "reclaim of %s: %+v; it has called since: %v", w.name, r, lives)
	})
}

// arrive lets a delayed call reach Redis.
func (x *explorer) arrive() {
	if len(x.held) == 0 {
		return
	}
	i := x.random.IntN(len(x.held))
	a, call := x.held[i], x.line.held[i]
	x.held = append(x.held[:i:i], x.held[i+1:]...)
	x.line.held = append(x.line.held[:i:i], x.line.held[i+1:]...)
	a.reply = nil
	x.do(a, func(*act) { _ = call(x.ctx) })
	x.note("late %s of %s", a.kind, a.worker)
}
