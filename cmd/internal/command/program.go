// Package command is what all commands have in common: the flags of the connection, of the answer and of the log, the
// layers that a flag's value comes from (command line, environment, configuration file, default), the wait for Redis at the
// start, and how an error becomes words and an exit status.
package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/exit"
)

// Program is one of the binaries. All it knows of the world around it is in its fields, so that tests call it whole.
type Program struct {
	Name, Usage string
	// Flags of all commands of the program, besides those that all programs have.
	Flags []cli.Flag

	Getenv         func(string) string
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Patience is how long Redis may be away at the start. Defaults to 30 s.
	Patience time.Duration

	json bool // the command that ran answers in JSON
}

// Command is one thing that a program can do.
type Command struct {
	Name, Usage, Description string
	// Args are the arguments as help shows them, as in "CLASS[/KEY]"; there may be Least to Most of them.
	Args        string
	Least, Most int
	Flags       []cli.Flag
	Run         func(context.Context, *Session) error
}

// Run runs the command that args name and returns the exit status.
func (p *Program) Run(ctx context.Context, args []string, commands ...*cli.Command) int {
	root := Group(p.Name, p.Usage, commands...)
	root.Flags = append(commonFlags(), p.Flags...)
	root.Description = description
	root.Version = Version()
	root.HideHelpCommand = true // a class may be called help
	root.Reader, root.Writer, root.ErrWriter = p.Stdin, p.Stdout, p.Stderr
	root.ExitErrHandler = func(context.Context, *cli.Command, error) {} // exiting is main's
	prepare(root)
	return p.report(root.Run(ctx, args))
}

const description = `Every option can be given in four ways, of which the first one found counts: on the command line, as
the environment variable in brackets, in the file of --config (YAML, option names without the dashes), by default.

--redis takes host:port, redis://[user:password@]host[:port][/db], redis+cluster://host:port,host:port,
redis+sentinel://host:port,host:port/master[/db], and with TLS rediss://, rediss+cluster://, rediss+sentinel://,
where ?cafile=FILE trusts other authorities than the system's. A password is best kept in SPOUT_REDIS.
While Redis is away at the start, a command waits for it for up to 30 s.

Exit status: 0 done; 1 something was found (doctor, audit) or left out (on request); 64 wrong command line; 65 wrong input,
unknown class or job; 69 Redis is away, or its reply was lost; 74 reading or writing failed; 75 no room now, or draining;
77 Redis, NATS or the API does not let us in; 78 wrong configuration, or a Redis that is not fit; 130 interrupted.`

// Group is a command that is only there for the commands below it.
func Group(name, usage string, commands ...*cli.Command) *cli.Command {
	return &cli.Command{
		Name: name, Usage: usage, Commands: commands,
		Action: func(_ context.Context, cmd *cli.Command) error {
			names := make([]string, len(commands))
			for i, c := range commands {
				names[i] = c.Name
			}
			choice := fmt.Sprintf("choose one of: %s; see %s -h", strings.Join(names, ", "), cmd.FullName())
			if cmd.Args().Present() {
				return exit.Usagef("%s has no command %q; %s", cmd.FullName(), cmd.Args().First(), choice)
			}
			return exit.Usagef("%s needs a command; %s", cmd.FullName(), choice)
		},
	}
}

// Command makes a command of the program.
func (p *Program) Command(c Command) *cli.Command {
	return &cli.Command{
		Name: c.Name, Usage: c.Usage, ArgsUsage: c.Args, Flags: c.Flags,
		Description: strings.TrimSpace(c.Description + "\n\nAddresses of Redis and exit statuses are told by " + p.Name + " -h."),
		Action: func(ctx context.Context, cmd *cli.Command) error {
			if n := cmd.Args().Len(); n < c.Least || n > c.Most {
				return exit.Usagef("%s takes %s, not %d; see %[1]s -h", cmd.FullName(), arguments(c), n)
			}
			s, err := p.session(cmd)
			if err != nil {
				return err
			}
			defer s.close()
			return c.Run(ctx, s)
		},
	}
}

func arguments(c Command) string {
	switch {
	case c.Most == 0:
		return "no arguments"
	case c.Least == c.Most:
		return fmt.Sprintf("%d argument (%s)", c.Most, c.Args)
	}
	return fmt.Sprintf("%d to %d arguments (%s)", c.Least, c.Most, c.Args)
}

// prepare completes a tree of commands: the environment variables in help, and what a wrong command line leads to.
func prepare(cmd *cli.Command) {
	for _, f := range cmd.Flags {
		document(f)
	}
	cmd.OnUsageError = func(_ context.Context, cmd *cli.Command, err error, _ bool) error {
		return exit.Usagef("%w; see %s -h", err, cmd.FullName())
	}
	for _, sub := range cmd.Commands {
		prepare(sub)
	}
}

// report says what went wrong, to a program in JSON on standard output, to people on standard error.
func (p *Program) report(err error) int {
	if err == nil {
		return exit.OK
	}
	status := answer.Exit(err)
	if quiet, ok := errors.AsType[*exit.Error](err); ok && quiet.Err == nil {
		return status // all was said
	}
	if p.json && answer.Reason(err) != "" {
		if failed := answer.NewPrinter(p.Stdout, true).Object(answer.Rejection{Err: err}); failed == nil {
			return status
		}
	}
	if status == exit.Interrupted {
		err = errors.New("interrupted")
	}
	_, _ = fmt.Fprintf(p.Stderr, "%s: %v\n", p.Name, err) // nowhere left to complain
	return status
}
