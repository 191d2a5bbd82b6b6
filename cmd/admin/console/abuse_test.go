package console_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/admin/console"
)

// bystander asks again and again, each time on a connection of its own, at least once and until the test ends. It wants right answers,
// and most of them quickly: on an idle machine they take a millisecond, and on a busy one some take longer.
func bystander(t *testing.T, url string) {
	t.Helper()
	stop := make(chan struct{})
	var took []time.Duration
	var asking sync.WaitGroup
	asking.Go(func() {
		transport := &http.Transport{DisableKeepAlives: true, ResponseHeaderTimeout: 30 * time.Second}
		for {
			began := time.Now()
			if err := ask(t, transport, url); err != nil {
				t.Errorf("somebody else is kept out: %v", err)
				return
			}
			took = append(took, time.Since(began))
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	t.Cleanup(func() {
		close(stop)
		asking.Wait()
		slices.Sort(took)
		if len(took) > 0 && took[len(took)/2] > 2*time.Second {
			t.Errorf("somebody else is answered late: half of %d answers took more than %v", len(took), took[len(took)/2])
		}
	})
}

// ask asks once.
func ask(t *testing.T, transport *http.Transport, url string) error {
	t.Helper()
	r, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, url+"/healthz", nil)
	if err != nil {
		return err
	}
	resp, err := transport.RoundTrip(r)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return nil
}

// dial opens a connection to the server of a URL and says something.
func dial(t *testing.T, url, says string) net.Conn {
	t.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, says); err != nil && !errors.Is(err, net.ErrClosed) {
		t.Logf("say %.20q: %v", says, err)
	}
	return conn
}

// TestHalfOpen has many clients that connect, say half a head, and no more. They fit in.
func TestHalfOpen(t *testing.T) {
	t.Parallel()
	url := start(t, console.Options{})
	bystander(t, url)
	var last net.Conn
	for range 2000 {
		last = dial(t, url, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
	}
	ended(t, last)
}

// TestMoreThanFit has more clients than may be open, which say nothing: they make room for each other, and for others.
func TestMoreThanFit(t *testing.T) {
	t.Parallel()
	url := start(t, console.Options{Connections: 50})
	first := dial(t, url, "GET /healthz HTTP/1.1\r\n")
	for range 300 {
		dial(t, url, "GET /healthz HTTP/1.1\r\n")
	}
	bystander(t, url)
	ended(t, first)
}

// TestWhoMakesRoom has connections that rest between two requests: they go, but after those that never sent one.
func TestWhoMakesRoom(t *testing.T) {
	t.Parallel()
	url := start(t, console.Options{Connections: 2})
	const head = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	asks := func(conn net.Conn) bool {
		if _, err := io.WriteString(conn, head); err != nil {
			return false
		}
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil {
			_, err = io.Copy(io.Discard, resp.Body)
			_ = resp.Body.Close()
		}
		return err == nil
	}
	rests, silent := dial(t, url, ""), dial(t, url, "")
	if !asks(rests) {
		t.Fatal("the first is not answered")
	}
	if third := dial(t, url, ""); !asks(third) {
		t.Error("the third is not answered")
	}
	ended(t, silent)
	if !asks(rests) {
		t.Error("the one that rests had to go, and not the silent one")
	}
	if fourth := dial(t, url, ""); !asks(fourth) {
		t.Error("the fourth is not answered")
	}
	if fifth := dial(t, url, ""); !asks(fifth) {
		t.Error("the fifth is not answered")
	}
	ended(t, rests) // it would have rested for two minutes
}

// TestSlowHead has a client that says its head letter by letter: it is heard for 5 s.
func TestSlowHead(t *testing.T) {
	t.Parallel()
	url := start(t, console.Options{})
	bystander(t, url)
	conn := dial(t, url, "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for began := time.Now(); time.Since(began) < 30*time.Second; <-tick.C {
		if _, err := io.WriteString(conn, "x"); err != nil {
			return
		}
	}
	t.Error("it is heard for 30 s")
}

// ended wants the server to end a connection, after an answer or without.
func ended(t *testing.T, conn net.Conn) {
	t.Helper()
	const within = 30 * time.Second
	if err := conn.SetReadDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, context.DeadlineExceeded) || isTimeout(err) {
		t.Errorf("the connection is still open after %v", within)
	}
}

func isTimeout(err error) bool {
	late, ok := errors.AsType[net.Error](err)
	return ok && late.Timeout()
}

// zeros are bytes without end, counted.
type zeros struct{ sent int64 }

func (z *zeros) Read(p []byte) (int, error) {
	clear(p)
	z.sent += int64(len(p))
	return len(p), nil
}

// TestGigabytes has bodies of 1 GB, said beforehand and not: they are cut at the limit.
func TestGigabytes(t *testing.T) {
	t.Parallel()
	url := start(t, console.Options{})
	bystander(t, url)
	for name, length := range map[string]int64{"announced": 1 << 30, "without a length": -1} {
		for path, most := range map[string]int64{"/v1/jobs": 8 << 20, "/v1/jobs/batch": 128 << 20, "/pause": 8 << 20, "/login": 8 << 20} {
			t.Run(name+" to "+path, func(t *testing.T) {
				t.Parallel()
				body := &zeros{}
				r := request(t, http.MethodPost, url+path, "", "Content-Type: application/json")
				r.Body, r.ContentLength = io.NopCloser(io.LimitReader(body, 1<<30)), length
				status, err := answered(t, url, r)
				if status != http.StatusRequestEntityTooLarge || err != nil {
					t.Errorf("%d, %v; want 413", status, err)
				}
				if body.sent > most {
					t.Errorf("%d bytes were taken", body.sent)
				}
			})
		}
	}
}

// answered sends a request on a connection of its own, reads the status while it sends, and waits until sending has ended.
func answered(t *testing.T, url string, r *http.Request) (status int, err error) {
	t.Helper()
	conn := dial(t, url, "")
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_ = r.Write(conn) // it is cut off
	}()
	resp, err := http.ReadResponse(bufio.NewReader(conn), r)
	if err == nil {
		status = resp.StatusCode
		_ = resp.Body.Close()
	}
	ended(t, conn)
	<-sent
	return status, err
}
