package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// admin is the real admin serve, in a process of its own.
type admin struct {
	cmd *exec.Cmd
	url string // without a slash at its end
}

// buildAdmin makes the binary and tells where it is.
func (b *bench) buildAdmin(ctx context.Context) (string, error) {
	binary := filepath.Join(b.dir, "admin")
	if out, err := exec.CommandContext(ctx, "go", "build", "-o", binary, "./cmd/admin").CombinedOutput(); err != nil { //nolint:gosec // our own
		return "", fmt.Errorf("build the admin: %w\n%s", err, out)
	}
	return binary, nil
}

// serve starts a binary of buildAdmin and waits until it serves.
func (b *bench) serve(ctx context.Context, binary string) (*admin, error) {
	a := &admin{cmd: exec.CommandContext(ctx, binary, "serve", "--addr", "127.0.0.1:0")}
	a.cmd.Env = append(os.Environ(), "SPOUT_REDIS=redis://"+b.rdb.Options().Addr)
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := a.cmd.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	_, rest, found := strings.Cut(line, "serving ")
	if err != nil || !found {
		a.stop()
		return nil, errors.Join(fmt.Errorf("admin serve says %q", line), err)
	}
	address, _, _ := strings.Cut(rest, ",")
	a.url = strings.TrimSuffix(address, "/")
	return a, nil
}

func (a *admin) stop() {
	_ = a.cmd.Process.Signal(os.Interrupt)
	_ = a.cmd.Wait()
}

// clockTick is the unit of processor times in /proc, the same on every Linux that Go runs on.
const clockTick = 10 * time.Millisecond

// cpuTime is the processor time that it has used, to 10 ms; 0 where nobody can tell.
func (a *admin) cpuTime() time.Duration {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", a.cmd.Process.Pid))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(stat), ") ") // behind the name, which may be anything
	var ticks int64
	if fields := strings.Fields(rest); len(fields) > 12 {
		for _, text := range fields[11:13] { // of the user and of the system
			n, _ := strconv.ParseInt(text, 10, 64) // the kernel writes a number
			ticks += n
		}
	}
	return time.Duration(ticks) * clockTick
}
