package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// TestDashboardPartKeepsPatches: a part of a page that is fetched again may be older or newer than what the stream told of it, and the stream tells only
// what changes. So what it told holds for the part too. Of several parts that changed at once, each is fetched.
func TestDashboardPartKeepsPatches(t *testing.T) {
	t.Parallel()
	part := func(name string) string {
		return fmt.Sprintf(`<div id="part-%[1]s"><b id="%[1]s" data-kind="bad">a moment in between</b></div>`, name)
	}
	tab := liveTab(t, func(r *http.Request) string {
		if name := r.URL.Query().Get("part"); name != "" {
			return part(name)
		}
		return fmt.Sprintf(livePage, part("x")+part("y")+part("z"))
	}, `event: patch`, `data: {"x":{"":"told","data-kind":"good"}}`, ``, `event: part`, `data: {"x":"2"}`, ``, `event: part`, `data: {"y":"2","z":"2"}`)
	for _, name := range []string{"x", "y", "z"} {
		tab.until("the part "+name, fmt.Sprintf(`performance.getEntriesByType("resource").some((e) => e.name.includes("part=%s") && e.responseEnd)`, name))
	}
	tab.until("what was told", isLive+` && document.getElementById("x").textContent === "told" && document.getElementById("x").dataset.kind === "good"`)
}

// TestDashboardDrawnAnew: a form's answer may be older than what the stream told. It begins anew with the page.
func TestDashboardDrawnAnew(t *testing.T) {
	t.Parallel()
	tab := liveTab(t, func(r *http.Request) string {
		form := `<b id="x">before</b><form hx-post="/" hx-target="#main" hx-select="#main" hx-swap="outerHTML"><button>Again</button></form>`
		if r.Method == http.MethodPost {
			form = `<b id="x">long ago</b><b id="drawn"></b>`
		}
		return fmt.Sprintf(livePage, form)
	}, `event: patch`, `data: {"x":{"":"told"}}`)
	told := isLive + ` && document.getElementById("x").textContent === "told"`
	tab.until("what was told", told)
	tab.pressText("Again")
	tab.until("what was told of the new page", told+` && document.getElementById("drawn")`)
}

// TestDashboardPartWaits: what somebody types or ticks is not taken from them. The part is fetched when they are done.
func TestDashboardPartWaits(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ input, done string }{
		{`<input id="in" autofocus>`, `document.getElementById("in").blur()`},
		{`<input id="in" type="checkbox" checked>`, `document.getElementById("in").click()`},
	} {
		tab := liveTab(t, func(r *http.Request) string {
			if r.URL.Query().Get("part") == "p" {
				return `<div id="part-p"><b id="drawn"></b></div>`
			}
			return fmt.Sprintf(livePage, `<b id="x"></b><div id="part-p">`+c.input+`</div>`)
		}, `event: part`, `data: {"p":"2"}`, ``, `event: patch`, `data: {"x":{"":"told"}}`)
		tab.until("what was told after it", isLive+` && document.getElementById("x").textContent === "told"`)
		if !value[bool](tab, `document.getElementById("in") !== null`) {
			t.Errorf("%s was taken away", c.input)
		}
		tab.do(chromedp.Evaluate[chromedp.Void](c.done))
		tab.until("the part", `document.getElementById("drawn")`)
	}
}

const livePage = `<!doctype html><title>x</title><link rel="icon" href="data:,"><body><span id="stream" data-state="still"></span><div id="notices"></div>
	<dialog id="dialog"></dialog><main id="main" data-now="2020-01-01T00:00:00Z" data-live="/live?drawn=p.1">%s</main><script src="/static/vendor/htmx.min.js"></script><script src="/static/live.js"></script><script src="/static/page.js"></script>`

// liveTab opens a page with our scripts, whose stream tells these lines, once.
func liveTab(t *testing.T, page func(*http.Request) string, told ...string) *tab {
	t.Helper()
	return liveTabOf(t, func(w http.ResponseWriter, r *http.Request) { _, _ = fmt.Fprint(w, page(r)) }, func(w http.ResponseWriter, r *http.Request) {
		tellTab(w, told...)
		<-r.Context().Done()
	})
}

// tellTab sends lines of a stream.
func tellTab(w http.ResponseWriter, lines ...string) {
	_, _ = fmt.Fprint(w, strings.Join(lines, "\n"), "\n\n")
	w.(http.Flusher).Flush() //nolint:errcheck,forcetypeassert // it is one
}

// liveTabOf opens a page with our scripts, and answers what they ask for.
func liveTabOf(t *testing.T, page, stream http.HandlerFunc) *tab {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("GET /static/", http.StripPrefix("/static/", http.FileServer(http.Dir("../cmd/admin/internal/pages/static"))))
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		page(w, r)
	})
	mux.HandleFunc("GET /live", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		stream(w, r)
	})
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	tab := newBrowser(t).tab(t, desk)
	tab.open(server.URL)
	return tab
}
