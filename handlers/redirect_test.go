package handlers_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/handlers"
)

// sites is a service under many names, which notes what it was asked: method, host, path and body, and the headers.
type sites struct {
	*handlers.HTTPCall
	mu      sync.Mutex
	asked   []string
	headers []http.Header
}

// newSites redirects /<status>/<to> to <to>, and answers everything else with 200.
func newSites(t *testing.T, o handlers.HTTPOptions) *sites {
	t.Helper()
	s := new(sites)
	srv := newService(t, s.answer)
	s.HTTPCall = handlers.NewTestHTTPCall(o, func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, srv.Listener.Addr().String())
	}, nil)
	t.Cleanup(s.CloseIdleConnections)
	return s
}

func (s *sites) answer(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	path := strings.TrimPrefix(r.URL.Path, "/")
	s.mu.Lock()
	s.asked = append(s.asked, fmt.Sprintf("%s %s %s", r.Method, r.Host, body))
	s.headers = append(s.headers, r.Header)
	s.mu.Unlock()
	if status, to, ok := strings.Cut(path, "/"); ok {
		w.Header().Set("Location", to)
		n, _ := strconv.Atoi(status)
		w.WriteHeader(n)
	}
}

func TestRedirectsAreFollowedByChoice(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		payload  object
		settings string
		want     []string // what was asked, in turn
		fails    string
	}{
		"one":         {object{"url": "http://a.example/302/http://b.example/x"}, `"redirects":1`, []string{"GET a.example ", "GET b.example "}, ""},
		"relative":    {object{"url": "http://a.example/302//y"}, `"redirects":1`, []string{"GET a.example ", "GET a.example "}, ""},
		"POST 301":    {object{"method": "POST", "body": "x", "url": "http://a.example/301//y"}, `"redirects":1`, []string{"POST a.example x", "GET a.example "}, ""},
		"PUT 302":     {object{"method": "PUT", "body": "x", "url": "http://a.example/302//y"}, `"redirects":1`, []string{"PUT a.example x", "GET a.example "}, ""},
		"POST 303":    {object{"method": "POST", "body": "x", "url": "http://a.example/303//y"}, `"redirects":1`, []string{"POST a.example x", "GET a.example "}, ""},
		"HEAD 303":    {object{"method": "HEAD", "url": "http://a.example/303//y"}, `"redirects":1`, []string{"HEAD a.example ", "HEAD a.example "}, ""},
		"POST 307":    {object{"method": "POST", "body": "x", "url": "http://a.example/307//y"}, `"redirects":1`, []string{"POST a.example x", "POST a.example x"}, ""},
		"DELETE 308":  {object{"method": "DELETE", "body": "x", "url": "http://a.example/308//y"}, `"redirects":1`, []string{"DELETE a.example x", "DELETE a.example x"}, ""},
		"too many":    {object{"url": "http://a.example/302/http://b.example/302/z"}, `"redirects":1`, []string{"GET a.example ", "GET b.example "}, "redirects are not followed further"},
		"none":        {object{"url": "http://a.example/302//y"}, `"redirects":0`, []string{"GET a.example "}, "answered 302 Found, a redirect to host \"a.example\""},
		"300":         {object{"url": "http://a.example/300//y"}, `"redirects":1`, []string{"GET a.example "}, "answered 300"},
		"other host":  {object{"url": "http://a.example/302/http://b.example/"}, `"redirects":1,"hosts":["a.example"]`, []string{"GET a.example "}, `host "b.example" is not in`},
		"other port":  {object{"url": "http://a.example/302/http://a.example:81/"}, `"redirects":1,"ports":[80]`, []string{"GET a.example "}, `port 81 is not in`},
		"a password":  {object{"url": "http://a.example/302/http://u:pw@b.example/"}, `"redirects":1`, []string{"GET a.example "}, "must not hold a user or password"},
		"other thing": {object{"url": "http://a.example/302/ftp://b.example/"}, `"redirects":1`, []string{"GET a.example "}, "must begin with http:// or https://"},
		"no url":      {object{"url": "http://a.example/302/http://%25zz"}, `"redirects":1`, []string{"GET a.example "}, "a redirect that cannot be followed: not a valid"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSites(t, handlers.HTTPOptions{})
			err := s.ProcessTask(t.Context(), taskIn(t, test.payload, `{`+test.settings+`}`))
			if (err != nil) != (test.fails != "") || err != nil && !strings.Contains(err.Error(), test.fails) {
				t.Errorf("got %v, want %q", err, test.fails)
			}
			if diff := cmp.Diff(test.want, s.asked); diff != "" {
				t.Errorf("asked (-want +got):\n%s", diff)
			}
		})
	}
}

