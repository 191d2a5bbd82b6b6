package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/classfile"
	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/exit"
	"github.com/spout-queue/spout/queue"
)

func classApply(p *command.Program) *cli.Command {
	return p.Command(command.Command{
		Name: "apply", Usage: "make the classes what a file says, and show what changes",
		Description: `The file:

classes:
  github-api:
    capacity: 500          # required: jobs that may wait, per key; 1 to 1,000,000
    rate: 30/60s           # required: departures per key; a whole limit and a Go duration, or days as in 200000/1d
    catch_up: 5ms          # how late a departure may be and still keep its slot
    adapt: {min: 5/60s}    # lower the rate of a key whose service refuses, and let it rise again up to max, which is
                           #   the rate unless given; default off
    pace: normal           # strict: ask Redis once more at each start, so that starts keep the interval to a few ms
    max_in_flight: 0       # most jobs of one key that may be out at once; 0 is no bound
    max_wait: 10m          # a job that would wait longer is rejected, one that has is expired; default none
    overflow: reject       # what a full bucket does; drop-oldest drops the job that would leave next, for the new one
    max_jobs: 0            # waiting jobs over all keys of the class; 0 is no bound
    timeout: 30s           # per attempt
    retry:
      max_attempts: 5      # failed attempts after which a job is dead, 1 to 100
      backoff: 1s          # after the n-th failure the job waits for a random time between backoff and
      max_backoff: 5m      #   backoff * 2^n, which is never above max_backoff
      order: park          # where the job waits for that: park is aside, then at the head of its line; tail is aside,
                           #   then at the tail; hold is at the head, and nothing leaves the bucket before it is final
    max_crashes: 3         # workers that a job may take down with it before it is dead
    retention: 0           # how long a finished job, its attempts and its result can be read
    dead:
      max: 100000          # most dead jobs that are kept, the newest; 0 keeps none
      keep: 720h           # how long each is kept
    dedup: 0               # how long, from admission on, an id is remembered after its job; 0: while the job exists
    ack: memory            # what a receipt vouches for: memory, fsynced (on the disk of Redis), replicated(n)
    max_payload: 256KiB    # at most 1MiB
    http:                  # for http:call jobs
      allow_private: false # loopback, private and link-local targets are refused unless true
      hosts: []            # when not empty, only these: host or host:port
      schemes: []          # likewise
      ports: []            # likewise
      redirects: 0         # how many a call follows, at most 10
      secrets: []          # what {{secret:name}} in a header may name; needs hosts
      hold: bucket         # or class: what closes when the service asks to be left alone,
      max_hold: 1h         #   and for how long at most, 1s to 24h
      anonymous: false     # true: calls carry no Idempotency-Key and Spout-Attempt

A field that is left out has its default. A new rate counts from the next departure on, for jobs that wait already too; a
capacity below the level of a bucket rejects until it fits. Classes that the file does not name stay as they are. When
anything in the file is wrong, all of it is told with line numbers, nothing is applied and the exit status is 65.

With --expect-version, as class get shows it, a class that somebody else has changed since is left alone, exit status 65.

In the answer + is a new class, ~ a changed one and = one that is so already.`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "file", Aliases: []string{"f"}, Usage: "`FILE` of classes, YAML; - is standard input (this or --profile)"},
			&cli.BoolFlag{Name: "dry-run", Usage: "only show what would change"},
			&cli.IntFlag{Name: "expect-version", HideDefault: true, Usage: "`VERSION` that the class must still have, 0 when it must not be there; for a file with one class"},
		}, profileFlags()...),
		Run: runClassApply,
	})
}

func runClassApply(ctx context.Context, s *command.Session) error {
	classes, err := classesToApply(s)
	if err != nil {
		return err
	}
	ctx, op, err := open(ctx, s)
	if err != nil {
		return err
	}
	expected := s.Flags.IsSet("expect-version")
	if expected && len(classes) != 1 {
		return exit.Usagef("--expect-version is for one class, and there are %d", len(classes))
	}
	plans := make([]plan, len(classes))
	for i, class := range classes {
		if plans[i], err = compare(ctx, op, class); err != nil {
			return err
		}
		if want := int64(s.Flags.Int("expect-version")); expected && plans[i].Version != want {
			return fmt.Errorf("%w: class %s has version %d, not %d (0: it is not there): somebody has changed it; look at it and try again",
				queue.ErrConflict, class.Name, plans[i].Version, want)
		}
		plans[i].expected = expected
	}
	dry := s.Flags.Bool("dry-run")
	count := map[change]int{}
	for _, p := range plans {
		if !dry {
			if err := p.apply(ctx, op); err != nil {
				return err
			}
		}
		count[p.Change]++
		if err := errors.Join(s.Object(p), s.Linef("%s", p)); err != nil {
			return err
		}
	}
	verb := "applied"
	if dry {
		verb = "dry run, nothing applied"
	}
	return s.Linef("%s: %d new, %d changed, %d unchanged", verb, count[added], count[changed], count[unchanged])
}

// fileMost is more than any class file has: what is bigger is another file.
const fileMost = 4 << 20

// readFile reads the file of --file and says what to call it.
func readFile(s *command.Session) (name string, data []byte, err error) {
	name = s.Flags.String("file")
	input := s.Stdin
	switch name {
	case "":
		return "", nil, exit.Usagef("--file or --profile is missing; see admin class apply -h")
	case "-":
		name = "standard input"
	default:
		file, err := os.Open(name) //nolint:gosec // the operator names it
		if err != nil {
			return "", nil, s.Wrong("file", err)
		}
		defer file.Close() //nolint:errcheck // only read
		input = file
	}
	data, err = io.ReadAll(io.LimitReader(input, fileMost+1))
	if err != nil {
		return "", nil, s.Wrong("file", err)
	}
	if len(data) > fileMost {
		return "", nil, exit.Dataf("%s: more than %d bytes, which is no class file", name, fileMost)
	}
	return name, data, nil
}

func compare(ctx context.Context, op operator, class queue.Class) (plan, error) {
	p := plan{Class: class.Name, Change: added, class: class}
	old, err := op.Class(ctx, class.Name)
	switch {
	case errors.Is(err, queue.ErrUnknownClass):
		return p, nil
	case err != nil:
		return p, err
	case old.Equal(class):
		p.Change = unchanged
	default:
		p.Change, p.Fields = changed, classfile.Diff(old, class)
	}
	p.Version = old.Version
	return p, nil
}

func (p *plan) apply(ctx context.Context, op operator) error {
	if p.Change == unchanged {
		return nil
	}
	put := op.PutClass
	if p.expected {
		put = func(ctx context.Context, class queue.Class) (queue.Class, error) {
			return op.PutClassIf(ctx, class, p.Version)
		}
	}
	stored, err := put(ctx, p.class)
	if err != nil {
		return fmt.Errorf("class %s: %w", p.Class, err)
	}
	p.Applied, p.Version = true, stored.Version
	return nil
}
