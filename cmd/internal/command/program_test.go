package command_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/urfave/cli/v3"

	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/exit"
	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// result is what a program did.
type result struct {
	status         int
	stdout, stderr string
}

// run runs a program of two commands: one that does do, and another one.
func run(t *testing.T, env map[string]string, do func(context.Context, *command.Session) error, args ...string) result {
	t.Helper()
	var stdout, stderr strings.Builder
	p := &command.Program{
		Name: "prog", Usage: "tests", Getenv: func(name string) string { return env[name] },
		Stdin: strings.NewReader(""), Stdout: &stdout, Stderr: &stderr, Patience: time.Second,
	}
	status := p.Run(t.Context(), append([]string{"prog"}, args...),
		p.Command(command.Command{
			Name: "do", Usage: "does", Args: "THING", Most: 1,
			Flags: []cli.Flag{
				&cli.StringSliceFlag{Name: "classes"},
				&cli.IntFlag{Name: "max-jobs", Value: 3},
				&cli.BoolFlag{Name: "yes"},
				&cli.DurationFlag{Name: "every", Value: time.Second},
			},
			Run: do,
		}),
		command.Group("group", "has more", p.Command(command.Command{
			Name: "other", Flags: []cli.Flag{&cli.StringFlag{Name: "others"}}, Args: "A B", Least: 2, Most: 2,
		})))
	return result{status, stdout.String(), stderr.String()}
}

// show prints the values of all flags.
func show(_ context.Context, s *command.Session) error {
	f := s.Flags
	return s.Linef("%s %s %v %s | %v %d %v %v", f.String("redis"), f.String("prefix"), f.Int("shards"), f.String("log-level"),
		f.StringSlice("classes"), f.Int("max-jobs"), f.Bool("yes"), f.Duration("every"))
}

func configFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestLayers(t *testing.T) {
	t.Parallel()
	file := configFile(t, "redis: file:1\nprefix: infile\nclasses: [a, b]\nmax-jobs: 7\nyes: true\nothers: x\n")
	for _, test := range []struct {
		name string
		env  map[string]string
		args []string
		want string
	}{
		{"defaults", nil, nil, "redis://127.0.0.1:6379 spout 0 info | [] 3 false 1s"},
		{
			"environment",
			map[string]string{
				"SPOUT_REDIS": "env:1", "SPOUT_CLASSES": "c,d", "SPOUT_MAX_JOBS": "8", "SPOUT_YES": "1",
				"SPOUT_LOG_LEVEL": "warn", "SPOUT_EVERY": "", "SPOUT_OTHERS": "y",
			},
			nil, "env:1 spout 0 warn | [c d] 8 true 1s",
		},
		{"file", nil, []string{"--config", file}, "file:1 infile 0 info | [a b] 7 true 1s"},
		{
			"environment over file",
			map[string]string{"SPOUT_CONFIG": file, "SPOUT_PREFIX": "inenv", "SPOUT_MAX_JOBS": "8"},
			nil, "file:1 inenv 0 info | [a b] 8 true 1s",
		},
		{
			"flag over all",
			map[string]string{"SPOUT_CONFIG": file, "SPOUT_PREFIX": "inenv", "SPOUT_MAX_JOBS": "8"},
			[]string{"--prefix", "flag", "--max-jobs=9", "--classes", "x", "--yes=false"},
			"file:1 flag 0 info | [x] 9 false 1s",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, test.env, show, append([]string{"do"}, test.args...)...)
			if diff := cmp.Diff(result{stdout: test.want + "\n"}, got, cmp.AllowUnexported(result{})); diff != "" {
				t.Error(diff)
			}
		})
	}
	t.Run("common flags in front", func(t *testing.T) {
		t.Parallel()
		got := run(t, nil, show, "--redis", "front:1", "do", "--prefix", "behind")
		if want := "front:1 behind 0 info | [] 3 false 1s\n"; got.stdout != want {
			t.Errorf("got %+v, want %q", got, want)
		}
	})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	env := func(name, value string) map[string]string { return map[string]string{name: value} }
	for _, test := range []struct {
		name   string
		env    map[string]string
		args   []string
		status int
		want   string
	}{
		{"no command", nil, nil, exit.Usage, "prog: prog needs a command; choose one of: do, group; see prog -h"},
		{"unknown command", nil, []string{"dont"}, exit.Usage, `prog: prog has no command "dont"; choose one of: do, group`},
		{"unknown command below", nil, []string{"group", "x"}, exit.Usage, `prog group has no command "x"; choose one of: other`},
		{"unknown flag", nil, []string{"do", "--nope"}, exit.Usage, "flag provided but not defined: -nope; see prog do -h"},
		{"flag without value", nil, []string{"do", "--every"}, exit.Usage, "flag needs an argument: --every; see prog do -h"},
		{"flag twice", nil, []string{"do", "--every", "1s", "--every", "2s"}, exit.Usage, "can't duplicate this flag"},
		{"bad value", nil, []string{"do", "--max-jobs", "x"}, exit.Usage, `"x"`},
		{"too many arguments", nil, []string{"do", "a", "b"}, exit.Usage, "prog do takes 0 to 1 arguments (THING), not 2; see prog do -h"},
		{"too few arguments", nil, []string{"group", "other"}, exit.Usage, "prog group other takes 2 argument (A B), not 0"},
		{"bad output", nil, []string{"do", "-o", "xml"}, exit.Usage, `option --output: "xml" is neither table nor json`},
		{"bad level", nil, []string{"do", "--log-level", "loud"}, exit.Usage, "option --log-level: it is none of"},
		{"bad address", nil, []string{"do", "--redis", "redis://:secret@h:x"}, exit.Usage, "option --redis: address 1 of 1: the port"},
		{"bad address in the environment", env("SPOUT_REDIS", "redis://:secret@h:x"), []string{"do"}, exit.Config, "environment variable SPOUT_REDIS: address 1 of 1: the port"},
		{"bad value in the environment", env("SPOUT_MAX_JOBS", "x"), []string{"do"}, exit.Config, "environment variable SPOUT_MAX_JOBS: "},
		{"no file", nil, []string{"do", "--config", "/no/such"}, exit.Config, "read the configuration: open /no/such"},
		{
			"unknown keys", env("SPOUT_CONFIG", configFile(t, "redis: a:1\nredsi: b\nconfig: c\n")),
			[]string{"do"},
			exit.Config,
			"config.yaml:2: the configuration: unknown field \"redsi\"; known are classes, every, log-level, max-jobs, others, output, " +
				"prefix, redis, shards, yes\n",
		},
		{"repeated key", env("SPOUT_CONFIG", configFile(t, "redis: a:1\nredis: b:1\n")), []string{"do"}, exit.Config, `"redis" is there twice`},
		{"bad value in the file", env("SPOUT_CONFIG", configFile(t, "\nmax-jobs: x")), []string{"do"}, exit.Config, "config.yaml:2: max-jobs: "},
		{"mapping in the file", env("SPOUT_CONFIG", configFile(t, "max-jobs: {a: b}")), []string{"do"}, exit.Config, "config.yaml:1: max-jobs: "},
		{"bad address in the file", env("SPOUT_CONFIG", configFile(t, "redis: ftp://x")), []string{"do"}, exit.Config, "config.yaml:1: redis: the scheme"},
		{"no YAML", env("SPOUT_CONFIG", configFile(t, "{")), []string{"do"}, exit.Config, "config.yaml: line 1"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			got := run(t, test.env, show, test.args...)
			if got.status != test.status || !strings.Contains(got.stderr, test.want) || got.stdout != "" {
				t.Errorf("got %+v\nwant status %d and %q", got, test.status, test.want)
			}
			if strings.Contains(got.stderr, "secret") {
				t.Errorf("a password is in %q", got.stderr)
			}
		})
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	full := &queue.FullError{
		Reason: queue.ReasonFull, Class: "c", Key: "k", RetryAfter: 1500 * time.Microsecond, Level: 3, Capacity: 3,
	}
	for _, test := range []struct {
		name           string
		err            error
		status         int
		stderr, stdout string // stdout in JSON
	}{
		{
			"full", full, exit.TryLater, "prog: queue: bucket c/k is full (3 of 3); retry after 1.5ms\n",
			`{"status":"rejected","reason":"full","retry_after_ms":2,"level":3,"capacity":3,` +
				`"detail":"queue: bucket c/k is full (3 of 3); retry after 1.5ms"}` + "\n",
		},
		{
			"unknown class", fmt.Errorf("%w: %q", queue.ErrUnknownClass, "c"), exit.Data, "prog: queue: unknown class: \"c\"\n",
			`{"status":"rejected","reason":"unknown_class","detail":"queue: unknown class: \"c\""}` + "\n",
		},
		{"found", exit.Silent(exit.Found), exit.Found, "", ""},
		{"interrupted", fmt.Errorf("wait: %w", context.Canceled), exit.Interrupted, "prog: interrupted\n", ""},
		{"usage", exit.Usagef("no"), exit.Usage, "prog: no\n", ""},
		{"fine", nil, exit.OK, "", ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			fail := func(context.Context, *command.Session) error { return test.err }
			want := result{test.status, "", test.stderr}
			if diff := cmp.Diff(want, run(t, nil, fail, "do"), cmp.AllowUnexported(result{})); diff != "" {
				t.Error(diff)
			}
			if test.stdout != "" {
				want = result{test.status, test.stdout, ""}
			}
			if diff := cmp.Diff(want, run(t, nil, fail, "do", "-o", "json"), cmp.AllowUnexported(result{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func open(ctx context.Context, s *command.Session) error {
	client, err := s.Open(ctx)
	if err != nil {
		return err
	}
	return s.Linef("%s %d", client.Prefix(), client.Shards())
}

func TestOpen(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	env := map[string]string{"SPOUT_REDIS": "redis://" + server.Addr}
	for _, test := range []struct {
		name   string
		args   []string
		status int
		want   string
	}{
		{"first use", []string{"--shards", "2"}, exit.OK, "spout 2"},
		{"later use", nil, exit.OK, "spout 2"},
		{"other shards", []string{"--shards", "3"}, exit.Config, "this installation has 2 shards, not 3"},
		{"too many shards", []string{"--shards", "257"}, exit.Usage, "option --shards: queue: invalid: shards 257"},
		{"bad prefix", []string{"--prefix", "a b"}, exit.Usage, `option --prefix: queue: invalid: prefix "a b"`},
	} {
		got := run(t, env, open, append([]string{"do"}, test.args...)...)
		if got.status != test.status || !strings.Contains(got.stdout+got.stderr, test.want) {
			t.Errorf("%s: got %+v, want status %d and %q", test.name, got, test.status, test.want)
		}
	}
}

func TestOpenUnfit(t *testing.T) {
	t.Parallel()
	evicting := redistest.Start(t, "--maxmemory-policy", "allkeys-lru")
	locked := redistest.Start(t)
	if err := locked.Client(t).ConfigSet(t.Context(), "requirepass", "secret").Err(); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, address string
		status        int
		want          string
	}{
		{"evicts", evicting.Addr, exit.Config, "CONFIG SET maxmemory-policy noeviction"},
		{"locked", locked.Addr, exit.Denied, "NOAUTH"},
		{"wrong password", "redis://:wrong@" + locked.Addr, exit.Denied, "WRONGPASS"},
		{"unknown authority", redistest.TLS(t).URL, exit.Unavailable, "certificate"},
	} {
		start := time.Now()
		got := run(t, nil, open, "do", "--redis", test.address)
		if got.status != test.status || !strings.Contains(got.stderr, test.want) || strings.Contains(got.stderr, "waiting") {
			t.Errorf("%s: got %+v after %v, want status %d and %q", test.name, got, time.Since(start), test.status, test.want)
		}
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()

	got := run(t, nil, open, "do", "--redis", server.Addr)
	if got.status != exit.Unavailable || !strings.Contains(got.stderr, `"waiting for redis"`) ||
		!strings.Contains(got.stderr, "prog: gave up on redis at redis://"+server.Addr+" after") {
		t.Errorf("got %+v", got)
	}

	begun, done := make(chan struct{}), make(chan result)
	go func() {
		done <- run(t, nil, func(ctx context.Context, s *command.Session) error {
			close(begun)
			return open(ctx, s)
		}, "do", "--redis", server.Addr)
	}()
	<-begun
	server.Restart()
	if got := <-done; got.status != exit.OK || got.stdout != "spout 4\n" {
		t.Errorf("got %+v", got)
	}
}

func TestWaitInterrupted(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Kill()
	got := run(t, nil, func(ctx context.Context, s *command.Session) error {
		ctx, cancel := context.WithCancel(ctx)
		cancel()
		err := open(ctx, s)
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		return err
	}, "do", "--redis", server.Addr)
	if got.status != exit.Interrupted {
		t.Errorf("got %+v", got)
	}
}
