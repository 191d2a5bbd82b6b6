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
	"time"
)

// crew are the running workers of all tests, by process id.
var crew sync.Map

func crewPIDs() (pids []int) {
	crew.Range(func(pid, _ any) bool {
		if pid, ok := pid.(int); ok {
			pids = append(pids, pid)
		}
		return true
	})
	return pids
}

// worker is a running cmd/worker or testworker.
type worker struct {
	tb     testing.TB
	cmd    *exec.Cmd
	log    *syncBuffer
	exited chan struct{} // closed once cmd has been waited for
	end    time.Time     // when that was
	err    error
	told   sync.Once
	once   sync.Once
}

// worker starts a cmd/worker that is stopped at the end of the test.
func (p program) worker(args ...string) *worker {
	p.tb.Helper()
	w := p.start("worker", append([]string{"run"}, args...)...)
	p.tb.Cleanup(w.dismiss)
	return w
}

func (p program) start(name string, args ...string) *worker {
	p.tb.Helper()
	w := &worker{tb: p.tb, cmd: p.command(name, args...), log: &syncBuffer{}, exited: make(chan struct{})}
	w.cmd.Stderr, w.cmd.Stdout = w.log, w.log
	if err := w.cmd.Start(); err != nil {
		p.tb.Fatal(err)
	}
	p.tb.Cleanup(w.report)
	crew.Store(w.pid(), w)
	go func() {
		defer close(w.exited)
		w.err = w.cmd.Wait()
		w.end = time.Now()
		crew.Delete(w.pid())
	}()
	return w
}

func (w *worker) pid() int { return w.cmd.Process.Pid }

// deafAfter is when a worker that was told to stop is given up. It is longer than any --shutdown-timeout.
const deafAfter = 60 * time.Second

// stop sends SIGTERM and checks that the worker leaves with success.
func (w *worker) stop() {
	w.once.Do(func() {
		w.tell()
		select {
		case <-w.exited:
		case <-time.After(deafAfter):
			w.tb.Errorf("worker %d did not stop within %v", w.pid(), deafAfter)
			_ = w.cmd.Process.Kill()
			<-w.exited
		}
		if w.err != nil {
			w.tb.Errorf("worker %d did not stop cleanly: %v", w.pid(), w.err)
		}
		w.inspect()
	})
}

// tell sends SIGTERM, once: a second one would end the worker at once.
func (w *worker) tell() {
	w.told.Do(func() {
		_ = w.cmd.Process.Signal(syscall.SIGTERM)
		_ = w.cmd.Process.Signal(syscall.SIGCONT) // it may be frozen
	})
}

// dismiss stops the worker at the end of its test, and tells the others of the test to stop at the same time.
func (w *worker) dismiss() {
	crew.Range(func(_, other any) bool {
		if o, ok := other.(*worker); ok && o.tb == w.tb {
			o.tell()
		}
		return true
	})
	w.stop()
}

// fault is what was done to a worker, or to all (pid 0), and may have a call repeated that ran between from and to.
type fault struct {
	pid      int
	from, to time.Time
}

// kill ends the worker as kill -9 does.
func (w *worker) kill() fault {
	from := time.Now()
	w.once.Do(func() {
		_ = w.cmd.Process.Kill()
		<-w.exited
		w.inspect()
	})
	return fault{w.pid(), from, w.end}
}

// freeze stops the worker in the middle of what it does, until the test thaws it.
func (w *worker) freeze() (at time.Time) {
	w.signal(syscall.SIGSTOP)
	return time.Now()
}

func (w *worker) thaw() fault {
	w.signal(syscall.SIGCONT)
	return fault{pid: w.pid(), to: time.Now()}
}

func (w *worker) signal(s syscall.Signal) {
	w.tb.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		w.tb.Fatalf("%v to worker %d: %v", s, w.pid(), err)
	}
}

// inspect looks for data races in what an ended worker said.
func (w *worker) inspect() {
	log := w.log.String()
	if at := strings.Index(log, "DATA RACE"); at >= 0 {
		w.tb.Errorf("worker %d has a data race:\n%s", w.pid(), log[at:])
	}
}

// report shows the end of the log when the test has failed. All of it is kept in the directory SPOUT_E2E_LOGS, if there is one.
func (w *worker) report() {
	log := w.log.String()
	if dir := os.Getenv("SPOUT_E2E_LOGS"); dir != "" {
		name := fmt.Sprintf("%s-%d.log", strings.ReplaceAll(w.tb.Name(), "/", "-"), w.pid())
		_ = os.WriteFile(filepath.Join(dir, name), []byte(log), 0o600)
	}
	if w.tb.Failed() {
		lines := strings.SplitAfter(log, "\n")
		w.tb.Logf("last words of worker %d:\n%s", w.pid(), strings.Join(lines[max(0, len(lines)-20):], ""))
	}
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
