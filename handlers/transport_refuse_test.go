package handlers_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/handlers"
)

// kept is a queue in which a job ends at once as it says, unless its functions are others.
func kept(jobs *[]handlers.Job, e handlers.Ending) handlers.Submitter {
	return handlers.Submitter{
		Submit: func(_ context.Context, j handlers.Job) (string, error) {
			*jobs = append(*jobs, j)
			return "0-ref", nil
		},
		Await:  func(context.Context, string) (handlers.Ending, error) { return e, nil },
		Cancel: func(context.Context, string) error { return nil },
	}
}

var fine = handlers.Ending{State: "done", Result: []byte(`{"status":200,"headers":{}}`)}

func newRequest(t *testing.T, method, target string, body io.Reader) *http.Request {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, target, body)
	if err != nil {
		t.Fatal(err)
	}
	return req
}

func TestTransportRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		change func(*http.Request)
		says   string
	}{
		{"authorization", func(r *http.Request) { r.Header.Set("Authorization", "Bearer canary") }, "the header Authorization holds a credential"},
		{"basic", func(r *http.Request) { r.SetBasicAuth("ann", "canary") }, "{{secret:NAME}}"},
		{"hidden beside a name", func(r *http.Request) { r.Header.Set("Authorization", "Bearer canary {{secret:x}}") }, "credential"},
		{"a second one", func(r *http.Request) { r.Header["Authorization"] = []string{"Bearer {{secret:x}}", "canary"} }, "credential"},
		{"cookie", func(r *http.Request) { r.AddCookie(&http.Cookie{Name: "sid", Value: "canary"}) }, "the header Cookie holds a credential"},
		{"one of two cookies", func(r *http.Request) { r.Header.Set("Cookie", "a={{secret:a}}; b=canary") }, "the header Cookie"},
		{"proxy", func(r *http.Request) { r.Header.Set("Proxy-Authorization", "canary") }, "credential"},
		{"api key", func(r *http.Request) { r.Header.Set("X-Api-Key", "canary") }, "the header X-Api-Key"},
		{"shop token", func(r *http.Request) { r.Header.Set("X-Shopify-Access-Token", "canary") }, "credential"},
		{"odd case", func(r *http.Request) { r.Header["private-TOKEN"] = []string{"canary"} }, "credential"},
		{"in the url", func(r *http.Request) { r.URL.RawQuery = "access_token=canary" }, `parameter "access_token"`},
		{"password", func(r *http.Request) { r.URL.User = url.UserPassword("ann", "canary") }, "the url holds a password"},
		{"host", func(r *http.Request) { r.Host = "b.example" }, `Host "b.example"`},
		{"trailer", func(r *http.Request) { r.Trailer = http.Header{"X-Sum": nil} }, "trailers"},
		{"upgrade", func(r *http.Request) { r.Header.Set("Upgrade", "websocket") }, "upgrade"},
		{"line break", func(r *http.Request) { r.Header.Set("X-Mine", "a\r\nb: c") }, "control character"},
		{"scheme", func(r *http.Request) { r.URL.Scheme = "ftp" }, "http:// or https://"},
		{"no url", func(r *http.Request) { r.URL, r.Host = nil, "" }, "no URL"},
		{"long body", func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader(strings.Repeat("x", 101))) }, "longer than 100 bytes"},
		{"long by its own word", func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(failing{}), 101 }, "longer than 100 bytes"},
		{"short body", func(r *http.Request) { r.ContentLength = 7 }, "has 4 bytes, its ContentLength says 7"},
		{"broken body", func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(failing{}), -1 }, "read the request's body: broken"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var jobs []handlers.Job
			transport := &handlers.Transport{Submitter: kept(&jobs, fine), Class: "api", MaxBody: 100}
			req := newRequest(t, http.MethodPost, "http://a.example/x", strings.NewReader("body"))
			test.change(req)
			body := newPayer(req.Body)
			req.Body = body
			_, err := transport.RoundTrip(req) //nolint:bodyclose // there is none
			if err == nil || !strings.Contains(err.Error(), test.says) || strings.Contains(err.Error(), "canary") {
				t.Errorf("%v; want %q and no canary", err, test.says)
			}
			if len(jobs) > 0 {
				t.Errorf("submitted %s", jobs[0].Payload)
			}
			if !body.isClosed() {
				t.Error("the request's body was not closed")
			}
		})
	}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, errors.New("broken") }

