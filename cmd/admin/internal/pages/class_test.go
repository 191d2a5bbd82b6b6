package pages

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/queue"
)

func TestClassPage(t *testing.T) {
	t.Parallel()
	s := newSite(t, "/spout")
	s.class("a")
	s.class("b")
	s.submit("a", "one", 3)
	s.submit("a", "two", 1)
	page := s.ok(admin, "/spout/class?name=a")
	for _, want := range []string{"Class a", "Pause all", "Purge…", "<bdi>one</bdi>", "3 of 10", `data-url="/spout/charts/class?name=a&amp;span=15m"`, "24 hours"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if page := s.ok(admin, "/spout/class?name=a&prefix=t&part=buckets"); strings.Contains(page, "<bdi>one") || !strings.Contains(page, "<bdi>two") {
		t.Error("the prefix leaves nothing out")
	}
	viewer := access.Person{Name: "bob", Role: access.Viewer}
	if page := s.ok(viewer, "/spout/class?name=a"); strings.Contains(page, `method="post"`) || strings.Contains(page, "Purge") {
		t.Error("a viewer sees buttons that write")
	}
	if page := s.ok(access.Person{Name: "cat", Role: access.Operator}, "/spout/class?name=a"); !strings.Contains(page, "Pause all") || strings.Contains(page, "Purge") {
		t.Error("an operator sees the wrong buttons")
	}
	limited := access.Person{Name: "dan", Role: access.Admin, Classes: []string{"b"}}
	for _, path := range []string{"/class?name=none", "/class", "/charts/class?name=none", "/live?view=class&name=none"} {
		if status, _ := s.get(admin, "/spout"+path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
	for _, path := range []string{"/class?name=a", "/charts/class?name=a", "/live?view=class&name=a", "/class/purge?class=a"} {
		if status, _ := s.get(limited, "/spout"+path); status != http.StatusNotFound {
			t.Errorf("%s of a class that is not seen: %d", path, status)
		}
	}
	if status, _ := s.get(admin, "/spout/class?name=a&after=nonsense"); status != http.StatusBadRequest {
		t.Errorf("a cursor that is none: %d", status)
	}
}

func TestClassDeeds(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.class("a")
	s.submit("a", "k", 3)
	operator := access.Person{Name: "cat", Role: access.Operator}
	state := func() queue.Class {
		class, err := s.jobs.Classes().Get(t.Context(), "a")
		must(t, err)
		return class
	}
	for _, c := range []struct {
		path   string
		fields []string
		is     func(queue.Class) bool
	}{
		{"/class/pause", nil, func(c queue.Class) bool { return c.Paused }},
		{"/class/drain", nil, func(c queue.Class) bool { return c.Draining }},
		{"/class/resume", nil, func(c queue.Class) bool { return !c.Paused && !c.Draining }},
		{"/class/hold", []string{"for", "10m"}, func(c queue.Class) bool { return c.Hold.After(time.Now()) }},
		{"/class/unhold", nil, func(c queue.Class) bool { return c.Hold.IsZero() }},
	} {
		fields := append([]string{"class", "a"}, c.fields...)
		if status, _, _ := s.post(access.Person{Role: access.Viewer}, c.path, fields...); status != http.StatusForbidden {
			t.Errorf("%s by a viewer: %d", c.path, status)
		}
		status, at, body := s.post(operator, c.path, fields...)
		if status != http.StatusSeeOther || !strings.HasPrefix(at, "/class?name=a&said=") {
			t.Errorf("%s: %d to %s: %s", c.path, status, at, body)
			continue
		}
		if !c.is(state()) {
			t.Errorf("%s did nothing: %+v", c.path, state())
		}
		if page := s.ok(operator, at); !strings.Contains(page, "notice good") {
			t.Errorf("%s is not said to be done", c.path)
		}
	}
	if status, _, body := s.post(operator, "/class/hold", "class", "a", "for", "soon"); status != http.StatusBadRequest || !strings.Contains(body, "notice bad") {
		t.Errorf("a hold for nonsense: %d", status)
	}
	if status, _, _ := s.post(admin, "/class/pause", "class", "none"); status != http.StatusNotFound {
		t.Errorf("pause of no class: %d", status)
	}
	// A purge is asked twice, and for an admin only.
	for _, sure := range []string{"", "yes"} {
		if status, _, _ := s.post(operator, "/class/purge", "class", "a", "sure", sure); status != http.StatusForbidden {
			t.Errorf("purge by an operator: %d", status)
		}
	}
	if status, _, body := s.post(admin, "/class/purge", "class", "a"); status != http.StatusOK || !strings.Contains(body, "Drop 3 jobs") {
		t.Errorf("the first press: %d %s", status, body)
	}
	if status, at, _ := s.post(admin, "/class/purge", "class", "a", "sure", "yes"); status != http.StatusSeeOther || !strings.Contains(at, "said=purged") {
		t.Errorf("the second press: %d %s", status, at)
	}
	books, err := s.jobs.Books(t.Context(), "a")
	if must(t, err); books.Waiting() != 0 {
		t.Errorf("%d jobs are left", books.Waiting())
	}
}

// The charts have a column for every line, all as long, with null where nobody knows.
func TestChart(t *testing.T) {
	t.Parallel()
	h := queue.History{Points: []queue.HistoryPoint{
		{At: time.Unix(5, 0)},
		{At: time.Unix(10, 0), Recorded: true, Waiting: 4, Buckets: 2},
		{
			At: time.Unix(15, 0), Recorded: true, Over: 5 * time.Second, Admitted: 10, Departed: 5, Rejected: 1, Waiting: 9, Buckets: 3,
			Starts: 5, Wait: queue.Percentiles{P50: time.Second, P99: 2 * time.Second}, Lateness: queue.Percentiles{P50: time.Millisecond, P99: 3 * time.Millisecond},
		},
	}}
	body, err := json.Marshal(newChart(h, 2))
	must(t, err)
	const want = `{"at":[5,10,15],"in":[null,null,2],"out":[null,null,1],"rejected":[null,null,0.2],"rate":2,"level":[null,4,9],"dead":[null,0,0],` +
		`"wait50":[null,null,1],"wait99":[null,null,2],"late50":[null,null,0.001],"late99":[null,null,0.003],"buckets":[null,2,3],"possible":[null,4,6]}`
	if string(body) != want {
		t.Errorf("%s\nwant\n%s", body, want)
	}
	rows := pointRows(h)
	if len(rows) != 2 || rows[0].In != "2/s" || rows[0].Wait != "1.0s / 2.0s" || rows[1].In != "–" || rows[1].Level != "4" {
		t.Errorf("%+v", rows)
	}

	s := newSite(t, "")
	s.class("a")
	for _, span := range []string{"", "24h", "nonsense"} {
		var c chart
		must(t, json.Unmarshal([]byte(s.ok(admin, "/charts/class?name=a&span="+span)), &c))
		if len(c.At) < 100 || len(c.In) != len(c.At) || len(c.Late99) != len(c.At) {
			t.Errorf("span %q has %d points and %d of what came in", span, len(c.At), len(c.In))
		}
	}
}

func TestLiveClass(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.class("a")
	s.submit("a", "k", 3)
	s.pages.Live.Now(t.Context())
	s.pages.Live.Swept(t.Context(), 20*time.Second)
	page := s.ok(admin, "/class?name=a")
	ctx := access.With(t.Context(), admin)
	_, r := recorder(t, admin, "/live?view=class&name=a")
	look, err := s.pages.liveClass(r)
	must(t, err)
	var f frame
	s.until(func() bool {
		f, err = look(ctx)
		must(t, err)
		return f.Patch[safeID("b", "a/k")+"-places"][""] == "3 of 10" && f.Patch[safeID("c", "a")+"-level"][""] == "3"
	})
	for id := range f.Patch {
		if !strings.Contains(page, `id="`+id+`"`) {
			t.Errorf("a patch names %s, which is not on the page", id)
		}
	}
	before := f.Parts["head"]
	must(t, s.jobs.Classes().Pause(t.Context(), "a"))
	s.until(func() bool {
		f, err = look(ctx)
		must(t, err)
		return f.Parts["head"] != before
	})
}

// The list of classes is fetched again when one is paused, held or drained, and not for its numbers.
func TestLiveClasses(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.class("a")
	next, err := look(t, s, bob, "/live?view=classes")
	must(t, err)
	before := next().Parts["classes"]
	if before == "" || next().Parts["classes"] != before {
		t.Fatal("the list has no version, or one that changes by itself")
	}
	changed := func() bool { return next().Parts["classes"] != before }
	must(t, s.jobs.Classes().Hold(t.Context(), "a", time.Now().Add(time.Hour), "a test"))
	s.until(changed)
	before = next().Parts["classes"]
	must(t, s.jobs.Classes().Drain(t.Context(), "a"))
	s.until(changed)
}
