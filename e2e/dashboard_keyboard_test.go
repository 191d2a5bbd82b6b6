package e2e

import (
	"fmt"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"

	"github.com/spout-queue/spout/queue"
)

// webJob is one of class web that calls the service.
func (s *site) webJob(key string) queue.Job {
	return queue.Job{Class: "web", Key: key, Payload: fmt.Appendf(nil, `{"url":%q}`, s.up.URL)}
}

// submitAll submits jobs, which must be admitted.
func (s *site) submitAll(jobs ...queue.Job) {
	s.tb.Helper()
	for _, r := range s.client.SubmitMany(s.tb.Context(), jobs) {
		if r.Err != nil {
			s.tb.Fatal(r.Err)
		}
	}
}

// TestDashboardGridByKeyboard: the pressure grid is one stop for the keyboard. Arrows lead from cell to cell, also after the stream drew it
// again; what is there is told, and Enter opens it.
func TestDashboardGridByKeyboard(t *testing.T) {
	t.Parallel()
	s := newSite(t, okay)
	s.classes(`classes: {web: {capacity: 4, rate: 1/600s}}`)
	at := s.dashboard()
	const buckets = 90 // more than are drawn, and than one row of the grid has room for
	var jobs []queue.Job
	for i := range buckets {
		for range 1 + i%4 {
			jobs = append(jobs, s.webJob(fmt.Sprint("k", i)))
		}
	}
	s.submitAll(jobs...)
	tab := newBrowser(t).tab(t, desk)
	tab.open(at)
	tab.until("all in the grid", fmt.Sprintf(`document.getElementById("stream").dataset.state === "live" && document.querySelector("#grid")?.dataset.cells === "%d"`, buckets))
	if stops := value[int](tab, `document.querySelectorAll(".pressure a, .pressure button, .pressure [tabindex]").length`); stops != 1 {
		t.Fatalf("the grid is %d stops for the keyboard", stops)
	}
	told := `document.getElementById("grid-cell").textContent`
	// is what the server tells of a cell, and where its bucket is.
	is := func(cell int) string {
		return value[string](tab, fmt.Sprintf(`fetch("at?tell=1&cell=%d").then(a => a.text())`, cell))
	}
	cursor := `(cells => Number(cells.getAttribute("x")) / 24 + 40 * Number(cells.getAttribute("y")) / 24)(document.querySelector(".cursor"))`
	key := func(want int, keys ...string) {
		t.Helper()
		for _, k := range keys {
			tab.do(chromedp.KeyEvent(k))
		}
		tab.until("the cell to be told of", fmt.Sprintf(`%s === %d && %s === %q`, cursor, want, told, is(want)))
	}
	tab.do(chromedp.Focus(chromedp.CSS("#cells")))
	key(0)
	key(2, kb.ArrowRight, kb.ArrowRight, kb.ArrowRight, kb.ArrowLeft)
	key(42, kb.ArrowDown)
	key(2, kb.ArrowUp, kb.ArrowUp) // there is no row above the first
	key(0, kb.Home, kb.ArrowLeft)
	key(39, kb.End)
	key(buckets-1, kb.ArrowDown, kb.ArrowDown, kb.End)
	if visible := value[string](tab, `getComputedStyle(document.querySelector(".cursor")).visibility`); visible != "visible" {
		t.Errorf("the cursor is %s", visible)
	}
	tab.accessible()
	tab.picture("grid-cursor")

	before := value[string](tab, `document.getElementById("grid").getAttribute("aria-label")`)
	s.submitAll(s.webJob("k0"))
	tab.until("the stream to draw the grid again", fmt.Sprintf(`document.getElementById("grid").getAttribute("aria-label") !== %q`, before))
	key(buckets-2, kb.ArrowLeft)
	jobs = nil
	for i := range 60 { // so many more that it has another shape, and is fetched again
		jobs = append(jobs, s.webJob(fmt.Sprint("more", i)))
	}
	s.submitAll(jobs...)
	tab.until("a larger grid", fmt.Sprintf(`document.getElementById("grid").dataset.cells === "%d"`, buckets+60))
	key(buckets-1, kb.ArrowRight)
	name := is(buckets - 1)
	tab.do(chromedp.KeyEvent(kb.Enter))
	tab.until("the page of the bucket", `location.pathname === "/bucket"`)
	if got := value[string](tab, `(q => q.get("class") + "/" + q.get("key"))(new URLSearchParams(location.search))`); got != name[:len(got)] {
		t.Errorf("Enter on %q opened %s", name, got)
	}
}
