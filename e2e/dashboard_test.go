package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// dashboard starts a cmd/admin serve and returns its address, with a slash at its end.
func (s *site) dashboard(args ...string) string {
	s.tb.Helper()
	w := s.start("admin", append([]string{"serve", "--addr", "127.0.0.1:0"}, args...)...)
	s.tb.Cleanup(w.dismiss)
	serves := regexp.MustCompile(`serving (https?://\S+?/),`)
	var at string
	if !within(s.tb, patience, func() bool {
		of := serves.FindStringSubmatch(w.log.String())
		if of != nil {
			at = of[1]
		}
		return of != nil
	}) {
		s.tb.Fatalf("no dashboard: %s", w.log)
	}
	return at
}

// classes applies a class file.
func (s *site) classes(yaml string) {
	s.tb.Helper()
	file := filepath.Join(s.tb.TempDir(), "classes.yaml")
	if err := os.WriteFile(file, []byte(yaml), 0o600); err != nil {
		s.tb.Fatal(err)
	}
	s.run("admin", "class", "apply", "-f", file)
}

// fillBucket submits jobs that call the service, as many as there is room for.
func (s *site) fillBucket(class, key string, jobs int) {
	s.tb.Helper()
	var lines strings.Builder
	for i := range jobs {
		fmt.Fprintf(&lines, `{"class":%q,"key":%q,"id":"%s-%d","payload":{"method":"POST","url":%q}}`+"\n", class, key, s.tb.Name(), i, s.url(key, i))
	}
	file := filepath.Join(s.tb.TempDir(), "jobs.jsonl")
	if err := os.WriteFile(file, []byte(lines.String()), 0o600); err != nil {
		s.tb.Fatal(err)
	}
	s.try("producer", "bulk", "-f", file, "--on-full", "skip")
}

// pressText presses the first button or link that begins with a text.
func (t *tab) pressText(text string) {
	t.tb.Helper()
	find := fmt.Sprintf(`[...document.querySelectorAll("button, a.button, summary")].find(e => e.checkVisibility() && e.textContent.trim().startsWith(%q))`, text)
	t.until("a button", find)
	t.do(chromedp.Evaluate[chromedp.Void](find+`.focus()`), chromedp.KeyEvent(kb.Enter))
}

// level is the number of jobs that the page of a bucket shows, a number as soon as the page is there.
const level = `parseInt(document.querySelector("#part-state [id$=-places]").textContent.replace(/,/g, ""))`

func okay(call) reply { return reply{status: http.StatusOK} }

// TestDashboardSubmit: a person submits in the form, and sees the level of the bucket rise and fall.
func TestDashboardSubmit(t *testing.T) {
	t.Parallel()
	s := newSite(t, okay)
	s.classes(`classes: {web: {capacity: 20, rate: 4/1s, retention: 1h, http: {allow_private: true}}}`)
	at := s.dashboard()
	s.worker()
	b := newBrowser(t)
	bucket := b.tab(t, desk)
	bucket.open(at + "bucket?class=web&key=k")
	bucket.until("an empty bucket", level+` === 0 && document.getElementById("stream").dataset.state === "live"`)
	form := b.tab(t, phone)
	form.open(at + "submit")
	form.fill(map[string]string{"class": "web", "key": "k", "url": s.url("k", 1), "method": http.MethodPost, "times": "20"})
	form.press("#f-submit")
	form.until("receipts", `document.querySelector("#answer").innerText.includes("admitted")`)
	bucket.until("the level to rise", level+` > 10`)
	bucket.until("the level to fall", level+` > 0 && `+level+` < 10`)
	bucket.until("the bucket to be empty", level+` === 0`)
	if n := s.up.count(); n != 20 {
		t.Errorf("the service was called %d times instead of 20", n)
	}
	form.fill(map[string]string{"url": s.url("k", 2), "times": "1"})
	form.press("#f-submit")
	form.until("the result", `document.querySelector("#answer").innerText.includes("Result")`) // the page shows what becomes of the job
	form.until("a receipt", `document.querySelector("#answer a[href*='/job?ref=']")`)
	form.open(at + strings.TrimPrefix(value[string](form, `document.querySelector("#answer a[href*='/job?ref=']").getAttribute("href")`), "/"))
	form.until("the life of the job", `location.pathname === "/job" && document.querySelector("main").innerText.includes("done")`)
}

