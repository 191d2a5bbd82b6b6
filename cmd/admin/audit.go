package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/exit"
	"github.com/spout-queue/spout/queue"
)

func auditCommand(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "audit", Usage: "compare the books of a class, or of all classes, with the jobs that are there", Args: "[CLASS]", Most: 1,
		Description: `The books count every way a job comes in and goes out, and they move with the jobs, so at every moment, in each shard,

  admitted + returned + revived = line + later + departed + expired + cancelled + dropped + purged
  departed = returned + done + dead + cancelled while running + out

It counts on the live system and changes nothing. When something is OFF, the line below says what and by how much, and the
exit status is 1. A class with many buckets is counted part after part: what jobs that move meanwhile can explain is ok.
With -o json the books are in the answer, too.`,
		Run: runAudit,
	})
}

// account adds the verdict to one.
type account struct {
	queue.Account
	Balanced bool `json:"balanced"`
}

func runAudit(ctx context.Context, s *command.Session) error {
	ctx, op, err := open(ctx, s)
	if err != nil {
		return err
	}
	names := s.Flags.Args().Slice()
	if len(names) == 0 {
		if names, err = classNames(ctx, op); err != nil {
			return err
		}
	} else if _, err := op.Class(ctx, names[0]); err != nil {
		return err
	}
	var accounts []account
	off := false
	for _, name := range names {
		some, err := op.Audit(ctx, name)
		if err != nil {
			return fmt.Errorf("class %s: %w", name, err)
		}
		for _, a := range some {
			accounts = append(accounts, account{a, len(a.Off) == 0})
			off = off || len(a.Off) > 0
		}
	}
	if err := showAccounts(s.Printer, accounts); err != nil || !off {
		return err
	}
	return exit.Silent(exit.Found)
}

func showAccounts(p *answer.Printer, accounts []account) error {
	type column = answer.Column[account]
	return answer.Annotated(p, accounts, func(a account) []string { return a.Off },
		column{Name: "class", Cell: func(a account) any { return a.Class }},
		column{Name: "shard", Cell: func(a account) any { return a.Shard }},
		column{Name: "line", Cell: func(a account) any { return a.Line }},
		column{Name: "later", Cell: func(a account) any { return a.Later }},
		column{Name: "out", Cell: func(a account) any { return a.Out }},
		column{Name: "dead", Cell: func(a account) any { return a.Dead }},
		column{Name: "result", Cell: accountResult})
}

func accountResult(a account) any {
	result := "ok"
	if !a.Balanced {
		result = "OFF"
	}
	if a.Moved > 0 {
		result += fmt.Sprintf(", counted while %d jobs moved", a.Moved)
	}
	return result
}
