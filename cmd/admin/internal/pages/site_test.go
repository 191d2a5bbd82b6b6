package pages

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/net/html"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/cmd/admin/internal/live"
	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// site is a dashboard of an installation of its own.
type site struct {
	t     *testing.T
	jobs  *queue.Client
	rdb   *redis.Client
	pages *Pages
}

// admin may do everything.
var admin = access.Person{Name: "ann", Role: access.Admin}

func newSite(t *testing.T, base string) *site {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: redistest.Start(t).Addr, MaxRetries: -1})
	t.Cleanup(func() { _ = rdb.Close() })
	c, err := queue.Open(t.Context(), rdb, queue.Options{Shards: 2})
	must(t, err)
	l := live.New(c, nil)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { l.Run(ctx); close(ended) }()
	t.Cleanup(func() { cancel(); <-ended })
	log := slog.New(slog.DiscardHandler)
	return &site{t, c, rdb, New(Options{Desk: desk.New(c, "dashboard", log), Live: l, Base: base, Log: log})}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// class makes a class of slow buckets with ten places.
func (s *site) class(name string) {
	s.t.Helper()
	_, err := s.jobs.Classes().Put(s.t.Context(), queue.NewClass(name, 10, queue.Rate{Limit: 1, Period: time.Hour}))
	must(s.t, err)
}

func (s *site) submit(class, key string, n int) {
	s.t.Helper()
	for range n {
		_, err := s.jobs.Submit(s.t.Context(), queue.Job{Class: class, Key: key, Payload: json.RawMessage(`{}`)})
		must(s.t, err)
	}
}

// get and post are requests of a person, answered with a status and a body.
func (s *site) get(who access.Person, path string) (int, string) {
	s.t.Helper()
	r := httptest.NewRequestWithContext(access.With(s.t.Context(), who), http.MethodGet, path, nil)
	w := httptest.NewRecorder()
	s.pages.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func (s *site) post(who access.Person, path string, pairs ...string) (status int, location, body string) {
	s.t.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	r := httptest.NewRequestWithContext(access.With(s.t.Context(), who), http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	s.pages.ServeHTTP(w, r)
	return w.Code, w.Header().Get("Location"), w.Body.String()
}

// ok is a page that must be there.
func (s *site) ok(who access.Person, path string) string {
	s.t.Helper()
	status, body := s.get(who, path)
	if status != http.StatusOK {
		s.t.Fatalf("GET %s: %d %s", path, status, body)
	}
	return body
}

// structure of a page: its elements with the names of their attributes, in order. What texts and values say is no part of it.
func structure(t *testing.T, page string) []string {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	must(t, err)
	var list []string
	for n := range root.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		names := []string{n.Data}
		for _, a := range n.Attr {
			names = append(names, a.Key)
			// Links lead to us, whatever the names say.
			if (a.Key == "href" || a.Key == "action" || a.Key == "src") && !strings.HasPrefix(a.Val, "/") && !strings.HasPrefix(a.Val, "#") {
				t.Errorf("%s of %s leads to %q", a.Key, n.Data, a.Val)
			}
			if strings.HasPrefix(a.Key, "on") || a.Key == "style" {
				t.Errorf("%s has %s=%q", n.Data, a.Key, a.Val)
			}
		}
		list = append(list, strings.Join(names, " "))
	}
	return list
}

// hostile are texts that want to be something else.
func hostile() []string {
	list := []string{
		`<img src=x onerror=alert(1)>`, `"><script>alert(1)</script>`, `'><svg onload=alert(1)>`, `javascript:alert(1)`, `{{.Person}}`, `{{template "nav"}}`,
		`</title><script>1</script>`, `</script><script>1</script>`, `<!--`, `-->`, `]]>`, `<![CDATA[`, "\u202Eright to left", "\u200F\u2066x\u2069", `\u003cscript\u003e`,
		`&lt;b&gt;`, `&#60;b&#62;`, `" autofocus onfocus="alert(1)`, `' style='x`, "` onload=1 `", `%3Cscript%3E`, `../../etc/passwd`, `//evil.example/x`, `https://evil.example`,
		`?a=b&c=d#e`, `a/b/c`, `data:text/html,<b>`, `hx-get="/x"`, `<a hx-on:click=alert(1)>`, `<style>*{display:none}</style>`, `<base href=//x>`, `<form action=//x>`,
		`<meta http-equiv=refresh content=0>`, `<plaintext>`, `<textarea>`, `<select><option>`, `<table><tr>`, `</section></main>`, `$(id)`, "`id`", `'; DROP TABLE jobs; --`,
		`*`, `?[a-z]`, `\`, `null`, `undefined`, `__proto__`, `constructor`, `0`, `-1`, ` `, "\u00a0", strings.Repeat("x", 256), strings.Repeat("<", 256),
	}
	for _, c := range "<>\"'&`=/\\%+#?;:@!$^*(){}[]|~,." {
		list = append(list, "a"+string(c), strings.Repeat(string(c), 3))
	}
	return slices.Compact(list)
}

// leads is where a request is sent on to.
func (s *site) leads(who access.Person, path string) string {
	s.t.Helper()
	w, r := recorder(s.t, who, path)
	s.pages.ServeHTTP(w, r)
	return w.Header().Get("Location")
}

func recorder(t *testing.T, who access.Person, path string) (*httptest.ResponseRecorder, *http.Request) {
	t.Helper()
	return httptest.NewRecorder(), httptest.NewRequestWithContext(access.With(t.Context(), who), http.MethodGet, path, nil)
}

// until asks again and again.
func (s *site) until(is func() bool) {
	s.t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	late := time.After(30 * time.Second)
	for !is() {
		select {
		case <-tick.C:
		case <-late:
			s.t.Fatal("it never came")
		}
	}
}