// TestDashboardSlope: pausing stops the fall of the level, and another rate changes its slope.
func TestDashboardSlope(t *testing.T) {
	t.Parallel()
	s := newSite(t, okay)
	s.classes(`classes: {web: {capacity: 1000, rate: 4/1s, http: {allow_private: true}}}`)
	at := s.dashboard()
	s.worker()
	s.fillBucket("web", "k", 200)
	tab := newBrowser(t).tab(t, desk)
	tab.open(at + "bucket?class=web&key=k")
	// fall is how many jobs a second leave, as the page shows it.
	fall := func(jobs int) float64 {
		first, begin := value[int](tab, level), time.Now()
		tab.until("the level to fall", fmt.Sprintf(`%s <= %d`, level, first-jobs))
		return float64(first-value[int](tab, level)) / time.Since(begin).Seconds()
	}
	slow := fall(8)
	tab.pressText("Pause")
	tab.until("a pause", `document.querySelector("#part-state h2").innerText.toLowerCase().includes("paused")`)
	bucket, err := s.client.Buckets().Get(t.Context(), "web", "k")
	if err != nil {
		t.Fatal(err)
	}
	paused := bucket.Level
	// What was seen a second before may be shown for a moment.
	tab.until("the level of the moment of the pause", fmt.Sprintf(`%s === %d`, level, paused))
	s.fillBucket("web", "other", 8) // of the same rate, to tell the time by
	until(t, "the other bucket is empty", func() bool { return len(s.up.calls("other")) == 8 })
	if now := value[int](tab, level); now != paused {
		t.Errorf("the level of a paused bucket went from %d to %d", paused, now)
	}
	tab.open(at + "class/edit?name=web")
	tab.fill(map[string]string{"rate": "40/1s"})
	tab.pressText("Preview")
	tab.until("a preview", `document.querySelector("main").innerText.includes("40/1s")`)
	tab.pressText("Save")
	tab.until("the new rate", `location.pathname === "/class" && document.querySelector("h1").innerText.includes("40/1s")`)
	tab.open(at + "bucket?class=web&key=k")
	tab.pressText("Resume")
	tab.until("the bucket to open", fmt.Sprintf(`%s < %d`, level, paused))
	if fast := fall(60); fast < 3*slow {
		t.Errorf("at 4/s the level fell by %.1f/s, and by %.1f/s at 40/s", slow, fast)
	}
}

// TestDashboardFull: who is refused is told until when, and sees that time run down.
func TestDashboardFull(t *testing.T) {
	t.Parallel()
	s := newSite(t, okay)
	s.classes(`classes: {web: {capacity: 2, rate: 1/600s}}`)
	at := s.dashboard()
	s.fillBucket("web", "k", 3) // one of them may leave at once, but nobody drains
	tab := newBrowser(t).tab(t, phone)
	tab.expect("429")
	tab.open(at + "submit")
	tab.fill(map[string]string{"class": "web", "key": "k", "url": s.up.URL})
	tab.press("#f-submit")
	tab.until("a refusal", `document.querySelector(".refusal[data-reason=full]")`)
	left := `document.querySelector(".refusal .again time").textContent`
	first := value[string](tab, left)
	tab.until("the countdown", fmt.Sprintf(`%s !== %q`, left, first))
	tab.accessible()
	tab.open(at + "bucket?class=web&key=k")
	tab.until("the overflow", `document.getElementById("bucket-overflow").textContent !== "0"`)
	tab.accessible()
}

// TestDashboardDead: all dead jobs go round again, at the pace of their bucket.
func TestDashboardDead(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c call) reply {
		if c.nth == 1 {
			return reply{status: http.StatusBadRequest}
		}
		return reply{status: http.StatusOK}
	})
	s.classes(`classes: {web: {capacity: 8, rate: 10/1s, retry: {max_attempts: 1}, http: {allow_private: true}}}`)
	at := s.dashboard()
	s.worker()
	for _, key := range []string{"a", "b", "c"} {
		s.fillBucket("web", key, 8)
	}
	tab := newBrowser(t).tab(t, desk)
	tab.open(at + "dead")
	tab.until("the class", `document.querySelector("main").innerText.includes("web")`)
	until(t, "the books say so", func() bool {
		books, err := s.client.Books(t.Context(), "web")
		return err == nil && books.DeadKept() == 24
	})
	tab.open(at + "dead?class=web")
	tab.until("24 dead", `document.getElementById("dead-kept").textContent === "24"`)
	tab.accessible()
	tab.until("a list", `document.querySelectorAll("[name=ref]").length === 24`)
	tab.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("[data-ticks]").click()`))
	tab.until("all to be ticked", `document.querySelectorAll("[name=ref]:checked").length === 24`)
	tab.pressText("Retry all")
	tab.until("all to go round", `document.getElementById("revival-retried")?.textContent === "24"`)
	tab.until("none to be listed", `!document.querySelector("#part-list tbody")`)
	until(t, "the books say so", func() bool {
		books, err := s.client.Books(t.Context(), "web")
		return err == nil && books.Done == 24
	})
	tab.open(at + "dead?class=web")
	tab.until("none dead", `document.getElementById("dead-kept").textContent === "0"`)
}
