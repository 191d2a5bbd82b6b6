package redistest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

// errExited tells that redis-server ended by itself: its port was taken
// between choosing and binding it, or its arguments are wrong.
var errExited = errors.New("redis-server ended before it was ready")

// Server is one redis-server process.
type Server struct {
	Addr string // host:port
	Dir  string // working directory, a path short enough for a Unix socket

	tb     testing.TB
	args   []string
	tls    *tls.Config
	cmd    *exec.Cmd
	exited chan struct{} // closed once cmd has been waited for
}

// Start starts a redis-server that stores nothing on disk. Arguments override
// ours: with "--appendonly", "yes" what was acknowledged survives
// [Server.Kill] and [Server.Restart]. For a password, use CONFIG SET on the
// running server.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return start(tb, tempDir(tb), nil, func(port string) []string {
		return slices.Concat([]string{"--port", port, "--save", "", "--appendonly", "no"}, args)
	})
}

// start runs redis-server in dir with the arguments for a free port. It may
// take several ports until one is still free when the server binds it.
func start(tb testing.TB, dir string, tlsConfig *tls.Config, args func(port string) []string) *Server {
	tb.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		tb.Fatal("redis-server not found: run 'make tools' or apt-get install redis-server")
	}
	s := &Server{Dir: dir, tb: tb, tls: tlsConfig}
	err := errExited
	for tries := 5; errors.Is(err, errExited) && tries > 0; tries-- {
		port := freePort(tb)
		s.Addr = net.JoinHostPort("127.0.0.1", port)
		s.args = append(args(port), "--bind", "127.0.0.1", "--dir", dir)
		err = s.run()
	}
	check(tb, err, "start redis-server")
	tb.Cleanup(s.Kill)
	return s
}

// Client returns a client of its own, closed at the end of tb.
func (s *Server) Client(tb testing.TB) *redis.Client {
	tb.Helper()
	return closing(tb, redis.NewClient(&redis.Options{Addr: s.Addr, TLSConfig: s.tls}))
}

// Kill ends the server as kill -9 does and returns when it is gone. Killing it
// twice is fine.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // fails only when it has ended already
	<-s.exited
}

// Restart starts a killed server again, on the same port and directory.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Kill()
	check(s.tb, s.run(), "restart redis-server")
}

// run starts the process and returns when it answers; after an error nothing
// runs.
func (s *Server) run() error {
	logFile, err := os.Create(filepath.Join(s.Dir, "log"))
	if err != nil {
		return err
	}
	defer logFile.Close() //nolint:errcheck // the process has a copy of its own

	// Ended by Kill, in the order of tb's cleanups, not by the context.
	ctx := context.WithoutCancel(s.tb.Context())
	cmd := exec.CommandContext(ctx, "redis-server", s.args...) //nolint:gosec // arguments of a test
	cmd.Stdout, cmd.Stderr = logFile, logFile
	cmd.SysProcAttr = dieWithParent()
	if err := cmd.Start(); err != nil {
		return err
	}
	exited := make(chan struct{})
	s.cmd, s.exited = cmd, exited
	go func() {
		defer close(exited)
		_ = cmd.Wait() // an error as a rule: it is killed
	}()

	rdb := redis.NewClient(&redis.Options{Addr: s.Addr, TLSConfig: s.tls, MaxRetries: -1})
	defer rdb.Close() //nolint:errcheck // nothing left to lose
	if err := await(ctx, func() error { return s.ready(ctx, rdb) }); err != nil {
		s.Kill()
		log, _ := os.ReadFile(logFile.Name())
		return fmt.Errorf("%w; its log:\n%s", err, log)
	}
	return nil
}

// ready tells whether it is this process that answers, and not another one on
// the port that it failed to bind.
func (s *Server) ready(ctx context.Context, rdb *redis.Client) error {
	select {
	case <-s.exited:
		return errExited
	default:
	}
	if err := dial(ctx, s.Addr); err != nil { // go-redis would wait and log
		return err
	}
	if err := rdb.Ping(ctx).Err(); err != nil { // fails while it loads its data
		return err
	}
	info, err := rdb.Info(ctx, "server").Result()
	if err == nil && !strings.Contains(info, "process_id:"+strconv.Itoa(s.cmd.Process.Pid)+"\r\n") {
		err = fmt.Errorf("another server answers at %s", s.Addr)
	}
	return err
}
