package ops_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/internal/command"
	"github.com/spout-queue/spout/cmd/internal/ops"
)

// serve runs use in a program with some options, and fails when the program does.
func serve(t *testing.T, use func(context.Context, *command.Session, *ops.Ops), args ...string) {
	t.Helper()
	var stderr strings.Builder
	p := &command.Program{
		Name: "prog", Usage: "test", Getenv: func(string) string { return "" },
		Stdin: strings.NewReader(""), Stdout: io.Discard, Stderr: &stderr,
	}
	status := p.Run(t.Context(), append([]string{"prog", "do"}, args...), p.Command(command.Command{
		Name: "do", Usage: "test", Flags: ops.Flags(),
		Run: func(ctx context.Context, s *command.Session) error {
			o, err := ops.Open(ctx, s, "prog")
			if err != nil {
				return err
			}
			defer o.Close(ctx)
			use(ctx, s, o)
			return nil
		},
	}))
	if status != 0 {
		t.Fatalf("exit status %d: %s", status, &stderr)
	}
}

// ask sends one request and returns status and body.
func ask(ctx context.Context, t *testing.T, method, url, host, body string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // it has been read
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func TestOpsAddress(t *testing.T) {
	t.Parallel()
	serve(t, func(ctx context.Context, s *command.Session, o *ops.Ops) {
		get := func(path string, status int, part string) {
			t.Helper()
			if got, text := ask(ctx, t, http.MethodGet, "http://"+o.Addr()+path, "", ""); got != status || !strings.Contains(text, part) {
				t.Errorf("GET %s: %d %.200q, want %d and %q", path, got, text, status, part)
			}
		}
		get("/metrics", 200, `spout_build_info{goversion="go`)
		get("/livez", 200, "ok")
		get("/readyz", 503, "starting")
		ready := errors.New("redis is away")
		o.Watch(ops.Probes{Ready: func() error { return ready }, Live: func() error { return errors.New("stuck") }})
		get("/readyz", 503, "redis is away")
		get("/livez", 503, "stuck")
		o.Watch(ops.Probes{Ready: func() error { return nil }})
		get("/readyz", 200, "ok")
		get("/livez", 200, "ok")
		get("/debug/pprof/", 200, "goroutine")
		get("/debug/pprof/cmdline", 404, "")
		get("/loglevel", 200, "info")
		if got, _ := ask(ctx, t, http.MethodPut, "http://"+o.Addr()+"/loglevel", "", "debug\n"); got != 204 || s.Level.Level().String() != "DEBUG" {
			t.Errorf("PUT /loglevel: %d, the level is %v", got, s.Level)
		}
		if got, _ := ask(ctx, t, http.MethodPut, "http://"+o.Addr()+"/loglevel", "", "loud"); got != 400 || s.Level.Level().String() != "DEBUG" {
			t.Errorf("PUT /loglevel of nonsense: %d, the level is %v", got, s.Level)
		}
		// A page whose name resolves to this machine must not read profiles.
		for _, host := range []string{"evil.example", "evil.example:80", "192.0.2.1"} {
			if got, _ := ask(ctx, t, http.MethodGet, "http://"+o.Addr()+"/debug/pprof/heap", host, ""); got != 403 {
				t.Errorf("profile asked of %s: %d, want 403", host, got)
			}
		}
	}, "--ops-addr", "127.0.0.1:0")
}

func TestProfilesNeedLoopbackOrLeave(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		args []string
		want int
	}{
		{[]string{"--ops-addr", "0.0.0.0:0"}, 404},
		{[]string{"--ops-addr", "0.0.0.0:0", "--ops-debug"}, 200},
	} {
		serve(t, func(ctx context.Context, _ *command.Session, o *ops.Ops) {
			_, port, err := net.SplitHostPort(o.Addr())
			if err != nil {
				t.Fatal(err)
			}
			for _, path := range []string{"/debug/pprof/", "/loglevel"} {
				if got, _ := ask(ctx, t, http.MethodGet, "http://127.0.0.1:"+port+path, "", ""); got != test.want {
					t.Errorf("%v: GET %s: %d, want %d", test.args, path, got, test.want)
				}
			}
			if got, _ := ask(ctx, t, http.MethodGet, "http://127.0.0.1:"+port+"/metrics", "", ""); got != 200 {
				t.Errorf("%v: GET /metrics: %d", test.args, got)
			}
		}, test.args...)
	}
}

func TestNothingUnlessAsked(t *testing.T) {
	t.Parallel()
	serve(t, func(_ context.Context, s *command.Session, o *ops.Ops) {
		if o.Addr() != "" || o.Registry != nil || s.Metrics != nil {
			t.Errorf("listens at %q, metrics %v", o.Addr(), o.Registry)
		}
	})
}

// TestSystemd is what systemd would hear of a program of Type=notify with a watchdog.
func TestSystemd(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "n")
	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing is under way
	t.Setenv("NOTIFY_SOCKET", socket)
	t.Setenv("WATCHDOG_USEC", "100000")
	hear := func() string {
		t.Helper()
		_ = l.SetReadDeadline(time.Now().Add(time.Minute))
		b := make([]byte, 100)
		n, err := l.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	expect := func(want string) {
		t.Helper()
		if got := hear(); got != want {
			t.Errorf("systemd hears %q, want %q", got, want)
		}
	}
	serve(t, func(_ context.Context, _ *command.Session, o *ops.Ops) {
		expect("STATUS=starting")
		var stuck atomic.Bool
		o.Watch(ops.Probes{Live: func() error {
			if stuck.Load() {
				return errors.New("stuck")
			}
			return nil
		}})
		expect("READY=1\nSTATUS=ready")
		expect("WATCHDOG=1")
		expect("WATCHDOG=1")
		stuck.Store(true)
		quiet := false
		for range 3 { // one may be on its way
			_ = l.SetReadDeadline(time.Now().Add(300 * time.Millisecond))
			if _, err := l.Read(make([]byte, 100)); errors.Is(err, context.DeadlineExceeded) || err != nil {
				quiet = true
				break
			}
		}
		if !quiet {
			t.Error("the watchdog is told that a stuck program lives")
		}
	})
	expect("STOPPING=1")
}
