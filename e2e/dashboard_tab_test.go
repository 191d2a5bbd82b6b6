package e2e

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/console"
)

const (
	isLive  = `document.getElementById("stream").dataset.state === "live"`
	isStale = `document.getElementById("stream").dataset.state === "stale"`
)

// TestDashboardInSomebodysMux: below a path of somebody's own program, which knows who asks, pages lead to each other, forms work, and the stream is live.
func TestDashboardInSomebodysMux(t *testing.T) {
	t.Parallel()
	s := newSite(t, okay)
	s.classes(`classes: {web: {capacity: 20, rate: 1/600s}}`)
	c, err := console.New(console.Options{Client: s.client, Base: "/ops/spout", Authenticate: func(*http.Request) (access.Person, error) {
		return access.Person{Name: "ann", Role: access.Admin}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background()) // not the test's context: it ends before the clean-up
	var running sync.WaitGroup
	running.Go(func() { c.Run(ctx) })
	mux := http.NewServeMux()
	mux.Handle("/ops/spout/", c)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { http.Error(w, "not of the console", http.StatusTeapot) })
	server := httptest.NewServer(mux)
	t.Cleanup(func() {
		server.CloseClientConnections()
		cancel()
		running.Wait()
		server.Close()
	})
	tab := newBrowser(t).tab(t, desk)
	tab.open(server.URL + "/ops/spout/")
	tab.until("the stream", isLive)
	s.fillBucket("web", "k", 20)
	tab.until("the bucket", `document.querySelector("#part-buckets .name")`)
	tab.press("#part-buckets .name")
	tab.until("its page", `location.pathname === "/ops/spout/bucket" && `+isLive+` && `+level+` > 0`)
	tab.pressText("Pause")
	tab.until("a pause", `document.querySelector("#part-state h2").innerText.includes("Paused")`)
	tab.pressText("Purge")
	tab.until("the question, not answered by the key that asked it", `document.getElementById("dialog").open && document.activeElement.id === "dialog"`)
	tab.pressText("Drop")
	tab.until("none left", `location.pathname === "/ops/spout/bucket" && `+level+` === 0`)
	for _, page := range []string{"", "classes", "class?name=web", "class/edit?name=web", "dead", "dead?class=web", "workers", "submit", "meter", "changes", "docs"} {
		tab.open(server.URL + "/ops/spout/" + page)
		if out := value[[]string](tab, `[...document.querySelectorAll("[href], [src], [action], [hx-post]")].flatMap((e) => ["href", "src", "action", "hx-post"].map((n) => e.getAttribute(n)))
			.filter((v) => v && !v.startsWith("#") && !v.startsWith("/ops/spout/"))`); len(out) > 0 && page != "docs" {
			t.Errorf("%q leads out of the console: %q", page, out)
		}
	}
}

// TestDashboardLoggedOut: who logs out in another tab is told so in this one, and comes back to the same page, also from a button.
func TestDashboardLoggedOut(t *testing.T) {
	t.Parallel()
	s := newSite(t, okay)
	s.classes(`classes: {web: {capacity: 20, rate: 1/600s}}`)
	token, tokens := s.person("olga", "operator")
	at := s.dashboard("--tokens", tokens)
	b := newBrowser(t)
	login := func(tab *tab, then string) {
		tab.until("the login", `location.pathname === "/login"`)
		tab.fill(map[string]string{"token": token})
		tab.pressText("Log in")
		tab.until("the page that was asked for", then)
	}
	const page = `location.pathname + location.search === "/bucket?class=web&key=a%26b"`
	watched, other := b.tab(t, desk), b.tab(t, desk)
	watched.expect("status of 401") // of the stream, and of the button
	watched.open(at + "bucket?class=web&key=" + url.QueryEscape("a&b"))
	login(watched, page+" && "+isLive)
	logout := func() {
		other.open(at + "classes")
		other.pressText("Log out")
		other.until("the login", `location.pathname === "/login"`)
	}
	logout()
	watched.until("to be told", `document.getElementById("notices").innerText.includes("not logged in any more")`)
	watched.accessible()
	watched.pressText("Log in again")
	login(watched, page+" && "+isLive)
	logout()
	watched.pressText("Pause") // before or after it is told
	login(watched, page+" && "+isLive)
	watched.pressText("Pause")
	watched.until("a pause", `document.querySelector("#part-state h2").innerText.includes("Paused")`)
}

// TestDashboardRedisAway: a page says since when nothing could be read, keeps what it shows, and is live again by itself.
func TestDashboardRedisAway(t *testing.T) {
	t.Parallel()
	s := newSite(t, okay)
	s.classes(`classes: {web: {capacity: 20, rate: 1/600s}}`)
	at := s.dashboard()
	s.fillBucket("web", "k", 7)
	b := newBrowser(t)
	overview, bucket := b.tab(t, desk), b.tab(t, phone)
	for _, tab := range []*tab{overview, bucket} {
		tab.expect("status of 5") // parts and charts that are asked for meanwhile
	}
	overview.open(at)
	bucket.open(at + "bucket?class=web&key=k")
	overview.until("the stream", isLive+` && document.querySelector("#part-buckets .name")`)
	bucket.until("the stream", isLive+` && `+level+` === 7`)
	s.server.Kill()
	overview.until("to be told", isStale+` && document.getElementById("strip-live").innerText.includes("stale")`)
	bucket.until("to be told", isStale+` && `+level+` === 7`)
	overview.until("why", `document.querySelector("#notices .still").innerText.includes("Redis")`)
	overview.accessible()
	overview.picture("redis-away")
	bucket.picture("redis-away-bucket")
	away := b.tab(t, desk)
	away.expect("status of 5")
	away.open(at + "bucket?class=web&key=k")
	away.until("an answer", `/Redis|unavailable|cannot be reached/i.test(document.querySelector("main").innerText)`)
	away.accessible()
	away.picture("redis-away-opened")
	s.server.Restart()
	s.classes(`classes: {web: {capacity: 20, rate: 1/600s}}`) // this Redis keeps nothing
	s.fillBucket("web", "other", 3)
	overview.until("the stream", isLive+` && document.querySelector("#part-buckets").innerText.includes("other") && !document.querySelector("#notices .still")`)
	bucket.until("the stream", isLive+` && `+level+` === 0`)
}

// TestDashboardBack: a filter is part of the address, so back and forward keep it, with the list and the stream that belong to it.
func TestDashboardBack(t *testing.T) {
	t.Parallel()
	s := newSite(t, okay)
	s.classes(`classes: {web: {capacity: 20, rate: 1/600s}, mail: {capacity: 20, rate: 1/600s}}`)
	at := s.dashboard()
	for _, key := range []string{"ada", "abe", "bob"} {
		s.fillBucket("web", key, 2)
		s.fillBucket("mail", key, 3)
	}
	tab := newBrowser(t).tab(t, desk)
	tab.open(at)
	shown := func(names string) string {
		return isLive + fmt.Sprintf(` && [...document.querySelectorAll("#part-buckets .name")].map((e) => e.innerText.replace(/\s/g, "")).sort().join() === %q`, names)
	}
	const all, more = "mail/abe,mail/ada,mail/bob,web/abe,web/ada,web/bob", "mail/abe,mail/ada,mail/bob,web/abe,web/ada,web/aya,web/bob"
	tab.until("all buckets", shown(all))
	tab.fill(map[string]string{"class": "web", "prefix": "a"})
	tab.press("#part-filter button")
	tab.until("those of the filter", shown("web/abe,web/ada"))
	tab.press("#part-buckets .name")
	tab.until("a bucket", `location.pathname === "/bucket" && `+isLive)
	tab.do(chromedp.NavigateBack())
	tab.until("those of the filter again", shown("web/abe,web/ada")+` && document.getElementById("f-class").value === "web" && document.getElementById("f-prefix").value === "a"`)
	s.fillBucket("web", "aya", 1)
	tab.until("what came meanwhile", shown("web/abe,web/ada,web/aya"))
	tab.do(chromedp.NavigateBack())
	tab.until("all of them", shown(more)+` && document.getElementById("f-class").value === "" && document.getElementById("f-prefix").value === ""`)
	tab.do(chromedp.NavigateForward())
	tab.until("those of the filter once more", shown("web/abe,web/ada,web/aya")+` && document.getElementById("f-prefix").value === "a"`)
}

// TestDashboardWithoutScripts: where no script runs, pages show what there is, say nothing of being live, and forms work.
func TestDashboardWithoutScripts(t *testing.T) {
	t.Parallel()
	s := newSite(t, okay)
	at := s.dashboard()
	s.worker()
	lively(s)
	tab := newBrowser(t).tab(t, desk)
	tab.expect("404") // one page is of a class that there is not
	if _, err := chromedp.Call(tab.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		t.Fatal(err)
	}
	for name, path := range s.pagesOf() {
		tab.open(at + path)
		tab.until(name, `document.querySelector("h1") && document.querySelector("main").innerText.length > 50`)
		if name == "api" { // it has no stream at any time
			continue
		}
		if said := value[string](tab, `document.querySelector(".who").innerText.replace(/\s/g, "") + [...document.querySelectorAll("[data-copy]")].filter((e) => e.checkVisibility()).map((e) => e.innerText).join()`); said != "localadmin" {
			t.Errorf("%s says %q", name, said)
		}
		tab.picture("noscript-" + name)
	}
	tab.open(at + "submit")
	tab.fill(map[string]string{"class": "github-api", "key": "fresh", "url": s.url("fresh", 1)})
	tab.do(chromedp.Click(chromedp.CSS("#f-submit")))
	tab.until("a receipt", `document.querySelector("#answer a[href*='/job?ref=']")`)
	until(t, "the call", func() bool { return len(s.up.calls("fresh")) == 1 })
	tab.open(at + "bucket?class=billing&key=eu")
	tab.do(chromedp.Click(chromedp.CSS(`form[action="/bucket/pause"] button`)))
	tab.until("a pause", `document.querySelector("#part-state h2").innerText.includes("Paused")`)
	tab.do(chromedp.Click(chromedp.CSS(`a[href^="/bucket/purge"]`)))
	tab.until("the question", `document.querySelector("main h1").innerText.includes("Purge")`)
	tab.do(chromedp.Click(chromedp.CSS(`main button`)))
	tab.until("an empty bucket", level+` === 0`)
}
