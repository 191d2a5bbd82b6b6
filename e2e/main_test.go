package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// binaries are built once, with the race detector, for all tests.
var binaries = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "spout-e2e")
	if err != nil {
		return "", err
	}
	build := exec.Command("go", "build", "-race", "-o", dir, "../cmd/producer", "../cmd/worker", "../cmd/admin")
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

// program is a binary of ours, with the environment that says where Redis is.
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
	return cmd
}

// run calls a command that must succeed and returns its standard output.
func (p program) run(name string, args ...string) string {
	p.tb.Helper()
	cmd := p.command(name, args...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		p.tb.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out.String(), errs.String())
	}
	return out.String()
}

// worker is a running cmd/worker.
type worker struct {
	tb   testing.TB
	cmd  *exec.Cmd
	log  *syncBuffer
	once sync.Once
}

func (p program) worker() *worker {
	p.tb.Helper()
	w := &worker{tb: p.tb, cmd: p.command("worker", "run"), log: &syncBuffer{}}
	w.cmd.Stderr, w.cmd.Stdout = w.log, w.log
	if err := w.cmd.Start(); err != nil {
		p.tb.Fatal(err)
	}
	p.tb.Cleanup(w.stop)
	return w
}

// stop sends SIGTERM and checks that the worker leaves with success.
func (w *worker) stop() {
	w.once.Do(func() {
		_ = w.cmd.Process.Signal(syscall.SIGTERM)
		if err := w.cmd.Wait(); err != nil {
			w.tb.Errorf("worker did not stop cleanly: %v\n%s", err, w.log.String())
		}
		if strings.Contains(w.log.String(), "DATA RACE") {
			w.tb.Errorf("worker has a data race:\n%s", w.log.String())
		}
	})
}

// syncBuffer is written by a process and read by a test.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
