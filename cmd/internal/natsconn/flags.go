package natsconn

import (
	"errors"
	"fmt"

	"github.com/nats-io/nats.go"
	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/exit"
	"github.com/spout-queue/spout/cmd/internal/jobstream"
)

// Flags are those of every command that connects. Unset is what its help says of a --nats that is not given.
func Flags(unset string) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "nats", DefaultText: unset, Usage: "`ADDRESSES` of NATS, separated by commas: nats://, tls://, ws://, wss://"},
		&cli.StringFlag{Name: "nats-context", Usage: "`NAME` of a context of the nats command line, or the absolute path of its file, in place of --nats"},
		&cli.StringFlag{Name: "nats-creds", Usage: "`FILE` of credentials (JWT and nkey)"},
		&cli.StringFlag{Name: "nats-nkey", Usage: "`FILE` of an nkey seed"},
		&cli.StringFlag{Name: "nats-ca", Usage: "`FILE` of authorities to trust, in place of the system's"},
		&cli.StringFlag{Name: "nats-cert", Usage: "`FILE` of a client certificate"},
		&cli.StringFlag{Name: "nats-key", Usage: "`FILE` of its key"},
	}
}

// StreamFlags are those that say where jobs are in NATS.
func StreamFlags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "subjects", Value: jobstream.DefaultPrefix, Usage: "`PREFIX` of all subjects"},
		&cli.StringFlag{Name: "stream", Value: jobstream.DefaultName, Usage: "`NAME` of the stream of jobs"},
	}
}

// FromFlags reads the flags of [Flags].
func FromFlags(s *command.Session, name string) Options {
	f := s.Flags
	return Options{
		URL: f.String("nats"), Context: f.String("nats-context"), Creds: f.String("nats-creds"), NKey: f.String("nats-nkey"),
		CA: f.String("nats-ca"), Cert: f.String("nats-cert"), Key: f.String("nats-key"), Name: name, Log: s.Log,
	}
}

// StreamFromFlags reads the flags of [StreamFlags]; the rest is as by default.
func StreamFromFlags(s *command.Session) (jobstream.Config, error) {
	c := jobstream.Default()
	c.Subjects, c.Name = jobstream.Subjects(s.Flags.String("subjects")), s.Flags.String("stream")
	if err := c.Subjects.Validate(); err != nil {
		return c, s.Wrong("subjects", err)
	}
	if err := jobstream.ValidateName(c.Name); err != nil {
		return c, s.Wrong("stream", err)
	}
	return c, nil
}

// Blame gives an error of [Connect], or of what is not permitted later, its exit status.
func Blame(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, ErrOptions):
		return &exit.Error{Status: exit.Config, Err: err}
	case refused(err), errors.Is(err, nats.ErrPermissionViolation):
		return &exit.Error{Status: exit.Denied, Err: err}
	case errors.Is(err, ErrAway):
		return &exit.Error{Status: exit.Unavailable, Err: fmt.Errorf("%w; see --nats", err)}
	}
	return err
}
