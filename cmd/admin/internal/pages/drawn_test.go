package pages

import (
	"html"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/queue"
)

var streamOf = regexp.MustCompile(`data-live="([^"]+)"`)

// What happens after a page was drawn and before its stream begins, or while nobody saw the tab, is drawn again too.
func TestStreamKnowsThePage(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.class("a")
	job, err := s.jobs.Submit(t.Context(), queue.Job{Class: "a", Key: "k", Type: "t", Payload: []byte("1")})
	must(t, err)
	ref := url.QueryEscape(job.Ref)
	s.quick("q", 10)
	s.submit("q", "k", 1)
	done := url.QueryEscape(s.job(queue.Job{Class: "q", Key: "k"}))
	pause := func() {
		must(t, s.jobs.Buckets().Pause(t.Context(), "a", "k"))
	}
	for _, c := range []struct {
		path, part string
		change     func()
	}{
		{"/job?ref=" + ref, "life", pause},
		{"/submit?class=a&key=k&ref=" + ref, "job", func() { must(t, s.jobs.Buckets().Resume(t.Context(), "a", "k")) }},
		{"/bucket?class=a&key=k", "state", pause},
		{"/bucket?class=a&key=k", "line", func() { s.submit("a", "k", 1) }},
		{"/class?name=a", "head", func() {
			_, err := s.jobs.Classes().Put(t.Context(), queue.NewClass("a", 20, queue.Rate{Limit: 1, Period: time.Hour}))
			must(t, err)
		}},
		{"/class?name=a", "settings", func() {
			_, err := s.jobs.Classes().Put(t.Context(), queue.NewClass("a", 30, queue.Rate{Limit: 1, Period: time.Hour}))
			must(t, err)
		}},
		{"/class?name=a", "buckets", func() { s.submit("a", "another", 1) }},
		{"/class?name=a", "history", func() {
			s.post(admin, "/bucket/pause", "class", "a", "key", "another")
			s.until(func() bool { return s.pages.Live.Changed("a") != "" })
		}},
		{"/dead?class=q", "list", func() { s.end("q", 1, queue.Verdict{Outcome: queue.Failed, Error: "no"}) }},
		{"/dead", "classes", func() { s.class("d") }},
		{"/job?ref=" + done, "result", func() { s.end("q", 1, queue.Verdict{Outcome: queue.Done, Result: []byte("1")}) }},
		{"/classes", "classes", func() { s.class("b") }},
		{"/workers", "workers", func() { s.class("c") }},
	} {
		address := html.UnescapeString(streamOf.FindStringSubmatch(s.ok(admin, c.path))[1])
		began := func() []string {
			_, r := recorder(t, admin, address)
			look, err := s.pages.live[r.URL.Query().Get("view")](r)
			must(t, err)
			f, err := look(r.Context())
			must(t, err)
			return (&stream{parts: seenParts(r)}).changed(f.Parts)
		}
		early := began()
		if slices.Contains(early, c.part) { // what counts seconds may have moved on
			address = html.UnescapeString(streamOf.FindStringSubmatch(s.ok(admin, c.path))[1])
			early = began()
		}
		if slices.Contains(early, c.part) {
			t.Errorf("%s: %v is drawn again although nothing happened", c.path, early)
		}
		if c.change(); !slices.Contains(began(), c.part) {
			t.Errorf("%s: %s is not drawn again although it changed", c.path, c.part)
		}
	}
}

