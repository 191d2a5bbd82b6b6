package pages

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/admin/internal/desk"
	"github.com/spout-queue/spout/queue"
)

// dieOff leaves dead jobs of class a behind.
func (s *site) dieOff(key string, n int, err string) []string {
	s.t.Helper()
	var refs []string
	for range n {
		refs = append(refs, s.job(queue.Job{Class: "a", Key: key}))
	}
	s.end("a", n, queue.Verdict{Outcome: queue.Failed, Error: err})
	return refs
}

func TestDeadPage(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.quick("a", 100)
	s.quick("other", 10)
	s.dieOff("k", 60, "503 from https://u:p@host/?token=abc")
	s.dieOff("l", 3, "no such user 17")
	if page := s.ok(eve, "/dead"); strings.Contains(page, "class=a") || !strings.Contains(page, "No job is dead") {
		t.Error("a stranger sees classes that do not exist for them")
	}
	if page := s.ok(bob, "/dead"); !strings.Contains(page, `<b id="`+safeID("dead", "a")+`">63</b>`) {
		t.Error("the page does not tell how many are dead")
	}
	page := s.ok(bob, "/dead?class=a")
	for _, want := range []string{"63</span>", "all 63", "from https://[redacted]@host/?token=[redacted]", "Next page", "no such user #"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(page, "abc") || strings.Contains(page, "u:p") {
		t.Error("a secret is shown")
	}
	if strings.Contains(page, "checkbox") || strings.Contains(page, `method="post"`) {
		t.Error("a viewer has something to press")
	}
	for path, want := range map[string]int{"/dead?class=a": 50, "/dead?class=a&key=l": 3, "/dead?class=a&text=no+such": 3, "/dead?class=a&text=nothing+like+it": 0} {
		if got := strings.Count(s.ok(cat, path), `type="checkbox" name="ref"`); got != want {
			t.Errorf("%s lists %d jobs, want %d", path, got, want)
		}
	}
	if status, _ := s.get(eve, "/dead?class=a"); status != http.StatusNotFound {
		t.Errorf("dead jobs for a stranger: %d", status)
	}
}

func TestDeadDeeds(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.quick("a", 3)
	var refs []string
	for range 5 {
		refs = append(refs, s.dieOff("k", 1, "it broke")...)
	}
	for _, path := range []string{"/dead/retry", "/dead/retry-all", "/dead/stop", "/dead/purge"} {
		if status, _, _ := s.post(bob, path, "class", "a", "ref", refs[0], "sure", "yes"); status != http.StatusForbidden {
			t.Errorf("%s by a viewer: %d", path, status)
		}
		if status, _, _ := s.post(eve, path, "class", "a", "ref", refs[0], "sure", "yes"); path != "/dead/retry" && status != http.StatusNotFound {
			t.Errorf("%s by a stranger: %d", path, status)
		}
	}
	if n, err := s.jobs.Dead().Count(t.Context(), "a"); n != 5 || err != nil {
		t.Fatalf("%d are dead, %v: somebody did what they may not", n, err)
	}
	if status, _, _ := s.post(cat, "/dead/retry", "class", "a"); status != http.StatusBadRequest {
		t.Errorf("nothing ticked: %d", status)
	}
	// There is room for three: each job is answered on its own.
	must(t, s.jobs.Buckets().Pause(t.Context(), "a", "k"))
	status, _, body := s.post(cat, "/dead/retry", "class", "a", "ref", refs[0], "ref", refs[1], "ref", refs[2], "ref", refs[3], "ref", refs[0])
	for _, want := range []string{"to the tail of its bucket: 3 jobs", "Still dead: 1 job", "Not dead any more: 1 job"} {
		if status != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("%d, and the page does not say %q", status, want)
		}
	}
	if status, _, _ := s.post(cat, "/dead/purge", "class", "a", "sure", "yes"); status != http.StatusForbidden {
		t.Errorf("purge by an operator: %d", status)
	}
	if status, _, body := s.post(admin, "/dead/purge", "class", "a"); status != http.StatusOK || !strings.Contains(body, "Drop 2 jobs") {
		t.Errorf("the first press: %d", status)
	}
	if status, to, _ := s.post(admin, "/dead/purge", "class", "a", "sure", "yes"); status != http.StatusSeeOther || !strings.Contains(to, "said=dropped") {
		t.Errorf("the second press: %d to %s", status, to)
	}
	if n, err := s.jobs.Dead().Count(t.Context(), "a"); n != 0 || err != nil {
		t.Errorf("%d are left, %v", n, err)
	}
}

