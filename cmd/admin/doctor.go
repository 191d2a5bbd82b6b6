package main

import (
	"context"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/admin/internal/doctor"
	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/exit"
	"github.com/spout-queue/spout/cmd/internal/natsconn"
)

func doctorCommand(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "doctor", Usage: "say what is wrong with this Redis, and how to mend it",
		Description: `Looks whether Redis answers (at once: it does not wait), at its version, role, eviction policy, memory and persistence, at
the round trip from this machine and the clocks, on a cluster of every master, and then at the installation: schema and
shards, scripts, sick buckets, classes. With --nats or --nats-context also at NATS, the stream of jobs and who carries
it into buckets. It changes nothing. A check ends with ok, warn (works, and may go wrong) or FAIL (does
not work, or loses jobs); with any FAIL the exit status is 1.`,
		Flags: append(natsconn.Flags("not looked at"), natsconn.StreamFlags()...),
		Run:   runDoctor,
	})
}

func runDoctor(ctx context.Context, s *command.Session) error {
	if err := needsRedis(s); err != nil {
		return err
	}
	if err := s.CheckOptions(ctx); err != nil {
		return err
	}
	findings := doctor.Examine(ctx, s.Redis(), s.Address(), s.Options())
	if o := natsconn.FromFlags(s, "spout-admin"); o.URL != "" || o.Context != "" {
		stream, err := natsconn.StreamFromFlags(s)
		if err != nil {
			return err
		}
		findings = append(findings, doctor.ExamineNATS(ctx, o, stream)...)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	err := answer.List(s.Printer, findings,
		answer.Column[doctor.Finding]{Name: "result", Cell: func(f doctor.Finding) any { return f.Verdict }},
		answer.Column[doctor.Finding]{Name: "check", Cell: func(f doctor.Finding) any { return f.Check }},
		answer.Column[doctor.Finding]{Name: "found", Cell: func(f doctor.Finding) any { return f.Text() }})
	if err == nil && doctor.Failed(findings) {
		return exit.Silent(exit.Found)
	}
	return err
}
