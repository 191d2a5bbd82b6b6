//go:build unix

package handlers_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/handlers"
	"github.com/spout-queue/spout/queue"
)

// shell returns an Exec that may run script, as the program p.
func shell(tb testing.TB, script string, more ...string) *handlers.Exec {
	tb.Helper()
	args := append([]string{"-c", script, "p"}, more...)
	e, err := handlers.NewExec(map[string]handlers.Program{
		"p":    {Path: "/bin/sh", Args: args},
		"args": {Path: "/bin/sh", Args: args, JobArgs: true},
	})
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func execTask(payload string) *asynq.Task {
	return asynq.NewTaskWithHeaders(handlers.ExecType, []byte(payload), map[string]string{"Spout-Class": "c", "Spout-Key": "a key"})
}

func TestExecFates(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, script, payload string
		dead                  bool
		says                  string // empty: it is done
	}{
		{"done", "exit 0", `{"name":"p"}`, false, ""},
		{"stdin", `test "$(cat)" = "some text"`, `{"name":"p","stdin":"some text"}`, false, ""},
		{"bytes", `test "$(od -An -tx1)" = " ff 00"`, `{"name":"p","stdin_base64":"/wA="}`, false, ""},
		{"stdin unread", "exec 0<&-", `{"name":"p","stdin":"` + strings.Repeat("x", 200_000) + `"}`, false, ""},
		{"args", `test "$#/$1/$2" = '2/a b/$(id)'`, `{"name":"args","args":["a b","$(id)"]}`, false, ""},
		{"environment", `test "$(env | grep -vE '^(PWD|OLDPWD|SHLVL|_)=' | sort | tr '\n' ,)" = ` +
			`"LANG=C.UTF-8,PATH=/usr/local/bin:/usr/bin:/bin,SPOUT_CLASS=c,SPOUT_KEY=a key,"`, `{"name":"p"}`, false, ""},
		{"directory", `test "$(pwd)" = /`, `{"name":"p"}`, false, ""},
		{"try again", "echo busy >&2; exit 75", `{"name":"p"}`, false, `program "p": exit status 75: busy`},
		{"failed", "exit 1", `{"name":"p"}`, false, `program "p": exit status 1`},
		{"usage", "exit 64", `{"name":"p"}`, true, "exit status 64"},
		{"data", "echo 'line 3: wrong' >&2; exit 65", `{"name":"p"}`, true, "exit status 65: line 3: wrong"},
		{"signal", "kill -TERM $$", `{"name":"p"}`, false, "signal: terminated"},
		{"the end of a long story", "i=0; while [ $i -lt 500 ]; do echo 0123456789 >&2; i=$((i+1)); done; echo end >&2; exit 1", `{"name":"p"}`, false, " 0123456789 0123456789 end"},
		{"escapes", `printf '\033[2J' >&2; exit 1`, `{"name":"p"}`, false, `program "p": exit status 1: [2J`},
		{"other program", "exit 0", `{"name":"sh"}`, true, `program "sh" is none of those`},
		{"path", "exit 0", `{"name":"/bin/sh"}`, true, "is none of those"},
		{"no args", "exit 0", `{"name":"p","args":["x"]}`, true, `program "p" takes no arguments from jobs`},
		{"no name", "exit 0", `{}`, true, `field "name": missing`},
		{"unknown field", "exit 0", `{"name":"p","env":{}}`, true, `field "env": no such field`},
		{"zero byte", "exit 0", `{"name":"args","args":["a\u0000"]}`, true, "zero byte"},
		{"two inputs", "exit 0", `{"name":"p","stdin":"","stdin_base64":""}`, true, "not both"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			err := shell(t, test.script).ProcessTask(t.Context(), execTask(test.payload))
			switch {
			case test.says == "" && err != nil:
				t.Error(err)
			case test.says != "" && (err == nil || !strings.Contains(err.Error(), test.says) || errors.Is(err, asynq.SkipRetry) != test.dead):
				t.Errorf("%v, for good %v; want %q, %v", err, errors.Is(err, asynq.SkipRetry), test.says, test.dead)
			case err != nil && len(err.Error()) > 2000:
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

func TestExecOptions(t *testing.T) {
	t.Parallel()
	for says, p := range map[string]handlers.Program{
		"is not absolute": {Path: "sh"},
		"cannot be run":   {Path: "/nonexistent/program"},
		"program \"x\"":   {Path: t.TempDir()},
	} {
		if _, err := handlers.NewExec(map[string]handlers.Program{"x": p}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want %q", err, says)
		}
	}
}

// holder is a pipe with a name that a program and what it starts hold open.
type holder struct {
	path string
	open chan *os.File
}

func newHolder(t *testing.T) *holder {
	t.Helper()
	h := &holder{path: filepath.Join(t.TempDir(), "fifo"), open: make(chan *os.File, 1)}
	if err := syscall.Mkfifo(h.path, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() {
		f, err := os.Open(h.path) // as soon as somebody writes to it
		if err != nil {
			t.Error(err)
		}
		h.open <- f
	}()
	return h
}

// allGone returns when nobody has the pipe open any more.
func (h *holder) allGone(t *testing.T) {
	t.Helper()
	f := <-h.open
	defer f.Close() //nolint:errcheck // only read
	if _, err := bytes.NewBuffer(nil).ReadFrom(f); err != nil {
		t.Error(err)
	}
}

func TestExecIsKilledWithAllItStarted(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		h.open <- <-h.open // the program runs
		cancel(errors.New("the job was cancelled"))
	}()
	// Its child ignores what can be ignored, and holds the pipes.
	e := shell(t, `exec 3>"$1"; (trap '' TERM HUP INT; sleep 1000) & wait`, h.path)
	err := e.ProcessTask(ctx, execTask(`{"name":"p"}`))
	if err == nil || !strings.Contains(err.Error(), `program "p" was killed: the job was cancelled`) || !errors.Is(err, context.Canceled) {
		t.Errorf("%v; want to know that it was killed, and why", err)
	}
	h.allGone(t)
}

func TestExecWithADeadline(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	err := shell(t, "sleep 1000").ProcessTask(ctx, execTask(`{"name":"p"}`))
	if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, asynq.SkipRetry) {
		t.Errorf("%v; want a failed attempt that took too long", err)
	}
}

func TestExecLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	h := newHolder(t)
	e := shell(t, `exec 3>"$1"; sleep 1000 & exit 0`, h.path)
	if err := e.ProcessTask(t.Context(), execTask(`{"name":"p"}`)); err != nil {
		t.Error(err)
	}
	h.allGone(t)
}

func TestExecResult(t *testing.T) {
	t.Parallel()
	s := newSystem(t, shell(t, `echo "$SPOUT_CLASS/$SPOUT_KEY $SPOUT_ATTEMPT: $(cat)"`))
	s.class(t, 10, fast, nil)
	receipt, err := s.Submit(t.Context(), queue.Job{
		Class: "api", Key: "k", Type: handlers.ExecType, Payload: []byte(`{"name":"p","stdin":"<hello>"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	e, err := s.Await(t.Context(), receipt.Ref)
	if want := `{"exit":0,"stdout":"api/k 1: <hello>\n"}`; err != nil || string(e.Result) != want {
		t.Errorf("%+v, %v; want %s", e, err, want)
	}
}

func TestExecOutput(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		stdout string
		text   bool
		kept   int
	}{
		{"none", "", true, 0},
		{"text", "héllo", true, 6},
		{"bytes", "\xff\x00", false, 2},
		{"as much as is kept", strings.Repeat("x", 40<<10), true, 40 << 10},
		{"more", strings.Repeat("x", 40<<10+1), true, 40 << 10},
		{"cut in a character", strings.Repeat("é", 20<<10) + "é", true, 40 << 10},
		{"cut in a character, oddly", "x" + strings.Repeat("é", 20<<10), true, 40<<10 - 1},
		{"broken and cut", strings.Repeat("\xff", 50<<10), false, 40 << 10},
		{"six times as long in JSON", strings.Repeat("\x01", 40<<10), false, 40 << 10},
	} {
		data, err := handlers.EncodeOutput([]byte(test.stdout))
		if err != nil || len(data) > queue.ResultMost {
			t.Errorf("%s: %d bytes, %v; a result has %d at most", test.name, len(data), err, queue.ResultMost)
		}
		var got struct {
			Stdout       *string
			StdoutBase64 []byte `json:"stdout_base64"`
			Truncated    bool
		}
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatalf("%s: %v", test.name, err)
		}
		out := got.StdoutBase64
		if got.Stdout != nil {
			out = []byte(*got.Stdout)
		}
		if got.Truncated != (len(test.stdout) > test.kept) || len(got.StdoutBase64) > 0 == test.text {
			t.Errorf("%s: truncated %v, text %v", test.name, got.Truncated, got.StdoutBase64 == nil)
		}
		if diff := cmp.Diff(test.stdout[:test.kept], string(out)); diff != "" {
			t.Errorf("%s: %.200s", test.name, diff)
		}
	}
}
