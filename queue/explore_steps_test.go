package queue_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spout-queue/spout/queue"
)

// step does one random thing.
func (x *explorer) step() {
	if x.rolls {
		x.roll()
	}
	w := x.workers[x.random.IntN(len(x.workers))]
	switch n := x.random.IntN(100); {
	case n < 24:
		x.submit(1)
	case n < 30:
		x.submit(2 + x.random.IntN(5))
	case n < 53:
		ask := queue.Ask{Want: x.random.IntN(5), Suspect: x.random.IntN(2) == 0}
		ask.Classes = [][]string{nil, nil, nil, {"one"}, {"two"}, {"two", "one"}}[x.random.IntN(6)]
		x.depart(w, ask, x.fate())
	case n < 69:
		x.settleSome(w)
	case n < 72:
		x.quit(w)
	case n < 77:
		x.operate()
	case n < 82:
		x.handle()
	case n < 85:
		x.note("(a late call)")
		x.arrive()
	case n < 88, x.crashy && n < 95:
		x.watch()
	default:
		x.tick()
	}
}

// quit ends a worker's life: it leaves, or it just stops. Another one comes in its place.
func (x *explorer) quit(w *exploreWorker) {
	if x.random.IntN(3) > 0 {
		x.leave(w, x.fate())
	} else {
		x.note("%s dies", w.name)
	}
	x.workers = slices.DeleteFunc(x.workers, func(v *exploreWorker) bool { return v == w })
	x.gone = append(x.gone, w)
	x.hire(x.client)
}

func (x *explorer) randomBucket() (class, key string) {
	return []string{"one", "two"}[x.random.IntN(2)], []string{"a", "b"}[x.random.IntN(2)]
}

func (x *explorer) randomClass(name string) queue.Class {
	pick := func(d ...time.Duration) time.Duration { return d[x.random.IntN(len(d))] }
	number := func(n ...int) int { return n[x.random.IntN(len(n))] }
	rates := []queue.Rate{{10_000, time.Second}, {1000, time.Second}, {7, time.Second}, {1, time.Second}, {3, time.Hour}}
	c := queue.NewClass(name, 1+x.random.IntN(6), rates[x.random.IntN(len(rates))])
	c.CatchUp = pick(0, 5*time.Millisecond, 50*time.Millisecond)
	c.MaxWait = pick(0, 0, 3*c.Rate.Interval()+time.Millisecond)
	c.Dedup = pick(0, 24*time.Hour)
	c.Retry.Order = []queue.Order{queue.Park, queue.Hold, queue.Tail}[x.random.IntN(3)]
	c.Retry.MaxAttempts = number(1, 2, 5)
	c.Retry.Backoff = pick(time.Millisecond, time.Second)
	c.Retry.MaxBackoff = c.Retry.Backoff // see delayOf
	c.MaxInFlight = number(0, 0, 1, 2)
	c.MaxCrashes = number(1, 2, 3)
	c.Retention = pick(0, time.Hour)
	c.Dead = queue.DeadLimits{Max: number(0, 1, 2, 100), Keep: pick(720*time.Hour, 10*time.Second)}
	if x.random.IntN(3) == 0 {
		c.Overflow = queue.DropOldest
	}
	return c
}

// tick moves the clock: a little, to around a departure, or past many; seldom back a little.
func (x *explorer) tick() {
	class, _ := x.randomBucket()
	interval := int64(intervalOf(x.classes[class].Rate))
	steps := []int64{1, 20, 4999, 5001, interval / 3, interval, interval + 1, 3 * interval, 20 * interval, -1, -700}
	us := steps[x.random.IntN(len(steps))]
	x.note("tick %d", us)
	x.advance(us)
}

