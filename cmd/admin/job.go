package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/queue"
)

func jobList(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "ls", Usage: "list jobs of a class or of a bucket", Args: "CLASS[/KEY]", Least: 1, Most: 1,
		Description: `Waiting jobs in the order in which they leave their bucket, dead ones the newest first, with their error; to page through
those, use dead ls.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "state", Value: "waiting", Usage: "which `STATE`: waiting or dead"},
			&cli.IntFlag{Name: "limit", Value: 100, Usage: "most `JOBS` to list"},
		},
		Run: runJobList,
	})
}

func runJobList(ctx context.Context, s *command.Session) error {
	limit, err := limitOf(s)
	if err != nil {
		return err
	}
	state := s.Flags.String("state")
	if state != "waiting" && state != "dead" {
		return s.Wrong("state", fmt.Errorf("%q is neither waiting nor dead", state))
	}
	ctx, t, op, err := openTarget(ctx, s)
	if err != nil {
		return err
	}
	jobs, err := op.Jobs(ctx, t, state == "dead", limit)
	if err != nil {
		return err
	}
	if state == "dead" {
		return answer.List(s.Printer, jobs, deadColumns()...)
	}
	return answer.List(s.Printer, jobs, append(nameColumns(),
		jobColumn{Name: "state", Cell: func(j queue.JobState) any { return j.State }},
		jobColumn{Name: "position", Cell: func(j queue.JobState) any { return orNothing(j.Position) }},
		jobColumn{Name: "admitted", Cell: func(j queue.JobState) any { return moment(j.AdmittedAt) }})...)
}

type jobColumn = answer.Column[queue.JobState]

// nameColumns say which job it is.
func nameColumns() []jobColumn {
	return []jobColumn{
		{Name: "ref", Cell: func(j queue.JobState) any { return j.Ref }},
		{Name: "bucket", Cell: func(j queue.JobState) any { return j.Class + "/" + j.Key }},
		{Name: "id", Cell: func(j queue.JobState) any { return j.ID }},
		{Name: "type", Cell: func(j queue.JobState) any { return j.Type }},
	}
}

// deadColumns list dead jobs.
func deadColumns() []jobColumn {
	return append(nameColumns(),
		jobColumn{Name: "attempts", Cell: func(j queue.JobState) any { return orNothing(j.Attempts) }},
		jobColumn{Name: "ended", Cell: func(j queue.JobState) any { return moment(j.EndedAt) }},
		jobColumn{Name: "error", Cell: func(j queue.JobState) any { return j.Error }})
}

// orNothing shows a zero as nothing.
func orNothing[T cmp.Ordered](v T) any {
	var zero T
	if v == zero {
		return ""
	}
	return v
}

// moment shows a time, and one that is not known as nothing.
func moment(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(queue.TimeFormat)
}
