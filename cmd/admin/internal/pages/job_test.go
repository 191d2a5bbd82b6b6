package pages

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/queue"
)

func TestJobPage(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.quick("a", 10)
	s.class("slow")
	dead := s.dieOff("k", 1, "503 for Bearer abcdefghijkl")[0]
	waits := s.job(queue.Job{Class: "slow", Key: "k", ID: "w", Payload: []byte(`{"headers":{"Authorization":"hunter2","X":"{{secret:x}}"}}`)})
	page := s.ok(bob, "/job?ref="+waits)
	for _, want := range []string{"Position <b", "[redacted]", "{{secret:x}}", "1 secret is", "producer enqueue --class=slow", "http://example.com/v1/jobs"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not say %q", want)
		}
	}
	if strings.Contains(page, "hunter2") || strings.Contains(page, `method="post"`) {
		t.Error("a viewer sees a secret, or something to press")
	}
	if page := s.ok(cat, "/job?ref="+dead); !strings.Contains(page, "Bearer [redacted]") || !strings.Contains(page, `id="job-retry"`) || strings.Contains(page, `id="job-cancel"`) {
		t.Error("the page of a dead job: the error has its secret, or the buttons are others")
	}
	for ref, want := range map[string]int{waits: 404, "0-nonsense": 400, "": 400} {
		if status, _ := s.get(eve, "/job?ref="+ref); status != want {
			t.Errorf("job %q for a stranger: %d, want %d", ref, status, want)
		}
	}
	next, err := look(t, s, bob, "/live?view=job&ref="+waits)
	must(t, err)
	before := next()
	if before.Patch["job-position"][""] != "1" || before.Patch["job-start"]["data-until"] == "" {
		t.Errorf("live: %+v", before)
	}
	must(t, s.jobs.Buckets().Pause(t.Context(), "slow", "k"))
	s.until(func() bool {
		f := next()
		return f.Parts["life"] != before.Parts["life"] && f.Patch["job-start"][""] == "nobody can tell"
	})
	if page := s.ok(bob, "/job?ref="+waits); !strings.Contains(page, "Its bucket: Paused") {
		t.Error("the page does not say what keeps the job")
	}
}

func TestJobDeeds(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.quick("a", 1)
	dead := s.dieOff("k", 1, "it broke")[0]
	must(t, s.jobs.Buckets().Pause(t.Context(), "a", "k"))
	waits := s.job(queue.Job{Class: "a", Key: "k", NotBefore: time.Now().Add(time.Hour)})
	for _, path := range []string{"/job/retry", "/job/cancel"} {
		for _, ref := range []string{dead, waits} {
			if status, _, _ := s.post(bob, path, "ref", ref); status != http.StatusForbidden {
				t.Errorf("%s by a viewer: %d", path, status)
			}
			if status, _, _ := s.post(eve, path, "ref", ref); status != http.StatusNotFound {
				t.Errorf("%s by a stranger: %d", path, status)
			}
		}
	}
	if status, _, body := s.post(cat, "/job/retry", "ref", dead); status != http.StatusTooManyRequests || !strings.Contains(body, "notice bad") || !strings.Contains(body, "is full") {
		t.Errorf("retry without room: %d", status)
	}
	if status, to, _ := s.post(cat, "/job/cancel", "ref", waits); status != http.StatusSeeOther || to != "/job?ref="+waits+"&said=cancelled" {
		t.Errorf("cancel: %d to %s", status, to)
	}
	if status, to, _ := s.post(cat, "/job/retry", "ref", dead); status != http.StatusSeeOther || to != "/job?ref="+dead+"&said=retried" {
		t.Errorf("retry: %d to %s", status, to)
	}
	if j, err := s.jobs.Job(t.Context(), dead); err != nil || j.State != queue.Line {
		t.Errorf("the retried job is %s, %v", j.State, err)
	}
	if status, to, _ := s.post(cat, "/job/cancel", "ref", dead, "class", "a", "key", "k"); status != http.StatusSeeOther || to != "/bucket?class=a&key=k&said=cancelled" {
		t.Errorf("cancel in the line: %d to %s", status, to)
	}
	if page := s.ok(bob, "/bucket?class=a&key=k&said=%3Cb%3E"); strings.Contains(page, "notice good") {
		t.Error("a query puts words into our mouth")
	}
}
