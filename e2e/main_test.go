package e2e

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// seedFlag repeats the random choices of an earlier run: go test ./e2e -run TestKills -e2e.seed=N.
var seedFlag = flag.Uint64("e2e.seed", 0, "seed of what is chosen at random; 0 takes one from the clock")

// binaries are built once, with the race detector, for all tests.
var binaries = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "spout-e2e")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-race", "-o", dir, "../cmd/producer", "../cmd/worker", "../cmd/admin", "./testworker")
	if out, err := build.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("%w\n%s", err, out)
	}
	return dir, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := binaries(); err == nil {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// program is the binaries of ours, with the environment that says where Redis is.
type program struct {
	tb    testing.TB
	redis string
}

func (p program) command(name string, args ...string) *exec.Cmd {
	p.tb.Helper()
	dir, err := binaries()
	if err != nil {
		p.tb.Fatalf("build the commands: %v", err)
	}
	cmd := exec.Command(filepath.Join(dir, name), args...) // not the test's context: it ends before the clean-up
	cmd.Env = append(os.Environ(), "SPOUT_REDIS="+p.redis)
	cmd.SysProcAttr = dieWithParent()
	return cmd
}

// run calls a command that must succeed and returns its standard output.
func (p program) run(name string, args ...string) string {
	p.tb.Helper()
	status, out, errs := p.try(name, args...)
	if status != 0 {
		p.tb.Fatalf("%s %s: exit status %d\n%s%s", name, strings.Join(args, " "), status, out, errs)
	}
	return out
}

// try calls a command that may fail.
func (p program) try(name string, args ...string) (status int, stdout, stderr string) {
	p.tb.Helper()
	cmd := p.command(name, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err := cmd.Run()
	if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
		p.tb.Fatalf("%s %s: %v", name, strings.Join(args, " "), err)
	}
	if strings.Contains(errs.String(), "DATA RACE") {
		p.tb.Errorf("%s %s has a data race:\n%s", name, strings.Join(args, " "), errs.String())
	}
	return cmd.ProcessState.ExitCode(), out.String(), errs.String()
}

func write(tb testing.TB, name, text string) string {
	tb.Helper()
	file := filepath.Join(tb.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return file
}
