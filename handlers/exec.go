package handlers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/hibiken/asynq"
)

// ExecType is the type of the jobs that [Exec] handles.
const ExecType = "exec"

// Program is one that jobs may run.
type Program struct {
	// Path is absolute. It is run as it is: there is no shell, and no search in PATH.
	Path string
	// Args come before those of the job.
	Args []string
	// JobArgs lets jobs add arguments of their own. A program to which an argument can
	// mean "run this" or "write there" should not have that.
	JobArgs bool
}

// Exec is the [asynq.Handler] of the type [ExecType]: each attempt runs a program once. It
// runs those only that it was made with.
//
// The payload is a JSON object with these fields, named exactly so:
//
//	name          of the program, as the worker knows it
//	args          list of strings; only for a program that takes them
//	stdin         string; or stdin_base64, for bytes that are not text; not both
//
// The program gets stdin, a working directory of /, and an environment of PATH, LANG and
// SPOUT_CLASS, SPOUT_KEY, SPOUT_ID, SPOUT_REF, SPOUT_ATTEMPT; nothing of the worker's own.
// It leads a process group, which is killed as a whole when the deadline comes or the job
// is cancelled.
//
// Exit status 0 is done. 64 (wrong usage) and 65 (wrong data) fail the job for good, since
// they would be no better next time. Any other, 75 (try again) too, is a failed attempt, and
// so is the end by a signal; the error has the end of what the program wrote to stderr.
//
// The result is a JSON object {"exit":0,"stdout":"…"}, with stdout_base64 in place of
// stdout for bytes that are not text, and "truncated":true when there was more than the
// 40 KiB that are kept.
//
// It is safe for concurrent use.
type Exec struct {
	programs map[string]Program
	timeout  time.Duration
}

// NewExec returns an Exec for programs by name, or says what is wrong with one.
func NewExec(programs map[string]Program) (*Exec, error) {
	for name, p := range programs {
		if name == "" || !filepath.IsAbs(p.Path) {
			return nil, fmt.Errorf("handlers: program %q: its path %q is not absolute", name, p.Path)
		}
		if _, err := exec.LookPath(p.Path); err != nil {
			return nil, fmt.Errorf("handlers: program %q cannot be run: %w", name, err)
		}
	}
	return &Exec{programs: programs, timeout: defaultTimeout}, nil
}

const (
	mostOutput = 40 << 10 // bytes of stdout in a result; base64 of them has room in it too
	mostResult = 60 << 10 // bytes of a result: a little less than what is kept of one
	mostStderr = 1 << 10  // bytes of stderr that are kept for an error
	// pipeGrace is how long output is still read when the program has ended but
	// something that it started holds its pipes.
	pipeGrace = time.Second

	exitUsage, exitData = 64, 65 // of sysexits.h
)

// ProcessTask runs the program that task names.
func (e *Exec) ProcessTask(ctx context.Context, task *asynq.Task) error {
	j, err := parseExec(task.Payload())
	if err != nil {
		return permanent(nil, "bad %s payload: %s", ExecType, err)
	}
	p, ok := e.programs[j.name]
	switch {
	case !ok:
		return permanent(ErrRefused, "program %q is none of those that this worker may run", clip(j.name, maxName))
	case len(j.args) > 0 && !p.JobArgs:
		return permanent(ErrRefused, "program %q takes no arguments from jobs", j.name)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, e.timeout)
		defer cancel()
	}
	stdout, stderr := &opening{max: mostOutput + 1}, &ending{max: mostStderr}
	cmd := exec.CommandContext(ctx, p.Path, slices.Concat(p.Args, j.args)...) //nolint:gosec // the operator allows it by name
	cmd.Dir, cmd.Env = "/", environment(task.Headers())
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(j.stdin), stdout, stderr
	cmd.WaitDelay = pipeGrace
	group(cmd)
	if err := runGroup(cmd); err != nil {
		return failed(ctx, j.name, err, stderr.b)
	}
	return writeOutput(task, stdout.b)
}

// runGroup runs cmd. What it leaves behind with its pipes open is killed.
func runGroup(cmd *exec.Cmd) error {
	err := cmd.Run()
	if errors.Is(err, exec.ErrWaitDelay) { // the program itself has ended well
		killGroup(cmd)
		return nil
	}
	return err
}

