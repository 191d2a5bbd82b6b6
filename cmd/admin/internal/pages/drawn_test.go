package pages

import (
	"html"
	"net/url"
	"regexp"
	"slices"
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
		if early := began(); slices.Contains(early, c.part) {
			t.Errorf("%s: %v is drawn again although nothing happened", c.path, early)
		}
		if c.change(); !slices.Contains(began(), c.part) {
			t.Errorf("%s: %s is not drawn again although it changed", c.path, c.part)
		}
	}
}