func TestTransportSendsCredentialsWhenTold(t *testing.T) {
	t.Parallel()
	var jobs []handlers.Job
	transport := &handlers.Transport{Submitter: kept(&jobs, fine), Class: "api", AllowCredentials: true}
	req := newRequest(t, http.MethodGet, "http://a.example/x?token=t", nil)
	req.URL.User = url.UserPassword("ann", "canary")
	req.Header.Set("Authorization", "Bearer b")
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	var got any
	if err := json.Unmarshal(jobs[0].Payload, &got); err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"method": "GET", "url": "http://a.example/x?token=t", "accept": "any", "headers": map[string]any{"Authorization": "Bearer b"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The largest body fits into the max_payload that classes have by default, whatever is in it.
func TestTransportBodiesFit(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"text":    strings.Repeat("x", 128<<10),
		"bytes":   strings.Repeat("\xff", 128<<10),
		"escapes": strings.Repeat("\x01", 128<<10),
		"json":    strings.Repeat(`{"a":"b"}`, 1000),
	} {
		var jobs []handlers.Job
		transport := &handlers.Transport{Submitter: kept(&jobs, fine), Class: "api"}
		resp, err := transport.RoundTrip(newRequest(t, http.MethodPost, "http://a.example", strings.NewReader(body)))
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		var p struct {
			Body       string
			BodyBase64 []byte `json:"body_base64"`
		}
		if err := json.Unmarshal(jobs[0].Payload, &p); err != nil || len(jobs[0].Payload) > 256<<10 || p.Body+string(p.BodyBase64) != body {
			t.Errorf("%s: a payload of %d bytes, %v", name, len(jobs[0].Payload), err)
		}
		if readable := name == "text" || name == "json"; readable != (p.Body != "") {
			t.Errorf("%s: kept as text: %v, want %v", name, p.Body != "", readable)
		}
	}
}

func TestTransportWithoutAClass(t *testing.T) {
	t.Parallel()
	var jobs []handlers.Job
	transport := &handlers.Transport{Submitter: kept(&jobs, fine)}
	_, err := transport.RoundTrip(newRequest(t, http.MethodGet, "http://a.example", nil)) //nolint:bodyclose // there is none
	if err == nil || !strings.Contains(err.Error(), "set Class") || len(jobs) > 0 {
		t.Errorf("%v, want one that says what to set", err)
	}
}

func TestTransportOfOtherEndings(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		ending  handlers.Ending
		says    string
		timeout bool
	}{
		{handlers.Ending{State: "expired"}, "waited in line for longer than it may", true},
		{handlers.Ending{State: "cancelled"}, "job 0-ref is cancelled", false},
		{handlers.Ending{State: "dropped"}, "job 0-ref is dropped", false},
		{handlers.Ending{State: "dead", Error: "connection refused"}, "job 0-ref is dead: connection refused", false},
		{handlers.Ending{State: "done"}, "no http response", false},
		{handlers.Ending{State: "done", Result: []byte(`{"status":101}`)}, "no http response", false},
		{handlers.Ending{State: "done", Result: []byte(`"text"`)}, "no http response", false},
	} {
		var jobs []handlers.Job
		transport := &handlers.Transport{Submitter: kept(&jobs, test.ending), Class: "api"}
		_, err := transport.RoundTrip(newRequest(t, http.MethodGet, "http://a.example", nil)) //nolint:bodyclose // there is none
		if err == nil || !strings.Contains(err.Error(), test.says) || isTimeout(err) != test.timeout {
			t.Errorf("%+v: %v, timeout %v; want %q, %v", test.ending, err, isTimeout(err), test.says, test.timeout)
		}
	}
}

