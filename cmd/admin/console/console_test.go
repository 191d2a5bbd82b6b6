package console_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/console"
	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// open opens an installation of its own.
func open(tb testing.TB) *queue.Client {
	tb.Helper()
	client, err := queue.Open(tb.Context(), redistest.MiniClient(tb), queue.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	return client
}

// start serves a console on a loopback port and returns its URL, without a slash at the end.
func start(tb testing.TB, o console.Options) string {
	tb.Helper()
	url, _ := serve(tb, o)
	return url
}

// serve is start with a way to end it, which returns when nobody is let in any more.
func serve(tb testing.TB, o console.Options) (url string, end func()) {
	tb.Helper()
	if o.Client == nil {
		o.Client = open(tb)
	}
	if o.Guard == nil && o.Authenticate == nil {
		guard, err := access.NewGuard(access.Options{Local: true, Base: o.Base})
		if err != nil {
			tb.Fatal(err)
		}
		o.Guard = guard
	}
	c, err := console.New(o)
	if err != nil {
		tb.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	ended := make(chan error, 1)
	go func() { ended <- c.Serve(ctx, l, nil) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Errorf("the server ended with %v", err)
		}
	})
	return "http://" + l.Addr().String() + o.Base, func() {
		cancel()
		for {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				return
			}
			_ = conn.Close()
		}
	}
}

// request makes a request with headers, which are given as "Name: value"; Host is one.
func request(t *testing.T, method, url, body string, headers ...string) *http.Request {
	t.Helper()
	var from io.Reader
	if body != "" {
		from = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(t.Context(), method, url, from)
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		if name == "Host" {
			r.Host = value
			continue
		}
		r.Header.Add(name, value)
	}
	return r
}

// reply is an answer without its body.
type reply struct {
	Status     string
	StatusCode int
	Header     http.Header
}

// do sends a request, follows nothing, and reads the answer.
func do(t *testing.T, r *http.Request) (head reply, body string) {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	defer resp.Body.Close() //nolint:errcheck // it is read
	read, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("%s %s: %v", r.Method, r.URL, err)
	}
	return reply{resp.Status, resp.StatusCode, resp.Header}, string(read)
}

func TestHealth(t *testing.T) {
	t.Parallel()
	url := start(t, console.Options{Base: "/spout"})
	if resp, body := do(t, request(t, http.MethodGet, url+"/healthz", "")); resp.StatusCode != 200 || body != "ok\n" {
		t.Errorf("GET /healthz: %d %q", resp.StatusCode, body)
	}
	if resp, body := do(t, request(t, http.MethodGet, strings.TrimSuffix(url, "/spout")+"/v1/classes", "")); resp.StatusCode != 404 || !strings.Contains(body, "below /spout/") {
		t.Errorf("elsewhere: %d %q", resp.StatusCode, body)
	}
}