func (x *explorer) randomJob() queue.Job {
	if len(x.ids) > 0 && x.random.IntN(5) == 0 {
		job := x.ids[x.random.IntN(len(x.ids))]
		if x.random.IntN(5) == 0 {
			job.Payload = []byte(`"other"`)
		}
		return job
	}
	job := queue.Job{ID: fmt.Sprint("j", len(x.ids)), Payload: []byte(`"it"`)}
	job.Class, job.Key = x.randomBucket()
	interval := x.classes[job.Class].Rate.Interval()
	if x.random.IntN(4) == 0 {
		job.NotBefore = time.UnixMicro(x.clock).Add(time.Duration(x.random.Int64N(int64(4 * interval))))
	}
	if x.random.IntN(4) == 0 {
		job.MaxWait = time.Duration(x.random.Int64N(int64(5*interval))) + time.Millisecond
	}
	x.ids = append(x.ids, job)
	return job
}

func (x *explorer) submit(n int) {
	jobs := make([]queue.Job, n)
	for i := range jobs {
		jobs[i] = x.randomJob()
	}
	f := x.fate()
	x.do(act{kind: "submit"}, func(a *act) {
		results := x.client.SubmitMany(x.ctx, jobs)
		for i, r := range results {
			a.refs = append(a.refs, r.Receipt.Ref)
			x.note("submit %s/%s %s not before %d max wait %v (%s): %s %s position %d %v", jobs[i].Class, jobs[i].Key,
				jobs[i].ID, jobs[i].NotBefore.UnixMicro(), jobs[i].MaxWait, f, r.Receipt.Ref, r.Receipt.Status, r.Receipt.Position, r.Err)
		}
		x.judgeAnswers(jobs, results, f)
	})
}

// judgeAnswers: with no fault every answer is a receipt or says why not, and a receipt says what is there.
func (x *explorer) judgeAnswers(jobs []queue.Job, results []queue.Result, f fault) {
	s := look(x.m)
	for i, r := range results {
		if r.Err != nil {
			reason := queue.ReasonOf(r.Err)
			x.must(f != noFault || reason != queue.ReasonUnknown && reason != queue.ReasonUnavailable, "submit: %v", r.Err)
			continue
		}
		if x.classes[jobs[i].Class].Overflow == queue.DropOldest { // the next one may have taken its place
			continue
		}
		p, ok := s.places[r.Receipt.Ref]
		x.must(ok || r.Receipt.Status == queue.Duplicate, "%s was admitted and is nowhere", r.Receipt.Ref)
		x.must(r.Receipt.Status == queue.Duplicate || p.kind == "line" || p.kind == "later", "%s was admitted to %+v", r.Receipt.Ref, p)
		x.must(r.Receipt.Level <= r.Receipt.Capacity, "receipt tells level %d of %d", r.Receipt.Level, r.Receipt.Capacity)
	}
}

func (x *explorer) depart(w *exploreWorker, ask queue.Ask, f fault) queue.Departures {
	var d queue.Departures
	var err error
	x.do(act{kind: "depart", worker: w.name, suspect: ask.Suspect}, func(a *act) {
		d, err = w.outlet.Depart(x.ctx, ask)
		x.note("%s departs %d of %v, suspect %v (%s): wait %v, returned %d, %v", w.name, ask.Want, ask.Classes, ask.Suspect, f,
			d.Wait, d.Returned, err)
		x.must(err == nil || f != noFault || errors.Is(err, queue.ErrRefused), "depart: %v", err)
		for _, j := range d.Jobs {
			x.note("    %s %s/%s %s due %d", j.Ref, j.Class, j.Key, j.Stamp, j.Due.UnixMicro())
			x.must(ask.Classes == nil || slices.Contains(ask.Classes, j.Class), "%s got a job of %s", w.name, j.Class)
			w.known = append(w.known, queue.Verdict{Ref: j.Ref, Stamp: j.Stamp})
		}
		if err == nil {
			a.reply = &d
			x.departed(w, ask, d)
		}
	})
	if err != nil {
		if beat := x.now.workers[w.name]; errors.Is(err, queue.ErrRefused) && (beat == "" || beat[0] == '-') { // it begins anew
			w.heard, w.anew = 0, len(w.known)
		}
		return queue.Departures{}
	}
	if d.Rollback != nil {
		x.reconcile(w)
	}
	x.checkOut(w)
	return d
}

