package e2e

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"
)

// partOf is the part p of a page, in a version.
func partOf(w http.ResponseWriter, version, text string) {
	w.Header().Set("Spout-Version", version)
	_, _ = fmt.Fprintf(w, `<div id="part-p">%s</div>`, text)
}

const shownPart = `document.getElementById("part-p").innerText`

// TestDashboardPartComesBack: a part that is as it was when the page was drawn is drawn again where it was another one in between, also when the tab was
// hidden, or the admin away, when it came back to that.
func TestDashboardPartComesBack(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var asked []string
	tab := liveTabOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("part") == "" {
			_, _ = fmt.Fprintf(w, livePage, `<div id="part-p">one</div>`)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if len(asked) == 1 {
			partOf(w, "2", "two")
			return
		}
		partOf(w, "1", "one again")
	}, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		drawn := r.URL.Query().Get("drawn")
		asked = append(asked, drawn)
		first := len(asked) == 1
		mu.Unlock()
		if first {
			tellTab(w, `event: part`, `data: {"p":"2"}`, ``, `event: patch`, `data: {}`)
			<-r.Context().Done()
			return
		}
		if drawn != "p.1" { // as package pages compares
			tellTab(w, `event: part`, `data: {"p":"1"}`)
		}
		tellTab(w, `event: patch`, `data: {}`)
		<-r.Context().Done()
	})
	tab.until("the second version", isLive+` && `+shownPart+` === "two"`)
	hide := `Object.defineProperty(document, "hidden", { configurable: true, value: %v }); document.dispatchEvent(new Event("visibilitychange"))`
	tab.do(chromedp.Evaluate[chromedp.Void](fmt.Sprintf(hide, true)), chromedp.Evaluate[chromedp.Void](fmt.Sprintf(hide, false)))
	tab.until("the first version again", isLive+` && `+shownPart+` === "one again"`)
	mu.Lock()
	defer mu.Unlock()
	if got := strings.Join(asked, " "); got != "p.1 p.2" {
		t.Errorf("the streams were asked for with %s", got)
	}
}

// TestDashboardPartFails: a part that cannot be fetched stays as it is, and is asked for again. So is one that was of another moment than the stream told of.
func TestDashboardPartFails(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	n := 0
	tab := liveTabOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("part") == "" {
			_, _ = fmt.Fprintf(w, livePage, `<div id="part-p">one</div>`)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		switch n++; n {
		case 1:
			http.Error(w, "away", http.StatusServiceUnavailable)
		case 2:
			partOf(w, "3", "three")
		default:
			partOf(w, "2", "two")
		}
	}, func(w http.ResponseWriter, r *http.Request) {
		tellTab(w, `event: part`, `data: {"p":"2"}`, ``, `event: patch`, `data: {}`)
		<-r.Context().Done()
	})
	tab.expect("status of 503")
	tab.until("the version that was told", shownPart+` === "two"`)
	mu.Lock()
	defer mu.Unlock()
	if n != 3 {
		t.Errorf("it was asked for %d times", n)
	}
}

// TestDashboardPatchBeforePart: what the stream tells of an element that a part is only about to bring is not lost.
func TestDashboardPatchBeforePart(t *testing.T) {
	t.Parallel()
	told := make(chan struct{})
	tab := liveTabOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("part") == "" {
			_, _ = fmt.Fprintf(w, livePage, `<b id="x"></b><div id="part-p">one</div>`)
			return
		}
		select {
		case <-told:
		case <-r.Context().Done():
		}
		partOf(w, "2", `<b id="new">long ago</b>`)
	}, func(w http.ResponseWriter, r *http.Request) {
		tellTab(w, `event: part`, `data: {"p":"2"}`, ``, `event: patch`, `data: {"new":{"":"now"},"x":{"":"told"}}`)
		<-r.Context().Done()
	})
	tab.until("the patch", `document.getElementById("x").textContent === "told"`)
	close(told)
	tab.until("the part as it was told", `document.getElementById("new")?.textContent === "now"`)
}

