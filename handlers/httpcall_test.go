package handlers_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"
	"pgregory.net/rapid"

	"github.com/spout-queue/spout/handlers"
)

func TestOnly2xxIsDone(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 201, 204, 206, 299, 301, 304, 400, 404, 429, 500, 503, 599} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			srv := newService(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
			err := newCall(t, handlers.HTTPOptions{}).ProcessTask(t.Context(), task(t, object{"url": srv.URL}))
			var se *handlers.StatusError
			switch {
			case status < 300 && err != nil:
				t.Errorf("got %v, want done", err)
			case status >= 300 && (!errors.As(err, &se) || se.Status != status):
				t.Errorf("got %v, want a StatusError of %d", err, status)
			case errors.Is(err, asynq.SkipRetry):
				t.Errorf("%v is permanent", err)
			}
			if n := srv.requests.Load(); n != 1 {
				t.Errorf("%d requests, want 1", n)
			}
		})
	}
}

func TestStatusErrorTellsWhatHappened(t *testing.T) {
	t.Parallel()
	srv := newService(t, func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "no \x1b[31mroom\r\n\xff for "+r.URL.RawQuery+" \u202e"+strings.Repeat("é", 300))
	})
	err := newCall(t, handlers.HTTPOptions{}).ProcessTask(t.Context(),
		task(t, object{"method": "DELETE", "url": srv.URL + "/a%20b?token=secret#x"}))
	var got *handlers.StatusError
	if !errors.As(err, &got) {
		t.Fatalf("got %v, want a StatusError", err)
	}
	const begin = "no [31mroom \uFFFD for [query] é"
	if !strings.HasPrefix(got.Body, begin) || len(got.Body) > 256 || len(got.Body) < 200 || !utf8.ValidString(got.Body) {
		t.Errorf("Body = %q, want 256 bytes that begin with %q", got.Body, begin)
	}
	want := &handlers.StatusError{Method: "DELETE", URL: srv.URL + "/a%20b", Status: 503, Body: got.Body}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("StatusError (-want +got):\n%s", diff)
	}
	if text := "DELETE " + srv.URL + `/a%20b: answered 503 Service Unavailable: "no [31mroom`; !strings.HasPrefix(err.Error(), text) {
		t.Errorf("got %q, want it to begin with %q", err, text)
	}
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	for location, want := range map[string]string{
		"http://u:pw@b.example:81/x?token=secret": `, a redirect to host "b.example:81"; redirects are not followed`,
		"/elsewhere": `, a redirect to host "127.0.0.1:`,
		"http://%":   `answered 302 Found`,
	} {
		srv := newService(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", location)
			w.WriteHeader(http.StatusFound)
		})
		err := newCall(t, handlers.HTTPOptions{}).ProcessTask(t.Context(), task(t, object{"url": srv.URL}))
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "pw") || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: got %v, want %q in it and no secret", location, err, want)
		}
		if n := srv.requests.Load(); n != 1 {
			t.Errorf("%s: %d requests, want 1", location, n)
		}
	}
}

// TestLongAnswer also shows which answers leave their connection fit for reuse.
func TestLongAnswer(t *testing.T) {
	t.Parallel()
	const most = 1000
	for name, test := range map[string]struct {
		size   int
		status int
		zip    bool
		conns  int64 // for two calls
	}{
		"up to the bound":     {most, 200, false, 1},
		"longer":              {most + 100_000, 200, false, 2},
		"longer, an error":    {most + 100_000, 500, false, 2},
		"short when unpacked": {most, 200, true, 1},
		"long when unpacked":  {10_000_000, 200, true, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := bytes.Repeat([]byte("a"), test.size)
			if test.zip {
				body = zipped(t, body)
			}
			srv := newService(t, func(w http.ResponseWriter, _ *http.Request) {
				if test.zip {
					w.Header().Set("Content-Encoding", "gzip")
				}
				w.WriteHeader(test.status)
				_, _ = w.Write(body)
			})
			h := newCall(t, handlers.HTTPOptions{MaxResponse: most})
			for range 2 {
				err := h.ProcessTask(t.Context(), task(t, object{"url": srv.URL}))
				if done := test.status == 200; done != (err == nil) {
					t.Errorf("got %v", err)
				}
			}
			if n := srv.conns.Load(); n != test.conns {
				t.Errorf("%d connections, want %d", n, test.conns)
			}
		})
	}
}

