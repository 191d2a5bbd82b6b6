package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime/debug"

	"github.com/redis/go-redis/v9"
	"github.com/urfave/cli/v3"
	"golang.org/x/term"

	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/redisurl"
	"github.com/spout-queue/spout/handlers"
	"github.com/spout-queue/spout/queue"
)

// Session is one run of a command.
type Session struct {
	*answer.Printer
	// Flags and arguments, from all layers.
	Flags          *cli.Command
	Log            *slog.Logger
	Level          *slog.LevelVar // of the log; it may change while the program runs
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// Metrics of the clients that Open makes, nil for none; Door is where their submissions come in.
	Metrics *queue.Metrics
	Door    string

	program *Program
	from    origins
	target  *redisurl.Target
	rdb     redis.UniversalClient
}

// session settles the flags that all commands share.
func (p *Program) session(cmd *cli.Command) (*Session, error) {
	from, err := layers(cmd, p.Getenv)
	if err != nil {
		return nil, err
	}
	s := &Session{Flags: cmd, Stdin: p.Stdin, Stdout: p.Stdout, Stderr: p.Stderr, program: p, from: from}
	switch output := cmd.String("output"); output {
	case "table", "json":
		p.json = output == "json"
		s.Printer = answer.NewPrinter(p.Stdout, p.json)
	default:
		return nil, s.Wrong("output", fmt.Errorf("%q is neither table nor json", output))
	}
	level := new(slog.LevelVar)
	if err := level.UnmarshalText([]byte(cmd.String("log-level"))); err != nil {
		return nil, s.Wrong("log-level", errors.New("it is none of debug, info, warn, error"))
	}
	s.Log, s.Level = logger(p.Stderr, level), level
	if s.target, err = redisurl.Parse(cmd.String("redis")); err != nil {
		return nil, s.Wrong("redis", err)
	}
	return s, nil
}

// Getenv reads a variable of the environment that is not that of a flag.
func (s *Session) Getenv(name string) string { return s.program.Getenv(name) }

// Wrong says that the value of a flag is wrong, and where it comes from.
func (s *Session) Wrong(flag string, err error) error { return s.from.wrong(flag, err) }

// Redis is a client that nothing was asked of yet. The session closes it.
func (s *Session) Redis() redis.UniversalClient {
	if s.rdb == nil {
		s.rdb = s.target.Client("spout-" + s.program.Name)
	}
	return s.rdb
}

// Address names the Redis that the session talks to, without credentials.
func (s *Session) Address() string { return s.target.String() }

// Options are how the installation in Redis is opened.
func (s *Session) Options() queue.Options {
	return queue.Options{
		Prefix: s.Flags.String("prefix"), Shards: s.Flags.Int("shards"),
		StoreShare: s.Flags.Float("store-share"), // only producers have it; 0 is the default
		Metrics:    s.Metrics, Door: s.Door,
		Check: handlers.CheckPayload,
	}
}

// Open opens the installation. It waits for a Redis that is away.
func (s *Session) Open(ctx context.Context) (*queue.Client, error) {
	w := waiter{patience: s.program.Patience, address: s.Address(), log: s.Log}
	client, err := w.wait(ctx, func() (*queue.Client, error) { return queue.Open(ctx, s.Redis(), s.Options()) })
	return client, s.blame(err)
}

// CheckOptions says what is wrong with the flags that Open takes. It asks Redis nothing.
func (s *Session) CheckOptions(ctx context.Context) error {
	ended, cancel := context.WithCancel(ctx)
	cancel() // so that nothing is sent
	if _, err := queue.Open(ended, s.Redis(), s.Options()); errors.Is(err, queue.ErrInvalid) {
		return s.blame(err)
	}
	return nil
}

// blame names the flag that an installation cannot be opened with.
func (s *Session) blame(err error) error {
	if !errors.Is(err, queue.ErrInvalid) {
		return err
	}
	if n := s.Flags.Int("shards"); n < 0 || n > 256 {
		return s.Wrong("shards", err)
	}
	if share := s.Flags.Float("store-share"); share < 0 || share > 1 {
		return s.Wrong("store-share", err)
	}
	return s.Wrong("prefix", err)
}

func (s *Session) close() {
	if s.rdb != nil {
		_ = s.rdb.Close() // nothing is under way
	}
}

// logger writes for people on a terminal and for programs elsewhere.
func logger(w io.Writer, level slog.Leveler) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if IsTerminal(w) {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}

// IsTerminal tells whether a person sits at the other end.
func IsTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// TerminalSize is how many columns and lines a terminal has; false when it is none, or does not tell.
func TerminalSize(stream any) (columns, lines int, ok bool) {
	f, ok := stream.(*os.File)
	if !ok {
		return 0, 0, false
	}
	columns, lines, err := term.GetSize(int(f.Fd()))
	return columns, lines, err == nil && columns > 0 && lines > 0
}

// Version is what the build recorded of itself.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return info.Main.Version + " " + s.Value
		}
	}
	return info.Main.Version
}
