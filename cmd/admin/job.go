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
		Description: `Waiting jobs in the order in which they leave their bucket, dead ones the newest first, with their error.`,
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
	t, client, _, err := openTarget(ctx, s)
	if err != nil {
		return err
	}
	jobs, err := client.Jobs(ctx, t.class, t.key, state == "dead", limit)
	if err != nil {
		return err
	}
	columns := []jobColumn{
		{Name: "ref", Cell: func(j queue.JobState) any { return j.Ref }},
		{Name: "bucket", Cell: jobBucket},
		{Name: "id", Cell: func(j queue.JobState) any { return j.ID }},
		{Name: "type", Cell: func(j queue.JobState) any { return j.Type }},
	}
	if state == "dead" {
		columns = append(columns,
			jobColumn{Name: "ended", Cell: func(j queue.JobState) any { return moment(j.EndedAt) }},
			jobColumn{Name: "error", Cell: func(j queue.JobState) any { return j.Error }})
	} else {
		columns = append(columns,
			jobColumn{Name: "state", Cell: func(j queue.JobState) any { return j.State }},
			jobColumn{Name: "position", Cell: func(j queue.JobState) any { return orNothing(j.Position) }},
			jobColumn{Name: "admitted", Cell: func(j queue.JobState) any { return moment(j.AdmittedAt) }})
	}
	return answer.List(s.Printer, jobs, columns...)
}

type jobColumn = answer.Column[queue.JobState]

func jobBucket(j queue.JobState) any { return j.Class + "/" + j.Key }

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

func jobGet(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "get", Usage: "show all that is known of one job", Args: "REF", Least: 1, Most: 1,
		Description: `The ref of a job is in its receipt and in job ls. A job that is done or was dropped is known no longer, but for what the
dedup of its class remembers.`,
		Run: func(ctx context.Context, s *command.Session) error {
			client, err := s.Open(ctx)
			if err != nil {
				return err
			}
			job, err := client.Job(ctx, s.Flags.Args().First())
			if err != nil {
				return err
			}
			return answer.One(s.Printer, job, jobColumns()...)
		},
	})
}

func jobColumns() []jobColumn {
	return []jobColumn{
		{Name: "ref", Cell: func(j queue.JobState) any { return j.Ref }},
		{Name: "bucket", Cell: jobBucket},
		{Name: "id", Cell: func(j queue.JobState) any { return j.ID }},
		{Name: "type", Cell: func(j queue.JobState) any { return j.Type }},
		{Name: "state", Cell: func(j queue.JobState) any { return j.State }},
		{Name: "position", Cell: func(j queue.JobState) any { return orNothing(j.Position) }},
		{Name: "admitted", Cell: func(j queue.JobState) any { return moment(j.AdmittedAt) }},
		{Name: "estimated start", Cell: func(j queue.JobState) any { return moment(j.EstimatedStart) }},
		{Name: "not before", Cell: func(j queue.JobState) any { return moment(j.NotBefore) }},
		{Name: "expires", Cell: func(j queue.JobState) any { return moment(j.ExpiresAt) }},
		{Name: "worker", Cell: func(j queue.JobState) any { return j.Worker }},
		{Name: "attempts", Cell: func(j queue.JobState) any { return orNothing(j.Attempts) }},
		{Name: "ended", Cell: func(j queue.JobState) any { return moment(j.EndedAt) }},
		{Name: "error", Cell: func(j queue.JobState) any { return j.Error }},
		{Name: "payload", Cell: func(j queue.JobState) any { return string(j.Payload) }},
	}
}