func zipped(t *testing.T, b []byte) []byte {
	t.Helper()
	var buf bytes.Buffer
	z := gzip.NewWriter(&buf)
	if _, err := z.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

func TestBrokenAnswerIsAnError(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer string
		want   string
	}{
		"cut short":   {"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "answered 200, but the body broke off after 3 bytes: unexpected EOF"},
		"bad gzip":    {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 12\r\n\r\nnot gzipped!", "the body broke off"},
		"no HTTP":     {"hello \x1b[2J\r\n\r\n", "malformed HTTP"},
		"big headers": {"HTTP/1.1 200 OK\r\nA: " + strings.Repeat("a", 1<<17) + "\r\n\r\n", "exceeded 65536 bytes"},
		"silence":     {"", "EOF"},
		"other protocol": {
			"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nabc", "answered 101 Switching Protocols",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newService(t, func(w http.ResponseWriter, _ *http.Request) { hijack(t, w, test.answer) })
			err := newCall(t, handlers.HTTPOptions{}).ProcessTask(t.Context(), task(t, object{"method": "POST", "url": srv.URL + "/x?token=secret"}))
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "POST "+srv.URL+"/x: ") {
				t.Errorf("got %v, want %q in it", err, test.want)
			}
			if errors.Is(err, asynq.SkipRetry) || len(fmt.Sprint(err)) > 1100 || strings.ContainsAny(fmt.Sprint(err), "\x1b\r\n") {
				t.Errorf("got %q, want a short, clean and temporary error", err)
			}
		})
	}
}

// hijack writes raw to the connection and closes it.
func hijack(t *testing.T, w http.ResponseWriter, raw string) {
	t.Helper()
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	_, _ = io.WriteString(conn, raw)
	_ = conn.Close()
}

// TestContextEndsTheCall: whatever the service does, the call is over when its
// context is, and says so.
func TestContextEndsTheCall(t *testing.T) {
	t.Parallel()
	for name, handler := range map[string]http.HandlerFunc{
		"no answer":  silence,
		"body drips": drip,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { contextEndsTheCall(t, handler) })
		})
	}
}

func contextEndsTheCall(t *testing.T, service http.HandlerFunc) {
	t.Helper()
	b := newBubble()
	defer b.finish()
	b.net.took = 0
	b.server.Handler = service
	b.HTTPCall = handlers.NewTestHTTPCall(handlers.HTTPOptions{Timeout: 50 * time.Millisecond}, b.net.Dial, nil)

	if took, err := b.attempt(t); !errors.Is(err, context.DeadlineExceeded) || took != 50*time.Millisecond || errors.Is(err, asynq.SkipRetry) {
		t.Errorf("without a deadline: got %v after %v, want a temporary DeadlineExceeded after 50ms", err, took)
	}
	short, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if took, err := b.attemptIn(short, t); !errors.Is(err, context.DeadlineExceeded) || took != 20*time.Millisecond {
		t.Errorf("with a deadline: got %v after %v, want DeadlineExceeded after 20ms", err, took)
	}
	long, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if took, err := b.attemptIn(long, t); !errors.Is(err, context.DeadlineExceeded) || took != time.Minute {
		t.Errorf("with a late deadline: got %v after %v, want DeadlineExceeded after 1m", err, took)
	}
	errLost := errors.New("the worker lost contact")
	lost, lose := context.WithCancelCause(t.Context())
	time.AfterFunc(30*time.Millisecond, func() { lose(errLost) })
	if took, err := b.attemptIn(lost, t); !errors.Is(err, errLost) || !errors.Is(err, context.Canceled) || took != 30*time.Millisecond {
		t.Errorf("cancelled: got %v after %v, want both the cause and Canceled after 30ms", err, took)
	}
}

// silence does not answer. A server learns that its caller has gone only when it has
// read the whole request.
func silence(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	<-r.Context().Done()
}

// drip answers 200 and then a byte each millisecond, for as long as anybody listens.
func drip(w http.ResponseWriter, r *http.Request) {
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		if _, err := io.WriteString(w, "x"); err != nil {
			return
		}
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}