// failed is the error of a program that did not end well.
func failed(ctx context.Context, name string, err error, stderr []byte) error {
	text := fmt.Sprintf("program %q: %s", name, err)
	if ctx.Err() != nil {
		text = fmt.Sprintf("program %q was killed: %s", name, context.Cause(ctx))
	}
	if last := clip(printable(string(stderr)), maxText); last != "" {
		text += ": " + last
	}
	end, ended := errors.AsType[*exec.ExitError](err)
	if ctx.Err() == nil && ended && (end.ExitCode() == exitUsage || end.ExitCode() == exitData) {
		return permanent(err, "%s", text)
	}
	return &wrapped{text: text, causes: slices.DeleteFunc([]error{err, ctx.Err(), context.Cause(ctx)}, func(e error) bool { return e == nil })}
}

// environment is all that a program gets of one.
func environment(headers map[string]string) []string {
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8"}
	for _, name := range []string{"Class", "Key", "Id", "Ref", "Attempt"} {
		if v := headers["Spout-"+name]; v != "" {
			env = append(env, "SPOUT_"+strings.ToUpper(name)+"="+v)
		}
	}
	return env
}

// output is the result of a job of the type [ExecType].
type output struct {
	Exit         int    `json:"exit"`
	Stdout       string `json:"stdout,omitempty"`
	StdoutBase64 []byte `json:"stdout_base64,omitempty"`
	Truncated    bool   `json:"truncated,omitempty"`
}

func writeOutput(task *asynq.Task, stdout []byte) error {
	w := task.ResultWriter()
	if w == nil { // nobody asks
		return nil
	}
	data, err := encodeOutput(stdout)
	if err == nil {
		_, err = w.Write(data)
	}
	if err != nil {
		return fmt.Errorf("result of the program: %w", err)
	}
	return nil
}

// encodeOutput writes stdout as text if it is that, and if escaping what JSON cannot show
// does not make it too long.
func encodeOutput(stdout []byte) ([]byte, error) {
	o := output{Truncated: len(stdout) > mostOutput}
	stdout = stdout[:min(len(stdout), mostOutput)]
	if text := cutRune(stdout, o.Truncated); utf8.Valid(text) {
		o.Stdout = string(text)
		var data bytes.Buffer
		enc := json.NewEncoder(&data)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(o); err != nil || data.Len() <= mostResult {
			return bytes.TrimSpace(data.Bytes()), err
		}
		o.Stdout = ""
	}
	o.StdoutBase64 = stdout
	return json.Marshal(o)
}

// cutRune leaves out the beginning of a character at the end of a text that was cut.
func cutRune(b []byte, cut bool) []byte {
	if !cut {
		return b
	}
	for n := 1; n < utf8.UTFMax && n <= len(b); n++ {
		if start := len(b) - n; utf8.RuneStart(b[start]) && !utf8.FullRune(b[start:]) {
			return b[:start]
		}
	}
	return b
}

// execJob is a payload of the type [ExecType].
type execJob struct {
	name  string
	args  []string
	stdin []byte
}

func parseExec(payload []byte) (*execJob, error) {
	var name, text, encoded *string
	j := new(execJob)
	err := eachField(payload, func(field string, value json.RawMessage) error {
		switch field {
		case "name":
			return decode(value, &name)
		case "args":
			if json.Unmarshal(value, &j.args) != nil {
				return errors.New("must be a list of strings")
			}
			return nil
		case "stdin":
			return decode(value, &text)
		case "stdin_base64":
			return decode(value, &encoded)
		}
		return errUnknownField
	})
	switch {
	case err != nil:
		return nil, err
	case name == nil:
		return nil, errors.New(`field "name": missing`)
	}
	j.name = *name
	if slices.ContainsFunc(j.args, func(arg string) bool { return strings.Contains(arg, "\x00") }) {
		return nil, errors.New(`field "args": has a zero byte`)
	}
	j.stdin, err = textOrBytes("stdin", text, encoded)
	return j, err
}

// opening keeps the first max bytes written to it, and takes the rest for nothing.
type opening struct {
	b   []byte
	max int
}

func (o *opening) Write(p []byte) (int, error) {
	o.b = append(o.b, p[:min(len(p), o.max-len(o.b))]...)
	return len(p), nil
}

// ending keeps the last max bytes written to it.
type ending struct {
	b   []byte
	max int
}

func (s *ending) Write(p []byte) (int, error) {
	s.b = append(s.b, p[max(0, len(p)-s.max):]...)
	if over := len(s.b) - s.max; over > 0 {
		s.b = slices.Delete(s.b, 0, over)
	}
	return len(p), nil
}
