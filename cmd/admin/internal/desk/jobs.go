package desk

import (
	"context"
	"fmt"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/queue"
)

// Submit puts a job into its bucket. Submissions are no changes: the books count them.
func (d *Desk) Submit(ctx context.Context, job queue.Job) (queue.Receipt, error) {
	if err := allow(ctx, access.Operator, job.Class); err != nil {
		return queue.Receipt{}, err
	}
	if d.trace == nil {
		return d.client.Submit(ctx, job)
	}
	ctx, end := d.trace(ctx, &job)
	receipt, err := d.client.Submit(ctx, job)
	end(receipt, err)
	return receipt, err
}

// SubmitMany submits many, each answered on its own.
func (d *Desk) SubmitMany(ctx context.Context, jobs []queue.Job) []queue.Result {
	results := make([]queue.Result, len(jobs))
	allowed, places := make([]queue.Job, 0, len(jobs)), make([]int, 0, len(jobs))
	for i, job := range jobs {
		if results[i].Err = allow(ctx, access.Operator, job.Class); results[i].Err == nil {
			allowed, places = append(allowed, job), append(places, i)
		}
	}
	for i, r := range d.client.SubmitMany(ctx, allowed) {
		results[places[i]] = r
	}
	return results
}

// Job reads one job. One of a class that the person does not see is not found.
func (d *Desk) Job(ctx context.Context, ref string) (queue.JobState, error) {
	if err := access.From(ctx).Check(access.Viewer); err != nil {
		return queue.JobState{}, err
	}
	job, err := d.client.Job(ctx, ref)
	if err == nil && !access.From(ctx).Sees(job.Class) {
		return queue.JobState{}, fmt.Errorf("%w: job %s: it has ended, or never was", queue.ErrNotFound, ref)
	}
	return job, err
}

// Await waits until a job has ended; see [queue.Client.Await].
func (d *Desk) Await(ctx context.Context, ref string) (queue.Ending, error) {
	if _, err := d.Job(ctx, ref); err != nil {
		return queue.Ending{}, err
	}
	return d.client.Await(ctx, ref)
}

// Cancel ends a job that waits or is out, and tells where it was.
func (d *Desk) Cancel(ctx context.Context, ref string) (queue.State, error) {
	var state queue.State
	return state, d.job(ctx, "cancel", ref, func(was queue.JobState) (after any, err error) {
		if state, err = d.client.Cancel(ctx, ref); err == nil && state == queue.Out && was.Cancelling {
			return nil, nil // it was told before
		}
		return map[string]any{"was": state}, err
	})
}

// Retry sends a dead job round again.
func (d *Desk) Retry(ctx context.Context, ref string) (queue.Receipt, error) {
	var receipt queue.Receipt
	return receipt, d.job(ctx, "retry", ref, func(queue.JobState) (after any, err error) {
		receipt, err = d.client.Dead().Retry(ctx, ref)
		return receipt, err
	})
}

// job changes one job. Where do has nothing to tell, there was no change.
func (d *Desk) job(ctx context.Context, action, ref string, do func(was queue.JobState) (after any, err error)) error {
	if err := access.From(ctx).Check(access.Operator); err != nil {
		return err
	}
	job, err := d.Job(ctx, ref)
	if err != nil {
		return err
	}
	after, err := do(job)
	if err == nil && after == nil || err != nil && nothingDone(err) {
		return err
	}
	d.note(ctx, action+" job", Target{Class: job.Class, Key: job.Key}, jobName{ref, job.ID, job.State}, after, err)
	return err
}

// jobName is what the log of changes keeps of a job: never its payload.
type jobName struct {
	Ref   string      `json:"ref"`
	ID    string      `json:"id"`
	State queue.State `json:"state"`
}

// Purge drops what waits in a target.
func (d *Desk) Purge(ctx context.Context, t Target) (int, error) {
	return d.drop(ctx, "purge", t, func() (int, error) {
		if t.Key == "" {
			return d.client.Classes().PurgeWaiting(ctx, t.Class)
		}
		return d.client.Buckets().Purge(ctx, t.Class, t.Key)
	})
}

// PurgeDead drops the dead jobs of a target.
func (d *Desk) PurgeDead(ctx context.Context, t Target) (int, error) {
	return d.drop(ctx, "purge dead", t, func() (int, error) { return d.client.Dead().Purge(ctx, t.Class, t.Key) })
}

func (d *Desk) drop(ctx context.Context, action string, t Target, do func() (int, error)) (int, error) {
	if err := allow(ctx, access.Admin, t.Class); err != nil {
		return 0, err
	}
	n, err := do()
	if n > 0 || err != nil && !nothingDone(err) {
		d.note(ctx, action, t, nil, map[string]int{"purged": n}, err)
	}
	return n, err
}

// RetryDead sends the dead jobs of a target that died before a time round again, once; progress is told on the way.
func (d *Desk) RetryDead(ctx context.Context, t Target, until time.Time, progress func(queue.Revival)) (queue.Revival, error) {
	if err := allow(ctx, access.Operator, t.Class); err != nil {
		return queue.Revival{}, err
	}
	done, err := d.client.Dead().RetryAll(ctx, t.Class, t.Key, until, progress)
	if done.Retried > 0 || err != nil && !nothingDone(err) { // who asks again and again would push what others changed out of the log
		d.note(ctx, "retry dead", t, nil, map[string]int{"retried": done.Retried, "left": done.Left}, err)
	}
	return done, err
}