// TestProxyOfTheEnvironmentIsNotUsed is not parallel: it sets the environment.
func TestProxyOfTheEnvironmentIsNotUsed(t *testing.T) {
	t.Setenv("HTTP_PROXY", "http://proxy.example:3128")
	var dialled string
	h := handlers.NewTestHTTPCall(handlers.HTTPOptions{}, func(_ context.Context, _, addr string) (net.Conn, error) {
		dialled = addr
		return nil, errNoNetwork
	}, nil)
	err := h.ProcessTask(t.Context(), task(t, object{"url": "http://a.example/"}))
	if !errors.Is(err, errNoNetwork) || dialled != "a.example:80" {
		t.Errorf("dialled %q, %v", dialled, err)
	}
}

func TestHTTP2IsUsedAndReused(t *testing.T) {
	t.Parallel()
	srv := prepareService(t, func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			w.WriteHeader(http.StatusHTTPVersionNotSupported)
		}
	})
	h := newTLSCall(t, srv, handlers.HTTPOptions{FreshUntil: freshFor(time.Minute)})
	for range 3 {
		if err := h.ProcessTask(t.Context(), task(t, object{"method": "POST", "url": srv.URL, "body": "x"})); err != nil {
			t.Fatal(err)
		}
	}
	if n := srv.conns.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// newTLSCall starts srv with TLS and HTTP/2 and returns an HTTPCall that trusts it.
func newTLSCall(t *testing.T, srv *service, o handlers.HTTPOptions) *handlers.HTTPCall {
	t.Helper()
	srv.EnableHTTP2 = true
	srv.StartTLS()
	transport, ok := srv.Client().Transport.(*http.Transport)
	if !ok {
		t.Fatal("httptest has another transport now")
	}
	h := handlers.NewTestHTTPCall(o, new(net.Dialer).DialContext, transport.TLSClientConfig.Clone())
	t.Cleanup(h.CloseIdleConnections)
	return h
}

func TestUnknownCertificateIsAnError(t *testing.T) {
	t.Parallel()
	srv := prepareService(t, ok)
	srv.StartTLS()
	err := newCall(t, handlers.HTTPOptions{}).ProcessTask(t.Context(), task(t, object{"url": srv.URL}))
	if err == nil || !strings.Contains(err.Error(), "certificate") || errors.Is(err, asynq.SkipRetry) {
		t.Errorf("got %v, want a temporary error about the certificate", err)
	}
}

// TestNoSecretInErrors: whatever goes wrong, neither query nor password nor the
// value of a header shows, not even when the service sends it back.
func TestNoSecretInErrors(t *testing.T) {
	t.Parallel()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "http://u:"+r.URL.RawQuery+"@b.example/?"+r.URL.RawQuery)
		w.WriteHeader(http.StatusFound)
		_, _ = io.WriteString(w, strings.Repeat("x", len(r.URL.RawQuery)*7%300)+"cannot GET "+r.RequestURI)
	}))
	t.Cleanup(srv.Close)
	h := newCall(t, handlers.HTTPOptions{})
	offline := handlers.NewTestHTTPCall(handlers.HTTPOptions{}, func(_ context.Context, _, addr string) (net.Conn, error) {
		return nil, fmt.Errorf("dial %s: %w", addr, errNoNetwork)
	}, nil)
	rapid.Check(t, func(rt *rapid.T) {
		secret := rapid.StringMatching(`S[a-zA-Z0-9/@:&%=+ é-]{8,40}`).Draw(rt, "secret")
		escaped := rapid.SampledFrom([]func(string) string{url.QueryEscape, url.PathEscape, func(s string) string { return s }}).Draw(rt, "escape")(secret)
		base := rapid.SampledFrom([]string{srv.URL, "http://127.0.0.1:1", "http://a.example", "http://a..example", "ftp://a.example", "http://", "http://a.example:99999"}).Draw(rt, "base")
		raw := base + "/path?" + escaped
		if rapid.Bool().Draw(rt, "userinfo") {
			raw = strings.Replace(base, "://", "://user:"+escaped+"@", 1) + "/path"
		}
		job := taskIn(t, object{"url": raw, "headers": object{"Authorization": secret}},
			rapid.SampledFrom([]string{"", `{"allow_private":true}`, `{"hosts":["b.example"]}`}).Draw(rt, "settings"))
		call := h
		if !strings.Contains(base, "127.0.0.1") {
			call = offline
		}
		err := call.ProcessTask(t.Context(), job)
		if err == nil {
			rt.Fatal("no error")
		}
		if strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), escaped) {
			rt.Errorf("secret in %q", err)
		}
	})
}