// Everything that can take its time takes for ever; the caller's deadline holds all the same.
func TestTransportHeedsItsContext(t *testing.T) {
	t.Parallel()
	forEver := func(ctx context.Context) error {
		<-ctx.Done()
		return ctx.Err()
	}
	for _, test := range []struct {
		name   string
		change func(*handlers.Submitter, *http.Request)
		says   string
		took   time.Duration
	}{
		{"reading the body", func(_ *handlers.Submitter, r *http.Request) {
			pipe, _ := io.Pipe()
			r.Body, r.ContentLength = pipe, -1
		}, "not sent", 5 * time.Second},
		{"submitting", func(s *handlers.Submitter, _ *http.Request) {
			s.Submit = func(ctx context.Context, _ handlers.Job) (string, error) { return "", forEver(ctx) }
		}, "may not have been admitted", 6 * time.Second},
		{"waiting", func(s *handlers.Submitter, _ *http.Request) {
			s.Await = func(ctx context.Context, _ string) (handlers.Ending, error) { return handlers.Ending{}, forEver(ctx) }
		}, "job 0-ref was cancelled", 5 * time.Second},
		{"cancelling", func(s *handlers.Submitter, _ *http.Request) {
			s.Await = func(ctx context.Context, _ string) (handlers.Ending, error) { return handlers.Ending{}, forEver(ctx) }
			s.Cancel = func(ctx context.Context, _ string) error { return forEver(ctx) }
		}, "may still be sent", 6 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var jobs []handlers.Job
				transport := &handlers.Transport{Submitter: kept(&jobs, fine), Class: "api"}
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				req := newRequest(t, http.MethodPost, "http://a.example", strings.NewReader("x")).WithContext(ctx)
				test.change(&transport.Submitter, req)
				began := time.Now()
				_, err := transport.RoundTrip(req) //nolint:bodyclose // there is none
				if !errors.Is(err, context.DeadlineExceeded) || !isTimeout(err) || !strings.Contains(err.Error(), test.says) {
					t.Errorf("%v; want a timeout that says %q", err, test.says)
				}
				if took := time.Since(began); took != test.took {
					t.Errorf("took %v, want %v", took, test.took)
				}
				if len(jobs) > 0 && jobs[0].MaxWait != 5*time.Second {
					t.Errorf("the job may wait %v, want what is left: 5s", jobs[0].MaxWait)
				}
			})
		})
	}
}

// A caller that gives up while its job is on the way to Redis leaves no job behind.
func TestTransportCancelsWhatIsAdmittedTooLate(t *testing.T) {
	t.Parallel()
	var jobs []handlers.Job
	ctx, giveUp := context.WithCancelCause(t.Context())
	why := errors.New("not needed any more")
	transport := &handlers.Transport{Submitter: kept(&jobs, fine), Class: "api"}
	submit := transport.Submitter.Submit
	transport.Submitter.Submit = func(ctx context.Context, j handlers.Job) (string, error) {
		giveUp(why)
		if ctx.Err() != nil {
			return "", ctx.Err()
		}
		return submit(ctx, j)
	}
	transport.Submitter.Await = func(ctx context.Context, _ string) (handlers.Ending, error) {
		<-ctx.Done()
		return handlers.Ending{}, ctx.Err()
	}
	var cancelled string
	transport.Submitter.Cancel = func(_ context.Context, ref string) error {
		cancelled = ref
		return nil
	}
	req := newRequest(t, http.MethodGet, "http://a.example", nil).WithContext(ctx)
	if _, err := transport.RoundTrip(req); !errors.Is(err, context.Canceled) || !errors.Is(err, why) { //nolint:bodyclose // there is none
		t.Errorf("%v; want context.Canceled and its cause", err)
	}
	if cancelled != "0-ref" {
		t.Errorf("cancelled %q, want the job that was admitted", cancelled)
	}
}
