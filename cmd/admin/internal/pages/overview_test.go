package pages

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/queue"
)

func TestOverview(t *testing.T) {
	t.Parallel()
	s := newSite(t, "/spout")
	s.class("a")
	s.class("b")
	s.submit("a", "full", 10)
	s.submit("a", "some", 4)
	s.submit("b", "closed", 2)
	must(t, s.jobs.Buckets().Pause(t.Context(), "b", "closed"))
	must(t, s.jobs.Buckets().Hold(t.Context(), "a", "some", time.Now().Add(time.Hour)))
	s.pages.Live.Now(t.Context())
	s.pages.Live.Swept(t.Context(), 20*time.Second)
	page := s.ok(admin, "/spout/")
	for _, want := range []string{
		"No worker is alive", "b/closed is paused", "a/some is held", // what is wrong
		"Bucket a/full: 10 of 10 places taken", "is-paused", "is-held", "data-until=", `href="/spout/bucket?class=a&amp;key=full"`, `href="/spout/class?name=b"`,
	} {
		if !strings.Contains(page, want) {
			t.Errorf("the overview lacks %q", want)
		}
	}
	if strings.Index(page, "No worker is alive") > strings.Index(page, "<table") {
		t.Error("what is wrong does not come first")
	}
	// Filters, and what a person sees.
	for path, buckets := range map[string][]string{
		"/spout/?class=a": {"full", "some"}, "/spout/?prefix=s": {"some"}, "/spout/?show=1&sort=level": {"full"}, "/spout/?class=nothing": nil,
		"/spout/?show=-5&sort=bogus": {"full"}, "/spout/?part=buckets": {"full", "closed", "some"},
	} {
		page := s.ok(admin, path)
		for _, key := range []string{"full", "some", "closed"} {
			if has := strings.Contains(page, "<bdi>"+key+"</bdi>"); has != slices.Contains(buckets, key) {
				t.Errorf("%s shows bucket %s: %v", path, key, has)
			}
		}
	}
	page = s.ok(access.Person{Name: "bob", Role: access.Viewer, Classes: []string{"b"}}, "/spout/")
	if strings.Contains(page, "full") && strings.Contains(page, "name=a") || strings.Contains(page, "<bdi>some") || !strings.Contains(page, "<bdi>closed") {
		t.Error("a person sees other classes than they may")
	}
	if status, _ := s.get(admin, "/spout/?part=nothing"); status != http.StatusNotFound {
		t.Errorf("a part that does not exist: %d", status)
	}
}