// All are retried in the background: as many as there is room for, the rest as places open, until it is stopped.
func TestRetryAll(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	t.Cleanup(s.pages.Close)
	s.quick("a", 2)
	for range 5 {
		s.dieOff("k", 1, "it broke")
	}
	must(t, s.jobs.Buckets().Pause(t.Context(), "a", "k"))
	next, err := look(t, s, cat, "/live?view=dead&class=a")
	must(t, err)
	before := next()
	if status, to, _ := s.post(cat, "/dead/retry-all", "class", "a"); status != http.StatusSeeOther || !strings.Contains(to, "said=begun") {
		t.Fatalf("retry all: %d to %s", status, to)
	}
	s.until(func() bool {
		f := next()
		return f.Parts["revival"] != before.Parts["revival"] && f.Patch["revival-retried"][""] == "2" && f.Patch["revival-left"][""] == "3"
	})
	page := s.ok(cat, "/dead?class=a")
	for _, want := range []string{"running", `max="5"`, `value="2"`, "Begun by cat", `id="dead-stop"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if status, _, body := s.post(cat, "/dead/retry-all", "class", "a"); status != http.StatusConflict || !strings.Contains(body, "being retried already") {
		t.Errorf("a second one: %d", status)
	}
	// Places open, and it goes on by itself.
	must(t, s.jobs.Buckets().Resume(t.Context(), "a", "k"))
	s.end("a", 2, queue.Verdict{Outcome: queue.Done})
	s.until(func() bool { return next().Patch["revival-retried"][""] == "4" })
	if status, _, _ := s.post(cat, "/dead/stop", "class", "a"); status != http.StatusSeeOther {
		t.Errorf("stop: %d", status)
	}
	s.until(func() bool { return s.pages.revivals.of("a").State == "stopped" })
	must(t, s.jobs.Buckets().Pause(t.Context(), "a", "k"))
	if n, err := s.jobs.Dead().Count(t.Context(), "a"); n != 1 || err != nil {
		t.Errorf("%d are dead, %v", n, err)
	}
	// With room for all it ends by itself.
	_, err = s.jobs.Buckets().Purge(t.Context(), "a", "k")
	must(t, err)
	s.post(cat, "/dead/retry-all", "class", "a", "key", "k")
	s.until(func() bool { return s.pages.revivals.of("a").State == "done" })
	log, err := s.rdb.XRange(t.Context(), "{spout:0}:changes", "-", "+").Result()
	must(t, err)
	if text := fmt.Sprint(log); strings.Count(text, "retry dead") != 4 || !strings.Contains(text, `retried":4`) {
		t.Errorf("the log of changes: %s", text)
	}
}

// What runs in the background is bounded.
func TestRevivalsAreBounded(t *testing.T) {
	t.Parallel()
	s := newRevivals()
	for i := range revivalsMost {
		s.byClass[fmt.Sprint("c", i)] = &revival{State: "running"}
	}
	if err := s.begin(context.Background(), nil, desk.Target{Class: "one-more"}, 0); !errors.Is(err, queue.ErrConflict) {
		t.Errorf("one too many: %v", err)
	}
}

func TestWorkersPage(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.class("a")
	s.class("lonely")
	if page := s.ok(bob, "/workers"); !strings.Contains(page, "No worker is running") || !strings.Contains(page, "worker run") {
		t.Error("an empty page does not say how to start one")
	}
	for shard := range s.jobs.Shards() {
		for _, name := range []string{"w1", "silent"} {
			_, err := s.jobs.Outlet(name, shard).Depart(t.Context(), queue.Ask{Want: 0, Classes: []string{"a"}})
			must(t, err)
		}
	}
	_, err := s.jobs.Report(t.Context(), queue.Report{
		Worker: "w1", Host: "<b>host</b>", Process: 7, Version: "1.2", Classes: []string{"a"}, Concurrency: 8, Busy: 3, Since: time.Now(),
	})
	must(t, err)
	page := s.ok(bob, "/workers")
	for _, want := range []string{"&lt;b&gt;host&lt;/b&gt;", "3 of 8", "works", "1 of 2 workers does not answer", "not heard of", "class?name=lonely"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if page := s.ok(eve, "/workers"); strings.Contains(page, "&lt;b&gt;host") {
		t.Error("a stranger sees a worker that serves only what does not exist for them")
	}
	next, err := look(t, s, bob, "/live?view=workers")
	must(t, err)
	for id := range next().Patch {
		if !strings.Contains(page, `id="`+id+`"`) {
			t.Errorf("a patch is for %s, which the page does not have", id)
		}
	}
}
