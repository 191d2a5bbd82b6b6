package main

import (
	"cmp"
	"context"
	"errors"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/queue"
)

func jobGet(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "get", Usage: "show the life of one job: where it is, its attempts, its result", Args: "REF", Least: 1, Most: 1,
		Description: `The ref of a job is in its receipt and in job ls. A job that has ended is known for the retention of its class, a dead
one until it goes round again or is removed; after that, only what the dedup of its class remembers. The estimated start is
what its receipt told; when the bucket of a job that waits is closed now, it says until when and why. Of each attempt that
ended it tells when it departed, how much later than due it started (lateness), and what became of it; the last 100 are kept.`,
		Run: func(ctx context.Context, s *command.Session) error {
			ctx, op, err := open(ctx, s)
			if err != nil {
				return err
			}
			job, err := op.Job(ctx, s.Flags.Args().First())
			if err != nil {
				return err
			}
			closed, err := whyItWaits(ctx, op, job)
			if err != nil {
				return err
			}
			return showJob(s.Printer, job, closed)
		},
	})
}

// whyItWaits is the status of the bucket that a job waits in, when that is not open.
func whyItWaits(ctx context.Context, op operator, job queue.JobState) (string, error) {
	if job.State != queue.Line && job.State != queue.Later {
		return "", nil
	}
	bucket, err := op.Bucket(ctx, target{Class: job.Class, Key: job.Key})
	if errors.Is(err, queue.ErrUnknownClass) { // a class can be removed while a job of it is looked at
		return "", nil
	}
	if status := bucketStatus(bucket); status != orOpen(nil) {
		return status, err
	}
	return "", err
}

// showJob prints the fields of a job and, for people, its attempts below them.
func showJob(p *answer.Printer, job queue.JobState, closed string) error {
	if err := answer.One(p, job, jobColumns(closed)...); err != nil || p.JSON() || len(job.History) == 0 {
		return err
	}
	title := p.Linef("")
	if first := job.History[0].Number; first > 1 {
		title = p.Linef("\nthe first %d attempts are not kept", first-1)
	}
	return cmp.Or(title, answer.List(p, job.History, attemptColumns()...))
}

func jobColumns(closed string) []jobColumn {
	return append(nameColumns(),
		jobColumn{Name: "state", Cell: jobStatus},
		jobColumn{Name: "position", Cell: func(j queue.JobState) any { return orNothing(j.Position) }},
		jobColumn{Name: "admitted", Cell: func(j queue.JobState) any { return moment(j.AdmittedAt) }},
		jobColumn{Name: "estimated start", Cell: func(j queue.JobState) any { return moment(j.EstimatedStart) }},
		jobColumn{Name: "bucket is", Cell: func(queue.JobState) any { return closed }},
		jobColumn{Name: "not before", Cell: func(j queue.JobState) any { return moment(j.NotBefore) }},
		jobColumn{Name: "expires", Cell: func(j queue.JobState) any { return moment(j.ExpiresAt) }},
		jobColumn{Name: "worker", Cell: func(j queue.JobState) any { return j.Worker }},
		jobColumn{Name: "departed", Cell: func(j queue.JobState) any { return moment(j.DepartedAt) }},
		jobColumn{Name: "attempts", Cell: func(j queue.JobState) any { return orNothing(j.Attempts) }},
		jobColumn{Name: "crashes", Cell: func(j queue.JobState) any { return orNothing(j.Crashes) }},
		jobColumn{Name: "given back", Cell: func(j queue.JobState) any { return orNothing(j.GivenBack) }},
		jobColumn{Name: "ended", Cell: func(j queue.JobState) any { return moment(j.EndedAt) }},
		jobColumn{Name: "error", Cell: func(j queue.JobState) any { return j.Error }},
		jobColumn{Name: "payload", Cell: func(j queue.JobState) any { return string(j.Payload) }},
		jobColumn{Name: "result", Cell: func(j queue.JobState) any { return string(j.Result) }})
}

func jobStatus(j queue.JobState) any {
	if j.Cancelling && j.State == queue.Out {
		return string(j.State) + ", told to end"
	}
	return j.State
}

func attemptColumns() []answer.Column[queue.Attempt] {
	type column = answer.Column[queue.Attempt]
	return []column{
		{Name: "attempt", Cell: func(a queue.Attempt) any { return a.Number }},
		{Name: "departed", Cell: func(a queue.Attempt) any { return moment(a.Departed) }},
		{Name: "lateness", Cell: func(a queue.Attempt) any {
			if late, known := a.Lateness(); known {
				return late
			}
			return ""
		}},
		{Name: "started", Cell: func(a queue.Attempt) any { return moment(a.Started) }},
		{Name: "ended", Cell: func(a queue.Attempt) any { return moment(a.Ended) }},
		{Name: "outcome", Cell: func(a queue.Attempt) any { return a.Outcome }},
		{Name: "worker", Cell: func(a queue.Attempt) any { return a.Worker }},
		{Name: "error", Cell: func(a queue.Attempt) any { return a.Error }},
	}
}

// cancelled is the answer to job cancel.
type cancelled struct {
	Ref   string      `json:"ref"`
	State queue.State `json:"state"`
	// Cancelling: it is out, and was told to end.
	Cancelling bool `json:"cancelling,omitempty"`
}

func jobCancel(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "cancel", Usage: "end a job that waits or is out", Args: "REF", Least: 1, Most: 1,
		Description: `A job that waits is gone at once and never starts. One that is out is told to end: its handler's context is cancelled, and
should it end well nevertheless, it is done. For a job that has ended, is dead or never was, the exit status is 65.`,
		Run: func(ctx context.Context, s *command.Session) error {
			ctx, op, err := open(ctx, s)
			if err != nil {
				return err
			}
			ref := s.Flags.Args().First()
			state, err := op.Cancel(ctx, ref)
			if err != nil {
				return err
			}
			said := "job %s waited and is gone"
			if state == queue.Out {
				said = "job %s is out and was told to end"
			}
			return errors.Join(s.Object(cancelled{ref, state, state == queue.Out}), s.Linef(said, ref))
		},
	})
}

func jobRetry(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "retry", Usage: "send a dead job round again and print its receipt", Args: "REF", Least: 1, Most: 1,
		Description: `It goes to the tail of its bucket, with all its attempts before it. When there is no room the exit status is 75; a job that
is not dead is not found, exit status 65. For many of them, use dead retry.`,
		Run: func(ctx context.Context, s *command.Session) error {
			ctx, op, err := open(ctx, s)
			if err != nil {
				return err
			}
			receipt, err := op.Retry(ctx, s.Flags.Args().First())
			if err != nil {
				return err
			}
			return answer.Receipt(s.Printer, receipt)
		},
	})
}