// Many buckets become cells of a grid; a press on one leads to its bucket.
func TestOverviewGrid(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.class("a")
	s.class("b")
	for i := range 40 {
		s.submit("a", fmt.Sprint("k", i), 1+i%10)
	}
	s.pages.Live.Now(t.Context())
	s.pages.Live.Swept(t.Context(), 20*time.Second)
	page := s.ok(admin, "/")
	if !strings.Contains(page, `data-at="/at"`) || !strings.Contains(page, "Pressure of 40 buckets: 4 full") || strings.Count(page, "vessel-card") != vesselsUsual {
		t.Error("there is no grid of 40 buckets beside the 24 that are drawn")
	}
	found := 0
	for cell := range 40 {
		if at := s.leads(admin, fmt.Sprint("/at?cell=", cell)); strings.HasPrefix(at, "/bucket?class=a&key=k") {
			found++
		}
	}
	if found != 40 {
		t.Errorf("%d of 40 cells lead to a bucket", found)
	}
	must(t, s.jobs.Buckets().Pause(t.Context(), "a", "k9"))
	told := func(path string) bool {
		for cell := range 40 {
			if s.ok(admin, fmt.Sprint(path, cell)) == "a/k9: 10 of 10 places taken, paused" {
				return true
			}
		}
		return false
	}
	s.until(func() bool { s.pages.Live.Now(t.Context()); return told("/at?tell=1&cell=") })
	if text := s.ok(admin, "/at?tell=1&cell=40"); text != "No bucket" || told("/at?tell=1&class=b&cell=") {
		t.Errorf("in a cell behind the last is %q, or a filter leaves nothing out", text)
	}
	for path, want := range map[string]int{"/at?cell=x": http.StatusNotFound, "/at": http.StatusNotFound, "/at?cell=9999": http.StatusSeeOther, "/at?cell=-1": http.StatusSeeOther} {
		if status, _ := s.get(admin, path); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	if at := s.leads(access.Person{Role: access.Viewer, Classes: []string{"b"}}, "/at?cell=0"); at != "/" {
		t.Errorf("a cell of a class that is not seen leads to %s", at)
	}
}

// The stream tells what changed, and no more.
func TestOverviewLive(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.class("a")
	s.submit("a", "k", 3)
	s.ok(admin, "/")
	ctx := access.With(t.Context(), admin)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "/live?view=overview", nil)
	must(t, err)
	look, err := s.pages.liveOverview(r)
	must(t, err)
	id := safeID("b", "a/k")
	shows := patch{} // the page, as it is by now
	next := func() frame {
		f, err := look(ctx)
		must(t, err)
		for id, attributes := range f.Patch {
			if shows[id] == nil {
				shows[id] = map[string]string{}
			}
			maps.Copy(shows[id], attributes)
		}
		return f
	}
	s.until(func() bool { next(); return shows[id+"-places"][""] == "3 of 10" })
	before, water := next(), shows[id+"-water"]["y"]
	if _, moved := before.Patch[id+"-water"]; moved {
		t.Error("the water stands still, and is told of")
	}
	s.submit("a", "k", 4)
	var after frame
	s.until(func() bool { after = next(); return shows[id+"-places"][""] == "7 of 10" })
	s.until(func() bool { next(); return strings.Contains(shows[id]["aria-label"], "7 of 10") })
	if water == shows[id+"-water"]["y"] {
		t.Errorf("the drawing stands still: %v", shows[id+"-water"])
	}
	if before.Parts["buckets"] != after.Parts["buckets"] {
		t.Error("the buckets are drawn anew although they are the same")
	}
	s.submit("a", "another", 1)
	s.until(func() bool {
		f, err := look(ctx)
		must(t, err)
		return f.Parts["buckets"] != before.Parts["buckets"]
	})
	// Whatever a patch names is on the page.
	page := s.ok(admin, "/")
	f, err := look(ctx)
	must(t, err)
	for id, attributes := range f.Patch {
		if !strings.Contains(page, `id="`+id+`"`) && id != "of" {
			t.Errorf("a patch names %s, which is not on the page: %v", id, attributes)
		}
	}
}

// Hostile names, prefixes and reasons add nothing to a page.
func TestHostileOverview(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.class("a")
	shapes := map[string][]string{}
	for _, text := range append([]string{"harmless"}, hostile()...) {
		s.submit("a", text, 2)
		must(t, s.jobs.Classes().Hold(t.Context(), "a", time.Now().Add(time.Hour), text))
		v := s.pages.vessels([]string{"a/" + text})
		s.until(func() bool {
			v = s.pages.vessels([]string{"a/" + text})
			s.pages.Live.Now(t.Context())
			return v[0].Read
		})
		o := &overviewPage{Vessels: v, Filter: filter{Prefix: text, Limit: 12}, Attention: []attention{{"bad", named(1, "a", text), text, s.pages.url("/bucket", "class", "a", "key", text)}}}
		w, r := recorder(t, admin, "/")
		must(t, s.pages.show(w, r, http.StatusOK, "overview", page{Title: "Overview", Here: "overview", Content: o}))
		for what, page := range map[string]string{"overview": w.Body.String(), "class": s.classPage(v, text)} {
			shape := structure(t, page)
			if shapes[what] == nil {
				shapes[what] = shape
			} else if !slices.Equal(shape, shapes[what]) {
				t.Errorf("%q changes the %s:\n%v\n%v", text, what, difference(shape, shapes[what]), len(shape))
			}
		}
		body, err := json.Marshal(v[0].drawing().Attributes())
		if must(t, err); strings.Contains(string(body), "<script") {
			t.Errorf("a patch has %s", body)
		}
		_, err = s.jobs.Buckets().Purge(t.Context(), "a", text)
		must(t, err)
	}
}

