package handlers_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/handlers"
	"github.com/spout-queue/spout/queue"
)

// upstream answers in the ways that clients of net/http know.
func upstream(tb testing.TB) *service {
	tb.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		for name, values := range r.Header {
			w.Header()["Saw-"+name] = values
		}
		w.Header().Add("Two", "1")
		w.Header().Add("Two", "2")
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write(append([]byte(r.Method+" "+r.URL.RawQuery+" "), body...))
	})
	mux.HandleFunc("/none", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/old", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/echo", http.StatusTemporaryRedirect)
	})
	mux.HandleFunc("/big", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "50000")
		_, _ = io.WriteString(w, strings.Repeat("x", 50000))
	})
	return newService(tb, mux.ServeHTTP)
}

func TestTransportIsOne(t *testing.T) {
	t.Parallel()
	up := upstream(t)
	s := newCallSystem(t)
	s.class(t, 1000, fast, nil)
	client := s.client()

	for _, test := range []struct {
		name, method, path, body string
		status                   int
		want                     string
		length                   int64
	}{
		{"get", "GET", "/echo?a=b&c=%20", "", 418, "GET a=b&c=%20 ", -1},
		{"post", "POST", "/echo", "héllo", 418, "POST  héllo", -1},
		{"bytes", "PUT", "/echo", "\xff\x00\xfe", 418, "PUT  \xff\x00\xfe", -1},
		{"nothing", "GET", "/none", "", 204, "", 0},
		{"head", "HEAD", "/big", "", 200, "", 50000},
		{"redirected with its body", "POST", "/old", "again", 418, "POST  again", -1},
		{"no such path", "GET", "/", "", 404, "404 page not found\n", -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			req, err := http.NewRequestWithContext(t.Context(), test.method, up.URL+test.path, strings.NewReader(test.body))
			if err != nil {
				t.Fatal(err)
			}
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close() //nolint:errcheck // only read
			body, err := io.ReadAll(resp.Body)
			if err != nil || string(body) != test.want || resp.StatusCode != test.status {
				t.Errorf("%s %q, %v; want %d %q", resp.Status, body, err, test.status, test.want)
			}
			if test.length < 0 {
				test.length = int64(len(test.want))
			}
			if resp.ContentLength != test.length {
				t.Errorf("content length %d, want %d", resp.ContentLength, test.length)
			}
			if resp.Proto != "HTTP/1.1" || !resp.ProtoAtLeast(1, 1) || resp.Request == nil || resp.Body == nil {
				t.Errorf("%+v lacks what every response has", resp)
			}
			if want := http.StatusText(test.status); !strings.HasSuffix(resp.Status, want) {
				t.Errorf("status %q has no %q", resp.Status, want)
			}
		})
	}
}

func TestTransportHeaders(t *testing.T) {
	t.Parallel()
	up := upstream(t)
	s := newCallSystem(t)
	s.class(t, 1000, fast, func(c *queue.Class) {
		c.HTTP.Secrets, c.HTTP.Hosts, c.HTTP.Schemes = []string{"api"}, []string{"127.0.0.1"}, []string{"http"}
	})
	client := s.client()
	client.Jar, _ = cookiejar.New(nil)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, up.URL+"/echo", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = http.Header{
		"Accept":        {"text/plain", "text/html"},
		"X-Mine":        {"1"},
		"Connection":    {"keep-alive, x-hop"},
		"X-Hop":         {"only to the next"},
		"Keep-Alive":    {"timeout=5"},
		"Te":            {"trailers"},
		"Authorization": {"Bearer {{secret:api}}"},
		"User-Agent":    {"me/1"},
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	saw := map[string][]string{}
	for name, values := range resp.Header {
		if name, ok := strings.CutPrefix(name, "Saw-"); ok && name != "Accept-Encoding" && name != "Idempotency-Key" {
			saw[name] = values
		}
	}
	want := map[string][]string{
		"Accept": {"text/plain, text/html"}, "X-Mine": {"1"}, "User-Agent": {"me/1"}, "Spout-Attempt": {"1"},
		"Authorization": {"Bearer [secret:api]"}, // what it saw was hidden again on its way back
	}
	if diff := cmp.Diff(want, saw); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"1", "2"}, resp.Header.Values("two")); diff != "" {
		t.Error(diff)
	}
}

func TestTransportTruncatedBody(t *testing.T) {
	t.Parallel()
	up := upstream(t)
	s := newCallSystem(t)
	s.class(t, 1000, fast, nil)
	got := get(t, s.client(), up.URL+"/big")
	if !errors.Is(got.err, handlers.ErrTruncated) || len(got.body) != 40<<10 || got.length != 50000 {
		t.Errorf("read %d of %d bytes, %v; want 40960 of 50000 and %v", len(got.body), got.length, got.err, handlers.ErrTruncated)
	}
}

// answer is a response that was read.
type answer struct {
	length int64
	body   string
	err    error // of reading the body
}

