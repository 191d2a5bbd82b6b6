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
	w := x.workers[x.random.IntN(len(x.workers))]
	switch n := x.random.IntN(100); {
	case n < 26:
		x.submit(1)
	case n < 32:
		x.submit(2 + x.random.IntN(5))
	case n < 55:
		x.depart(w, x.random.IntN(5), [][]string{nil, nil, nil, {"one"}, {"two"}, {"two", "one"}}[x.random.IntN(6)], x.fate())
	case n < 70:
		x.settleSome(w)
	case n < 73:
		x.leave(w, x.fate())
		x.workers = slices.DeleteFunc(x.workers, func(v *exploreWorker) bool { return v == w })
		x.gone = append(x.gone, w)
		x.hire(x.client)
	case n < 80:
		x.operate()
	case n < 84:
		x.note("(a late call)")
		x.arrive()
	default:
		x.tick()
	}
}

func (x *explorer) randomBucket() (class, key string) {
	return []string{"one", "two"}[x.random.IntN(2)], []string{"a", "b"}[x.random.IntN(2)]
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
		x.judgeAnswers(results, f)
	})
}

// judgeAnswers: with no fault every answer is a receipt or says why not, and a receipt says what is there.
func (x *explorer) judgeAnswers(results []queue.Result, f fault) {
	s := look(x.m)
	for _, r := range results {
		if r.Err != nil {
			reason := queue.ReasonOf(r.Err)
			x.must(f != noFault || reason != queue.ReasonUnknown && reason != queue.ReasonUnavailable, "submit: %v", r.Err)
			continue
		}
		p, ok := s.places[r.Receipt.Ref]
		x.must(ok || r.Receipt.Status == queue.Duplicate, "%s was admitted and is nowhere", r.Receipt.Ref)
		x.must(r.Receipt.Status == queue.Duplicate || p.kind == "line" || p.kind == "later", "%s was admitted to %+v", r.Receipt.Ref, p)
		x.must(r.Receipt.Level <= r.Receipt.Capacity, "receipt tells level %d of %d", r.Receipt.Level, r.Receipt.Capacity)
	}
}

func (x *explorer) depart(w *exploreWorker, want int, classes []string, f fault) queue.Departures {
	var d queue.Departures
	x.do(act{kind: "depart", worker: w.name}, func(a *act) {
		var err error
		d, err = w.outlet.Depart(x.ctx, queue.Ask{Want: want, Classes: classes})
		x.note("%s departs %d of %v (%s): wait %v, returned %d, %v", w.name, want, classes, f, d.Wait, d.Returned, err)
		x.must(err == nil || f != noFault || errors.Is(err, queue.ErrRefused), "depart: %v", err)
		for _, j := range d.Jobs {
			x.note("    %s %s/%s %s due %d", j.Ref, j.Class, j.Key, j.Stamp, j.Due.UnixMicro())
			x.must(classes == nil || slices.Contains(classes, j.Class), "%s got a job of %s", w.name, j.Class)
			w.known = append(w.known, queue.Verdict{Ref: j.Ref, Stamp: j.Stamp})
		}
		a.reply = d.Jobs
		if err != nil {
			d.Wait = 0
			return
		}
		x.now = look(x.m)
		x.checkOut(w)
		if d.Returned == 0 && len(d.Jobs) < want && classes == nil {
			x.nothingOpen()
		}
	})
	return d
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
			v.Outcome = []queue.Outcome{queue.Done, queue.Done, queue.Dead, queue.Back}[x.random.IntN(4)]
			v.Stale, v.Error = v.Outcome == queue.Back && x.random.IntN(2) > 0, "it failed"
			verdicts = append(verdicts, v)
		}
	}
	if len(verdicts) > 0 {
		x.settle(w, verdicts, x.fate())
	}
}

func (x *explorer) settle(w *exploreWorker, verdicts []queue.Verdict, f fault) {
	for len(verdicts) > 0 {
		n := min(len(verdicts), queue.SettleMost)
		x.settleBatch(w, verdicts[:n], f)
		verdicts, f = verdicts[n:], noFault
	}
}

func (x *explorer) settleBatch(w *exploreWorker, verdicts []queue.Verdict, f fault) {
	a := act{kind: "settle", worker: w.name, settles: map[[2]string]queue.Outcome{}}
	for i := range verdicts {
		v := &verdicts[i]
		if v.Outcome == "" {
			v.Outcome = queue.Done
		}
		a.settles[[2]string{v.Ref, v.Stamp}] = v.Outcome
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

// operate is an operator's hand.
func (x *explorer) operate() {
	class, key := x.randomBucket()
	var err error
	switch x.random.IntN(6) {
	case 0:
		x.do(act{kind: "pause"}, func(*act) { err = x.operator.Buckets().Pause(x.ctx, class, key) })
		x.note("pause %s/%s", class, key)
	case 1:
		x.do(act{kind: "resume"}, func(*act) { err = x.operator.Buckets().Resume(x.ctx, class, key) })
		x.note("resume %s/%s", class, key)
	case 2:
		x.do(act{kind: "pause"}, func(*act) { err = x.operator.Classes().Pause(x.ctx, class) })
		x.note("pause %s", class)
	case 3:
		x.do(act{kind: "resume"}, func(*act) { err = x.operator.Classes().Resume(x.ctx, class) })
		x.note("resume %s", class)
	case 4:
		x.do(act{kind: "purge", bucket: class + "/" + key}, func(*act) { _, err = x.operator.Buckets().Purge(x.ctx, class, key) })
		x.note("purge %s/%s", class, key)
	case 5:
		c := x.randomClass(class)
		x.do(act{kind: "put"}, func(*act) { x.put(c) })
		x.note("put %s %v capacity %d catch up %v max wait %v", class, c.Rate, c.Capacity, c.CatchUp, c.MaxWait)
	}
	x.must(err == nil, "operate: %v", err)
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