// classPage is the page of class a, with these buckets drawn and those with a prefix listed.
func (s *site) classPage(v []vessel, prefix string) string {
	s.t.Helper()
	w, r := recorder(s.t, admin, s.pages.url("/class", "name", "a", "prefix", prefix))
	class, err := s.pages.Desk.Class(r.Context(), "a")
	must(s.t, err)
	content := s.pages.lookClass(r.Context(), class, s.pages.Live.Now(r.Context()))
	content.Vessels = v
	content.Row.Level = 2
	content.Acts = s.pages.actsOnClass(admin, class, content.Row)
	content.Buckets, err = s.pages.bucketTable(r.Context(), class, r.URL.Query())
	must(s.t, err)
	content.Buckets.Rows = content.Buckets.Rows[:1] // the prefix of one may be that of others
	content.Buckets.Rows[0].vessel = v[0]
	must(s.t, s.pages.show(w, r, http.StatusOK, "class", page{Title: "Class", Content: content}))
	return w.Body.String()
}

// difference is what is first different.
func difference(a, b []string) []string {
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			return a[i:min(i+3, len(a))]
		}
	}
	return nil
}

// A tab hears of what changed between the page and its stream.
func TestDrawnParts(t *testing.T) {
	t.Parallel()
	drawn := map[string]string{"a": "one", "b": "two, with & and ="}
	_, r := recorder(t, admin, "/live?"+liveQuery("x", drawn, "name", "a&b", "empty", ""))
	if q := r.URL.Query(); q.Get("name") != "a&b" || q.Get("view") != "x" || q.Has("empty") {
		t.Errorf("%v", q)
	}
	s := stream{parts: seenParts(r)}
	if got := s.changed(map[string]string{"a": "one", "b": "three", "c": "new"}); !slices.Equal(got, []string{"b"}) {
		t.Errorf("changed are %v", got)
	}
	if got := s.changed(map[string]string{"a": "one", "b": "three", "c": "other"}); !slices.Equal(got, []string{"c"}) {
		t.Errorf("then changed are %v", got)
	}
}

// All that a browser loads of the overview, with 50 buckets drawn and a grid of many, stays small.
func TestWeight(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.class("a")
	jobs := make([]queue.Job, 2000)
	for i := range jobs {
		jobs[i] = queue.Job{Class: "a", Key: fmt.Sprint("key-", i%1500), Payload: json.RawMessage(`{}`)}
	}
	s.jobs.SubmitMany(t.Context(), jobs)
	s.pages.Live.Now(t.Context())
	s.pages.Live.Swept(t.Context(), 20*time.Second)
	sum := 0
	get := func(path string) {
		w, r := recorder(t, admin, path)
		r.Header.Set("Accept-Encoding", "gzip")
		s.pages.ServeHTTP(w, r)
		if w.Code != http.StatusOK || w.Header().Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: %d, encoded as %q", path, w.Code, w.Header().Get("Content-Encoding"))
		}
		sum += w.Body.Len()
	}
	for _, path := range []string{"/?show=50", "/class?name=a"} {
		sum = 0
		get(path)
		for _, asset := range assets(t, s.ok(admin, path)) {
			get(asset)
		}
		if t.Logf("%s takes %d bytes", path, sum); sum >= 150_000 {
			t.Errorf("%s takes %d bytes", path, sum)
		}
	}
}

// assets are the scripts and styles of a page.
func assets(t *testing.T, page string) []string {
	t.Helper()
	root, err := html.Parse(strings.NewReader(page))
	must(t, err)
	var list []string
	for n := range root.Descendants() {
		for _, a := range n.Attr {
			if n.Data == "script" && a.Key == "src" || n.Data == "link" && a.Key == "href" {
				list = append(list, a.Val)
			}
		}
	}
	return list
}
