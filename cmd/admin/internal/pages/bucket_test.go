package pages

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/admin/internal/live"
	"github.com/spout-queue/spout/queue"
)

func TestBucketPage(t *testing.T) {
	t.Parallel()
	s := newSite(t, "/spout")
	class := queue.NewClass("a", 500, queue.Rate{Limit: 1, Period: time.Hour})
	_, err := s.jobs.Classes().Put(t.Context(), class)
	must(t, err)
	s.submit("a", "k", 120)
	s.job(queue.Job{Class: "a", Key: "k", ID: "delayed", NotBefore: time.Now().Add(time.Hour)})
	page := s.ok(bob, "/spout/bucket?class=a&key=k")
	for _, want := range []string{"121 of 500", "It leaves at its rate", "No start of the last minute is known", `data-live="/spout/live?class=a&amp;drawn=`, `key=k&amp;view=bucket"`, "delayed"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(page, "<form") {
		t.Error("a viewer has something to press")
	}
	// All of the line, page by page.
	seen := map[string]bool{}
	pages, path := 0, "/spout/bucket?class=a&key=k"
	for ; path != ""; pages++ {
		page := s.ok(bob, path)
		for _, part := range strings.Split(page, `/spout/job?ref=`)[1:] {
			ref, _, _ := strings.Cut(part, `"`)
			seen[ref] = true
		}
		path = ""
		if before, _, more := strings.Cut(page, `">Next page`); more {
			path = strings.ReplaceAll(before[strings.LastIndex(before, `href="`)+6:], "&amp;", "&")
		}
	}
	if pages != 3 || len(seen) != 121 {
		t.Errorf("%d jobs on %d pages", len(seen), pages)
	}
	if status, _ := s.get(eve, "/spout/bucket?class=a&key=k"); status != http.StatusNotFound {
		t.Errorf("a bucket of a class that does not exist for the person: %d", status)
	}
	for path, want := range map[string]int{
		"/spout/bucket?class=none&key=k": 404, "/spout/bucket?class=a": 400, "/spout/bucket?class=a&key=k&after=nonsense": 400,
		"/spout/bucket?class=a&key=k&part=line": 200, "/spout/bucket?class=a&key=k&part=none": 404, "/spout/bucket?class=a&key=never-used": 200,
	} {
		if status, _ := s.get(bob, path); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
}

func TestBucketDeeds(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.class("a")
	s.submit("a", "k/1", 3)
	at := []string{"class", "a", "key", "k/1"}
	state := func() queue.Bucket {
		b, err := s.jobs.Buckets().Get(t.Context(), "a", "k/1")
		must(t, err)
		return b
	}
	until := time.Now().Add(time.Hour).UTC()
	for _, c := range []struct {
		path   string
		fields []string
		is     func(queue.Bucket) bool
		says   string
	}{
		{"/bucket/pause", nil, func(b queue.Bucket) bool { return b.Paused }, "Paused by an operator"},
		{"/bucket/drain", nil, func(b queue.Bucket) bool { return b.Draining }, "Paused by an operator"},
		{"/bucket/resume", nil, func(b queue.Bucket) bool { return !b.Paused && !b.Draining }, "It leaves at its rate"},
		{"/bucket/hold", []string{"for", "10m"}, func(b queue.Bucket) bool { return time.Until(b.Hold) > 9*time.Minute }, "Held until"},
		{"/bucket/hold", []string{"until", until.Format("2006-01-02T15:04:05")}, func(b queue.Bucket) bool { return b.Hold.Equal(until.Truncate(time.Second)) }, "Held until"},
		{"/bucket/unhold", nil, func(b queue.Bucket) bool { return b.Hold.IsZero() }, "It leaves at its rate"},
	} {
		if status, _, _ := s.post(bob, c.path, append(at, c.fields...)...); status != http.StatusForbidden {
			t.Errorf("%s by a viewer: %d", c.path, status)
		}
		if status, _, _ := s.post(eve, c.path, append(at, c.fields...)...); status != http.StatusNotFound {
			t.Errorf("%s by a stranger: %d", c.path, status)
		}
		status, to, body := s.post(cat, c.path, append(at, c.fields...)...)
		if status != http.StatusSeeOther || !strings.HasPrefix(to, "/bucket?class=a&key=k%2F1&said=") {
			t.Fatalf("%s: %d to %s: %s", c.path, status, to, body)
		}
		if !c.is(state()) {
			t.Errorf("%s did nothing: %+v", c.path, state())
		}
		if page := s.ok(cat, to); !strings.Contains(page, "notice good") || !strings.Contains(page, c.says) {
			t.Errorf("%s: the page does not say that it is done, and %q", c.path, c.says)
		}
	}
	for _, fields := range [][]string{{"for", "soon"}, {"for", "-5s"}, {"until", "tomorrow"}, {}} {
		if status, _, body := s.post(cat, "/bucket/hold", append(at, fields...)...); status != http.StatusBadRequest || !strings.Contains(body, "notice bad") {
			t.Errorf("hold %v: %d", fields, status)
		}
	}
	for _, path := range []string{"/bucket/pause", "/bucket/purge"} { // without a key it would be the class
		if status, _, _ := s.post(admin, path, "class", "a", "sure", "yes"); status != http.StatusBadRequest {
			t.Errorf("%s without a key: %d", path, status)
		}
	}
	for _, sure := range []string{"", "yes"} {
		if status, _, _ := s.post(cat, "/bucket/purge", append(at, "sure", sure)...); status != http.StatusForbidden {
			t.Errorf("purge by an operator: %d", status)
		}
	}
	if status, _, body := s.post(admin, "/bucket/purge", at...); status != http.StatusOK || !strings.Contains(body, "Drop 3 jobs") || state().Level != 3 {
		t.Errorf("the first press: %d, %d left", status, state().Level)
	}
	if status, to, _ := s.post(admin, "/bucket/purge", append(at, "sure", "yes")...); status != http.StatusSeeOther || !strings.Contains(to, "said=purged") || state().Level != 0 {
		t.Errorf("the second press: %d to %s, %d left", status, to, state().Level)
	}
}

func TestLiveBucket(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.class("a")
	if _, err := look(t, s, eve, "/live?view=bucket&class=a&key=k"); err == nil {
		t.Error("a stranger sees it live")
	}
	next, err := look(t, s, bob, "/live?view=bucket&class=a&key=k")
	must(t, err)
	if f := next(); f.Patch["bucket-line"][""] != "0" || f.Parts["line"] == "" {
		t.Errorf("an empty bucket: %+v", f)
	}
	before := next()
	s.submit("a", "k", 4)
	must(t, s.jobs.Buckets().Pause(t.Context(), "a", "k"))
	s.until(func() bool {
		f := next()
		return f.Patch["bucket-line"][""] == "4" && f.Parts["state"] != before.Parts["state"] && f.Parts["line"] != before.Parts["line"]
	})
	page := s.ok(bob, "/bucket?class=a&key=k")
	for id := range next().Patch {
		if !strings.Contains(page, `id="`+id+`"`) && !strings.HasPrefix(id, "b-") { // those of the drawing are its own
			t.Errorf("a patch is for %s, which the page does not have", id)
		}
	}
	still, err := look(t, s, bob, "/live?view=bucket&class=a&key=k&after="+url.QueryEscape("x"))
	must(t, err)
	if _, moves := still().Parts["line"]; moves {
		t.Error("a page further down does not stand still")
	}
}

// A line of ten thousand costs no more than one of a hundred.
func TestDeepLine(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	class := queue.NewClass("deep", 20_000, queue.Rate{Limit: 1, Period: time.Hour})
	_, err := s.jobs.Classes().Put(t.Context(), class)
	must(t, err)
	var jobs []queue.Job
	for i := range 10_000 {
		jobs = append(jobs, queue.Job{Class: "deep", Key: "k", ID: fmt.Sprint(i), Payload: []byte("1")})
	}
	for _, r := range s.jobs.SubmitMany(t.Context(), jobs) {
		must(t, r.Err)
	}
	commands := s.commands(func() { s.ok(bob, "/bucket?class=deep&key=k") })
	if commands > 150 {
		t.Errorf("the page took %d commands", commands)
	}
	// What is fetched again and again reads no more than it shows.
	for part, most := range map[string]int64{"line": 130, "ruler": 40, "state": 40} {
		if commands := s.commands(func() { s.ok(bob, "/bucket?class=deep&key=k&part="+part) }); commands > most {
			t.Errorf("part %s took %d commands", part, commands)
		}
	}
}

// A bucket in use is not called empty in one moment and full of jobs in the next.
func TestKeepsUp(t *testing.T) {
	t.Parallel()
	class := queue.NewClass("a", 500, queue.Rate{Limit: 100, Period: time.Second})
	bucket := queue.Bucket{Class: "a", Key: "k", Capacity: 500, Rate: class.Rate, Interval: 10 * time.Millisecond}
	for _, c := range []struct {
		line int
		flow float64
		want string
	}{
		{0, 0, "empty"}, {0, 50, "keeping up"}, {2, 50, "keeping up"}, {2, 0, "draining down"}, {200, 100, "draining down"},
	} {
		bucket.Line, bucket.Level = c.line, c.line
		seen := vessel{Bucket: live.Bucket{Known: true, Departed: c.flow}}
		if v := judgeVessel(class, bucket, seen); v.State != c.want || v.Kind != "good" {
			t.Errorf("%d in line, %v/s out: %+v instead of %s", c.line, c.flow, v, c.want)
		}
	}
}