// A part that is fetched again says which version of it that is, as the stream tells them.
func TestPartsHaveVersions(t *testing.T) {
	t.Parallel()
	s := newSite(t, "/spout")
	s.class("a")
	s.quick("q", 10)
	ref := url.QueryEscape(s.job(queue.Job{Class: "a", Key: "k"}))
	s.submit("q", "k", 1)
	s.end("q", 1, queue.Verdict{Outcome: queue.Failed, Error: "no"})
	for _, path := range []string{"/?", "/class?name=a", "/classes?", "/bucket?class=a&key=k", "/job?ref=" + ref, "/dead?", "/dead?class=q", "/workers?", "/submit?ref=" + ref} {
		page := s.ok(admin, "/spout"+path)
		if at := html.UnescapeString(pageOf.FindStringSubmatch(page)[1]); at != "/spout"+path {
			t.Errorf("%s can be read again at %s", path, at)
		}
		drawn := func() map[string]string {
			address, err := url.Parse(html.UnescapeString(streamOf.FindStringSubmatch(s.ok(admin, "/spout"+path))[1]))
			must(t, err)
			return drawnIn(address.Query())
		}
		parts := slices.Collect(maps.Keys(drawn()))
		if len(parts) == 0 {
			t.Errorf("%s has no parts", path)
		}
		for _, part := range parts {
			s.until(func() bool { // something may move on in between
				version := drawn()[part]
				w, r := recorder(t, admin, "/spout"+path+"&part="+part)
				s.pages.ServeHTTP(w, r)
				if w.Code != http.StatusOK || !strings.Contains(w.Body.String(), `id="part-`+part+`"`) {
					t.Fatalf("part %s of %s: %d\n%s", part, path, w.Code, w.Body)
				}
				return version != "" && w.Header().Get("Spout-Version") == version
			})
		}
	}
}

var pageOf = regexp.MustCompile(`data-page="([^"]+)"`)

// A job of which nothing is kept has ended, for who looked at it, and nothing went wrong.
func TestJobGone(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	class := queue.NewClass("q", 10, queue.Rate{Limit: 1000, Period: time.Second})
	class.Dedup = 0
	_, err := s.jobs.Classes().Put(t.Context(), class)
	must(t, err)
	ref := url.QueryEscape(s.job(queue.Job{Class: "q", Key: "k"}))
	next, err := look(t, s, bob, "/live?view=job&ref="+ref)
	must(t, err)
	next()
	s.end("q", 1, queue.Verdict{Outcome: queue.Done})
	s.until(func() bool { return next().Parts["life"] == "gone" })
	for _, part := range []string{"life", "result"} {
		w, r := recorder(t, bob, "/job?part="+part+"&ref="+ref)
		s.pages.ServeHTTP(w, r)
		if w.Code != http.StatusOK || w.Header().Get("Spout-Version") != brief("gone") || !strings.Contains(w.Body.String(), `id="part-`+part+`"`) {
			t.Errorf("part %s: %d %v\n%s", part, w.Code, w.Header(), w.Body)
		}
	}
	if status, _ := s.get(bob, "/job?ref="+ref); status != http.StatusNotFound {
		t.Errorf("its page: %d", status)
	}
	if again, err := look(t, s, bob, "/live?view=job&ref="+ref); err != nil || again().Parts["life"] != "gone" {
		t.Errorf("a stream that begins then: %v", err)
	}
}

// What went wrong is told above the page, which stays as it is.
func TestFailureAside(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	w, r := recorder(t, bob, "/bucket?class=none&key=k")
	r.Header.Set("HX-Request", "true")
	s.pages.ServeHTTP(w, r)
	h := w.Header()
	if w.Code != http.StatusNotFound || h.Get("HX-Retarget") != "#notices" || h.Get("HX-Reselect") != "#failure" || !strings.HasPrefix(w.Body.String(), `<p id="failure"`) {
		t.Errorf("%d %v\n%s", w.Code, h, w.Body)
	}
}

// What somebody wrote comes back with the refusal, and so does the page that they were on.
func TestHoldRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.class("a")
	for _, c := range []struct{ path, field, text, at string }{
		{"/bucket/hold", "for", "10x", "/bucket?class=a&key=k"},
		{"/bucket/hold", "until", "2026-13-01T10:00", "/bucket?class=a&key=k"},
		{"/class/hold", "for", "10x", "/class?name=a"},
	} {
		status, _, page := s.post(cat, c.path, "class", "a", "key", "k", c.field, c.text)
		if status != http.StatusBadRequest || !strings.Contains(page, `value="`+c.text+`"`) || !strings.Contains(html.UnescapeString(page), `data-page="`+c.at+`"`) {
			t.Errorf("%s of %s: %d\n%s", c.path, c.text, status, page)
		}
	}
}