// TestCredentialsStayWithTheirOrigin: whatever could be one, in a header of any name.
func TestCredentialsStayWithTheirOrigin(t *testing.T) {
	t.Parallel()
	headers := object{
		"Authorization": "Bearer x", "Cookie": "a=b", "X-Api-Key": "k", "X-Other": "o", "Accept": "text/plain", "Content-Type": "text/plain",
		"User-Agent": "{{secret:agent}}", "Accept-Language": "de",
	}
	secrets := handlers.Secrets{Getenv: func(string) string { return "top-secret" }}
	all := slices.Sorted(maps.Keys(headers))
	for to, want := range map[string][]string{
		"http://a.example/y":     all,
		"http://A.EXAMPLE:80/y":  all,
		"http://b.example/y":     {"Accept", "Accept-Language", "Content-Type"},
		"http://a.example:81/y":  {"Accept", "Accept-Language", "Content-Type"},
		"http://sub.a.example/y": {"Accept", "Accept-Language", "Content-Type"},
		"http://b.example/307/http://a.example/y, back where it came from": {"Accept", "Accept-Language", "Content-Type"},
	} {
		to, _, _ = strings.Cut(to, ",")
		s := newSites(t, handlers.HTTPOptions{Secrets: secrets})
		payload := object{"method": "POST", "body": "x", "url": "http://a.example/307/" + to, "headers": headers}
		settings := `{"redirects":2,"schemes":["http"],"secrets":["agent"],"hosts":["a.example","b.example","sub.a.example"]}`
		if err := s.ProcessTask(t.Context(), taskIn(t, payload, settings)); err != nil {
			t.Fatal(err)
		}
		last := s.headers[len(s.headers)-1]
		var got []string
		for name := range last {
			if _, ours := headers[name]; ours && last.Get(name) != "Go-http-client/1.1" {
				got = append(got, name)
			}
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			t.Errorf("to %s: got headers %v, want %v", to, got, want)
		}
		if s.headers[0].Get("User-Agent") != "top-secret" || last.Get("Referer") != "" {
			t.Errorf("to %s: User-Agent %q, Referer %q", to, s.headers[0].Get("User-Agent"), last.Get("Referer"))
		}
	}
}

// TestBodyOfARedirect: with the body go the headers that are about it.
func TestBodyOfARedirect(t *testing.T) {
	t.Parallel()
	s := newSites(t, handlers.HTTPOptions{})
	payload := object{"method": "POST", "body": "x", "url": "http://a.example/303//y", "headers": object{"Content-Type": "text/plain", "Content-Language": "de", "X-A": "1"}}
	if err := s.ProcessTask(t.Context(), taskIn(t, payload, `{"redirects":1}`)); err != nil {
		t.Fatal(err)
	}
	if h := s.headers[1]; h.Get("Content-Type") != "" || h.Get("Content-Language") != "" || h.Get("X-A") != "1" {
		t.Errorf("headers %v", h)
	}
}

func TestNoRedirectOutOfTLS(t *testing.T) {
	t.Parallel()
	srv := prepareService(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://a.example/")
		w.WriteHeader(http.StatusFound)
	})
	srv.StartTLS()
	h := handlers.NewTestHTTPCall(handlers.HTTPOptions{}, func(ctx context.Context, network, addr string) (net.Conn, error) {
		if strings.HasSuffix(addr, ":80") {
			t.Error("it is followed")
		}
		return new(net.Dialer).DialContext(ctx, network, addr)
	}, &tls.Config{InsecureSkipVerify: true})
	t.Cleanup(h.CloseIdleConnections)
	err := h.ProcessTask(t.Context(), taskIn(t, object{"url": srv.URL}, `{"redirects":1}`))
	if !errors.Is(err, handlers.ErrRefused) || !errors.Is(err, asynq.SkipRetry) || !strings.Contains(err.Error(), "it leads from https to http") {
		t.Errorf("got %v", err)
	}
}