// get makes a request that must have an answer.
func get(t *testing.T, client *http.Client, target string) answer {
	t.Helper()
	a, err := try(t.Context(), client, target)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func try(ctx context.Context, client *http.Client, target string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return answer{}, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close() //nolint:errcheck // only read
	body, err := io.ReadAll(resp.Body)
	return answer{resp.ContentLength, string(body), err}, nil
}

func TestTransportKeepsThePace(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var times []time.Time
	up := newService(t, func(http.ResponseWriter, *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		times = append(times, time.Now())
	})
	s := newCallSystem(t)
	const interval = 100 * time.Millisecond
	s.class(t, 100, queue.Rate{Limit: 10, Period: time.Second}, nil)
	client := s.client()
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			if _, err := try(t.Context(), client, up.URL); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(times) != 8 {
		t.Fatalf("%d calls arrived, want 8", len(times))
	}
	// Over all of them: what one call loses on a busy machine it does not gain on the next.
	if took := times[7].Sub(times[0]); took < 7*interval-50*time.Millisecond {
		t.Errorf("8 calls within %v, at 10/1s", took)
	}
}

func TestTransportTellsWhenItIsFull(t *testing.T) {
	t.Parallel()
	up := newService(t, ok)
	s := newCallSystem(t)
	s.class(t, 1, queue.Rate{Limit: 1, Period: time.Hour}, nil)
	get(t, s.client(), up.URL) // now the next is due in an hour
	ctx, cancel := context.WithCancel(t.Context())
	waits := make(chan error, 1)
	go func() {
		_, err := try(ctx, s.client(), up.URL)
		waits <- err
	}()
	s.awaitLevel(t, 1)

	_, err := try(t.Context(), s.client(), up.URL)
	full, isFull := errors.AsType[*handlers.RejectedError](err)
	if !isFull || full.RetryAfter() < 59*time.Minute || isTimeout(err) {
		t.Errorf("%v; want a rejection that says to come back in an hour", err)
	}

	cancel()
	if err := <-waits; !errors.Is(err, context.Canceled) {
		t.Errorf("%v, want context.Canceled", err)
	}
	s.awaitLevel(t, 0)
	if n := up.requests.Load(); n != 1 {
		t.Errorf("%d calls, want 1: the cancelled and the rejected one never departed", n)
	}
}

// awaitLevel waits until that many jobs wait.
func (s system) awaitLevel(t *testing.T, level int64) {
	t.Helper()
	for {
		books, err := s.Books(t.Context(), "api")
		if err != nil {
			t.Fatal(err)
		}
		if books.Waiting() == level {
			return
		}
		select {
		case <-time.After(2 * time.Millisecond):
		case <-t.Context().Done():
			t.Fatalf("level %d, want %d", books.Waiting(), level)
		}
	}
}

func isTimeout(err error) bool {
	slow, ok := errors.AsType[net.Error](err)
	return ok && slow.Timeout()
}

func TestTransportRefusesWhatWouldComeTooLate(t *testing.T) {
	t.Parallel()
	up := newService(t, ok)
	s := newCallSystem(t)
	s.class(t, 10, queue.Rate{Limit: 1, Period: time.Hour}, nil)
	client := s.client()
	get(t, client, up.URL)
	client.Timeout = 10 * time.Minute
	began := time.Now()
	_, err := try(t.Context(), client, up.URL)
	if failed, ok := errors.AsType[*url.Error](err); !ok || !failed.Timeout() || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v is no timeout", err)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("refused after %v, want at once", took)
	}
	if late, ok := errors.AsType[*handlers.RejectedError](err); !ok || !late.Late || late.RetryAfter() < 40*time.Minute {
		t.Errorf("%v does not tell when there would be time enough", err)
	}
	if n := up.requests.Load(); n != 1 {
		t.Errorf("%d calls, want 1", n)
	}
}

func TestTransportEndsWhatRuns(t *testing.T) {
	t.Parallel()
	arrived, gone := make(chan struct{}), make(chan struct{})
	up := newService(t, func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		close(gone)
	})
	s := newCallSystem(t)
	s.class(t, 10, fast, nil)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-arrived
		cancel()
	}()
	if _, err := try(ctx, s.client(), up.URL); !errors.Is(err, context.Canceled) || isTimeout(err) {
		t.Errorf("%v, want context.Canceled", err)
	}
	<-gone // the worker closed the connection
}

func TestTransportOfAJobThatDies(t *testing.T) {
	t.Parallel()
	up := newService(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	s := newCallSystem(t)
	s.class(t, 10, fast, func(c *queue.Class) { c.Retry.MaxAttempts = 1 })
	_, err := try(t.Context(), s.client(), up.URL)
	dead, ok := errors.AsType[*handlers.EndedError](err)
	if !ok || dead.State != "dead" || !strings.Contains(dead.Detail, "EOF") || dead.Ref == "" {
		t.Errorf("%v; want a dead job and what it died of", err)
	}
}

func TestTransportTakesItsBucketsFromTheRequest(t *testing.T) {
	t.Parallel()
	var got []string
	transport := &handlers.Transport{
		Class:   "api",
		ClassOf: func(r *http.Request) string { return r.Header.Get("Class") },
		Submitter: handlers.Submitter{
			Submit: func(_ context.Context, j handlers.Job) (string, error) {
				got = append(got, j.Class+"/"+j.Key)
				return "", errors.New("enough")
			},
		},
	}
	send := func(class string) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://A.example:8080/x?tenant=7", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Class", class)
		if _, err := transport.RoundTrip(req); err == nil || !strings.Contains(err.Error(), "enough") { //nolint:bodyclose // there is none
			t.Errorf("%v does not tell the submitter's error", err)
		}
	}
	send("")
	send("other")
	transport.KeyOf = func(r *http.Request) string { return r.URL.Query().Get("tenant") }
	send("")
	if diff := cmp.Diff([]string{"api/a.example:8080", "other/a.example:8080", "api/7"}, got); diff != "" {
		t.Error(diff)
	}
}
