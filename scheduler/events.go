package scheduler

import (
	"context"

	"github.com/spout-queue/spout/queue"
)

// Events returns an [Observer] that passes on what becomes of jobs as events: started; then done, failed, held or cancelled; dead once Redis
// has taken that; and what became of jobs whose worker is gone, which cannot tell any more. A departure that goes back unstarted or
// undecided is none. Tell is called on the worker's own goroutines, with the result of a done job, which is not
// to be changed. The time of an event is left to who tells, and its error is as long as it is.
func Events(tell func(e queue.Event, result []byte)) Observer {
	event := func(a *Attempt, what, why string) queue.Event {
		return queue.Event{What: what, Class: a.Class, Key: a.Key, ID: a.ID, Ref: a.Ref, Attempt: a.Attempt, Error: why}
	}
	return Observer{
		Started: func(ctx context.Context, a *Attempt) context.Context {
			tell(event(a, "started", ""), nil)
			return ctx
		},
		Ended: func(_ context.Context, a *Attempt, e End) {
			switch e.Outcome {
			case queue.Done:
				tell(event(a, "done", ""), e.Result)
			case queue.Failed, queue.Dead:
				tell(event(a, "failed", e.Error), nil)
			case queue.Stopped:
				tell(event(a, "cancelled", e.Error), nil)
			case queue.Held:
				held := event(a, "held", e.Error)
				held.Until = a.Started.Add(e.Run + e.Hold).UTC() // by the server's clock, as everywhere
				held.WholeClass = e.HoldClass
				tell(held, nil)
			case queue.Back: // it goes on where it was
			}
		},
		Buried:    func(a *Attempt, why string) { tell(event(a, "dead", why), nil) },
		Reclaimed: func(r queue.Reclaimed) { tellCrashes(r.Crashed, tell) },
	}
}

func tellCrashes(crashes []queue.Crash, tell func(queue.Event, []byte)) {
	for _, c := range crashes {
		e := queue.Event{What: "failed", Class: c.Class, Key: c.Key, ID: c.ID, Ref: c.Ref, Attempt: c.Attempt, Error: c.Error}
		if c.State != queue.Cancelled {
			tell(e, nil)
		}
		if c.State != queue.Line {
			e.What = string(c.State) // dead or cancelled
			tell(e, nil)
		}
	}
}
