package redistest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"strconv"
	"testing"
	"time"
)

// check ends the test when what failed.
func check(tb testing.TB, err error, what string) {
	tb.Helper()
	if err != nil {
		tb.Fatalf("%s: %v", what, err)
	}
}

// closing has c closed at the end of tb.
func closing[C io.Closer](tb testing.TB, c C) C {
	tb.Helper()
	tb.Cleanup(func() { _ = c.Close() })
	return c
}

// tempDir is tb.TempDir with a short name: the path of a Unix socket has room
// for 108 bytes.
func tempDir(tb testing.TB) string {
	tb.Helper()
	dir, err := os.MkdirTemp("", "spout") //nolint:usetesting // for its short name
	check(tb, err, "temporary directory")
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// freePort picks a port from 10000 to 22767. Ports that the system itself
// gives out begin higher (32768 on Linux): there, a client that redials a
// killed server can take the server's port, and even connect to itself. The
// limit leaves room for the bus of a cluster node, at its port + 10000.
func freePort(tb testing.TB) string {
	tb.Helper()
	var config net.ListenConfig
	for {
		port := strconv.Itoa(10000 + rand.IntN(12768)) //nolint:gosec // no secret
		l, err := config.Listen(tb.Context(), "tcp", net.JoinHostPort("127.0.0.1", port))
		if err == nil {
			_ = l.Close()
			return port
		}
		check(tb, tb.Context().Err(), "free port")
	}
}

// dial tells whether something listens at addr.
func dial(ctx context.Context, addr string) error {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err == nil {
		_ = conn.Close()
	}
	return err
}

// await tries until it succeeds, for at most 30 s; errExited is final.
func await(ctx context.Context, try func() error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := try()
		if err == nil || errors.Is(err, errExited) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		case <-time.After(2 * time.Millisecond):
		}
	}
}