// departed notes what a worker heard, and looks for what it should have got.
func (x *explorer) departed(w *exploreWorker, ask queue.Ask, d queue.Departures) {
	x.now = look(x.m)
	w.heard = parse(x.now.workers[w.name])
	for _, ref := range d.Cancelled {
		if p := x.now.places[ref]; p.worker == w.name {
			w.told[p.stamp] = true
		}
	}
	suspects := 0
	if ask.Suspect && !slices.ContainsFunc(d.Jobs, func(j queue.Departure) bool { return j.Suspect }) {
		suspects = 1
	}
	if d.Returned == 0 && len(d.Jobs) < ask.Want && ask.Classes == nil {
		x.nothingOpen(suspects)
	}
}

// settleSome settles some departures that a worker knows of or, seldom, that another one has; some of them repeatedly.
func (x *explorer) settleSome(w *exploreWorker) {
	source := w
	if x.random.IntN(8) == 0 {
		all := slices.Concat(x.workers, x.gone)
		source = all[x.random.IntN(len(all))]
	}
	if x.random.IntN(8) == 0 {
		w = source // one that has left, perhaps
	}
	var verdicts []queue.Verdict
	for _, v := range source.known[max(0, len(source.known)-6):] {
		if x.random.IntN(2) > 0 {
			verdicts = append(verdicts, x.randomVerdict(v))
		}
	}
	if len(verdicts) > 0 {
		x.settle(w, verdicts, x.fate())
	}
}

func (x *explorer) randomVerdict(v queue.Verdict) queue.Verdict {
	all := []queue.Outcome{queue.Done, queue.Done, queue.Failed, queue.Failed, queue.Failed, queue.Dead, queue.Back, queue.Stopped, queue.Held}
	v.Outcome = all[x.random.IntN(len(all))]
	v.Stale, v.Error = v.Outcome == queue.Back && x.random.IntN(2) > 0, "it failed"
	if x.random.IntN(2) == 0 {
		class, _ := x.randomBucket()
		after := x.classes[class].Rate.Interval() * time.Duration(x.random.IntN(4)) / 2
		v.RetryAfter = &after
	}
	if v.Outcome == queue.Held {
		class, _ := x.randomBucket()
		v.Hold = x.classes[class].Rate.Interval() * time.Duration(x.random.IntN(6)) / 2
	}
	return v
}

func (x *explorer) settle(w *exploreWorker, verdicts []queue.Verdict, f fault) {
	for len(verdicts) > 0 {
		n := min(len(verdicts), queue.SettleMost)
		x.settleBatch(w, verdicts[:n], f)
		verdicts, f = verdicts[n:], noFault
	}
}

func (x *explorer) settleBatch(w *exploreWorker, verdicts []queue.Verdict, f fault) {
	a := act{kind: "settle", worker: w.name, settles: map[[2]string]queue.Verdict{}}
	for i := range verdicts {
		v := &verdicts[i]
		if v.Outcome == "" {
			v.Outcome = queue.Done
		}
		a.settles[[2]string{v.Ref, v.Stamp}] = *v
	}
	before := x.now
	x.do(a, func(*act) {
		taken, err := w.outlet.Settle(x.ctx, verdicts)
		x.must(err == nil || f != noFault, "settle: %v", err)
		for i, v := range verdicts {
			x.note("%s settles %s %s %s (%s): %v %v", w.name, v.Ref, v.Stamp, v.Outcome, f, taken, err)
			if err == nil && f == noFault {
				p := before.places[v.Ref]
				out := p.kind == "out" && p.worker == w.name && p.stamp == v.Stamp
				x.must(taken[i] == out, "settle of %s said %v; it was %+v", v.Ref, taken[i], p)
			}
		}
	})
}

func (x *explorer) leave(w *exploreWorker, f fault) {
	x.do(act{kind: "leave", worker: w.name}, func(*act) {
		n, err := w.outlet.Leave(x.ctx)
		x.note("%s leaves (%s): %d %v", w.name, f, n, err)
		x.must(err == nil || f != noFault, "leave: %v", err)
	})
}