// TestDashboardPartTakesOver: what somebody wrote or unfolded in a part is still there when it was drawn again.
func TestDashboardPartTakesOver(t *testing.T) {
	t.Parallel()
	const form = `<details><summary>More</summary><input id="in" value="usual"></details><b id="drawn">%s</b>`
	tell := make(chan struct{})
	tab := liveTabOf(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Query().Get("part") == "" {
			_, _ = fmt.Fprintf(w, livePage, `<div id="part-p">`+fmt.Sprintf(form, "one")+`</div>`)
			return
		}
		partOf(w, "2", fmt.Sprintf(form, "two"))
	}, func(w http.ResponseWriter, r *http.Request) {
		tellTab(w, `event: patch`, `data: {}`)
		select {
		case <-tell:
		case <-r.Context().Done():
		}
		tellTab(w, `event: part`, `data: {"p":"2"}`)
		<-r.Context().Done()
	})
	tab.until("the stream", isLive)
	tab.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("details").open = true; document.getElementById("in").value = "typed"`))
	close(tell)
	tab.until("the part", `document.getElementById("drawn").textContent === "two"`)
	if got := value[string](tab, `document.querySelector("details").open + " " + document.getElementById("in").value`); got != "true typed" {
		t.Errorf("it is %s", got)
	}
}

// TestDashboardClock: times run down by the clock of the server, however wrong that of the browser is.
func TestDashboardClock(t *testing.T) {
	t.Parallel()
	tab := liveTab(t, func(*http.Request) string {
		return fmt.Sprintf(livePage, `<time id="t" data-until="2020-01-01T00:10:00Z"></time><time id="u" data-until="2030-01-01T00:10:00Z"></time>`)
	}, `event: patch`, `data: {}`)
	tab.until("a time by the page", isLive+` && /^(10m 0|9m 5\d)s$/.test(document.getElementById("t").textContent)`)
	tab = liveTab(t, func(*http.Request) string {
		return fmt.Sprintf(livePage, `<time id="t" data-until="2030-01-01T00:10:00Z"></time>`)
	}, `event: now`, `data: "2030-01-01T00:00:00Z"`)
	tab.until("a time by the stream", `/^(10m 0|9m 5\d)s$/.test(document.getElementById("t").textContent)`)
}

// TestDashboardFailsAside: where Redis is away, what somebody wrote stays where it is, and the page says what is the matter.
func TestDashboardFailsAside(t *testing.T) {
	t.Parallel()
	s := newSite(t, okay)
	s.classes(`classes: {web: {capacity: 20, rate: 1/600s}}`)
	at := s.dashboard()
	b := newBrowser(t)
	edit, submit, bucket := b.tab(t, desk), b.tab(t, phone), b.tab(t, desk)
	for _, tab := range []*tab{edit, submit, bucket} {
		tab.expect("status of 5")
	}
	edit.open(at + "class/edit?name=web")
	edit.fill(map[string]string{"rate": "7/1s"})
	submit.open(at + "submit")
	submit.fill(map[string]string{"class": "web", "key": "k", "url": "https://example.com/typed"})
	bucket.open(at + "bucket?class=web&key=k")
	bucket.until("the stream", isLive)
	bucket.fill(map[string]string{"for": "17m"})
	s.server.Kill()
	failed := `document.querySelector("#notices #failure")`
	edit.pressText("Preview")
	edit.until("to be told", failed)
	if got := value[string](edit, `document.querySelector("[name=rate]").value`); got != "7/1s" {
		t.Errorf("the rate in the form is %q", got)
	}
	edit.accessible()
	submit.press("#f-submit")
	submit.until("to be told", failed+` || document.querySelector(".refusal")`)
	if got := value[string](submit, `document.querySelector("[name=url]").value`); got != "https://example.com/typed" {
		t.Errorf("the url in the form is %q", got)
	}
	bucket.pressText("Hold")
	bucket.until("to be told", failed)
	bucket.until("the page", `document.querySelector("#part-state h2") && document.getElementById("hold-for").value === "17m"`)
	bucket.picture("failed-aside")
	s.server.Restart()
	s.classes(`classes: {web: {capacity: 20, rate: 1/600s}}`) // this Redis keeps nothing
	bucket.until("the stream", isLive)
	bucket.pressText("Pause")
	bucket.until("a pause", `document.querySelector("#part-state h2").innerText.includes("Paused") && !`+failed)
}

// TestDashboardConverges: pages that were opened before anything happened show what is so by then, without being loaded again: whoever did it, by whichever door.
func TestDashboardConverges(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c call) reply {
		if c.bucket == "bad" && c.nth == 1 {
			return reply{status: http.StatusBadRequest}
		}
		return reply{status: http.StatusOK}
	})
	s.classes(`classes: {web: {capacity: 20, rate: 20/1s, retention: 1h, retry: {max_attempts: 1}, http: {allow_private: true}}}`)
	at := s.dashboard()
	s.worker()
	s.run("admin", "bucket", "pause", "web/good")
	s.fillBucket("web", "good", 1)
	line, err := s.client.Jobs(t.Context(), "web", "good", false, 1)
	if err != nil || len(line) != 1 {
		t.Fatalf("%d jobs wait, %v", len(line), err)
	}
	b := newBrowser(t)
	open := func(path string) *tab {
		tab := b.tab(t, desk)
		tab.open(at + path)
		tab.until("the stream", isLive)
		return tab
	}
	class, job, dead, deads, bucket := open("class?name=web"), open("job?ref="+url.QueryEscape(line[0].Ref)), open("dead?class=web"), open("dead"), open("bucket?class=web&key=good")
	deads.until("none dead", `document.querySelector("main").innerText.includes("No job is dead")`)
	s.fillBucket("web", "bad", 3)
	dead.until("the dead", `document.querySelectorAll("#part-list [name=ref]").length > 0 && document.getElementById("dead-all") && document.getElementById("dead-kept").textContent === "3"`)
	deads.until("the dead", `!document.querySelector("main").innerText.includes("No job is dead") && document.querySelector("td b").textContent === "3"`)
	dead.pressText("Retry all")
	dead.until("none listed", `!document.querySelector("#part-list [name=ref]") && document.getElementById("dead-kept").textContent === "0"`)
	deads.until("none dead", `document.querySelector("main").innerText.includes("No job is dead")`)

	bucket.until("a pause", `document.querySelector("#part-state h2").innerText.includes("Paused")`)
	s.run("admin", "bucket", "resume", "web/good")
	job.until("the result", `document.querySelector("#part-life .badge").innerText === "done" && document.querySelector("#part-result pre")`)
	bucket.until("an empty bucket", `!document.querySelector("#part-line table") && document.querySelector("#part-state h2").innerText.includes("Empty")`)

	class.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("#part-settings details").open = true`))
	s.classes(`classes: {web: {capacity: 21, rate: 1/600s, retention: 1h, retry: {max_attempts: 1}, http: {allow_private: true}}}`)
	s.fillBucket("web", "late", 2)
	s.run("admin", "bucket", "pause", "web/late")
	class.until("the settings", `document.querySelector("h1").innerText.includes("1/10m") && document.querySelector("#part-settings").innerText.includes("1/10m") && document.querySelector("#part-settings details").open`)
	class.until("the buckets", `[...document.querySelectorAll("#part-buckets tr")].some((e) => /late.*of 21.*paused/s.test(e.innerText))`)
	class.until("the changes", `document.querySelector("#part-history").innerText.includes("web/late")`)
}
