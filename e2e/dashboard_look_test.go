package e2e

import (
	"bytes"
	"context"
	"fmt"
	"image/png"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spout-queue/spout/queue"
)

// lively fills an installation with what a dashboard has to show: full, paused, held, draining, dead, done.
func lively(s *site) {
	s.tb.Helper()
	s.classes(`classes:
  github-api: {capacity: 12, rate: 2/1s, retention: 1h, http: {allow_private: true}}
  mail: {capacity: 40, rate: 1/1s, retention: 1h, retry: {max_attempts: 1}, http: {allow_private: true}}
  billing: {capacity: 6, rate: 1/10s, http: {allow_private: true}}
`)
	for i, key := range []string{"acme", "globex", "initech"} {
		s.fillBucket("github-api", key, 15-4*i)
	}
	for i, key := range []string{"welcome", "digest", "receipts", "alerts"} {
		s.fillBucket("mail", key, 44-9*i)
	}
	s.fillBucket("billing", "eu", 8)
	s.fillBucket("billing", "us", 3)
	s.run("admin", "bucket", "pause", "mail/digest")
	s.run("admin", "bucket", "hold", "billing/us", "--for", "10m")
	s.run("admin", "bucket", "drain", "mail/alerts")
}

// busy submits to buckets of github-api, each so often, until it is stopped.
func (s *site) busy(every map[string]time.Duration) (stop func()) {
	ctx, cancel := context.WithCancel(s.tb.Context())
	var all sync.WaitGroup
	for key, d := range every {
		all.Go(func() {
			tick := time.NewTicker(d)
			defer tick.Stop()
			for n := 1000; ctx.Err() == nil; n++ {
				payload := fmt.Sprintf(`{"method":"GET","url":%q}`, s.url(key, n))
				_, _ = s.client.Submit(ctx, queue.Job{Class: "github-api", Key: key, Payload: []byte(payload)}) // refusals are to be seen
				select {
				case <-tick.C:
				case <-ctx.Done():
				}
			}
		})
	}
	return func() {
		cancel()
		all.Wait()
	}
}

// pagesOf are all pages of the dashboard, by name.
func (s *site) pagesOf() map[string]string {
	s.tb.Helper()
	jobs, err := s.client.Jobs(s.tb.Context(), "mail", "digest", false, 1)
	if err != nil || len(jobs) == 0 {
		s.tb.Fatalf("no job waits: %v", err)
	}
	return map[string]string{
		"overview": "", "classes": "classes", "class": "class?name=mail", "edit": "class/edit?name=mail", "new": "class/new",
		"bucket": "bucket?class=mail&key=digest", "held": "bucket?class=billing&key=us", "job": "job?ref=" + url.QueryEscape(jobs[0].Ref),
		"dead": "dead", "dead-of": "dead?class=mail", "workers": "workers", "submit": "submit", "meter": "meter", "changes": "changes",
		"api": "docs", "nothing": "bucket?class=nothing&key=k",
	}
}

// TestDashboardLook: every page, as wide as a phone and as a desk, light and dark: nothing that axe-core calls serious, nothing
// that the browser complains of, nothing wider than the window.
func TestDashboardLook(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(c call) reply {
		if c.number%5 == 0 {
			return reply{status: http.StatusBadRequest}
		}
		return reply{status: http.StatusOK}
	})
	at := s.dashboard()
	s.worker()
	lively(s)
	b := newBrowser(t)
	for _, width := range []int64{phone, desk} {
		tab := b.tab(t, width)
		tab.expect("404") // one page is of a class that there is not
		for name, path := range s.pagesOf() {
			for _, dark := range []bool{false, true} {
				tab.dark(dark)
				tab.open(at + path)
				tab.until("the stream", `!document.querySelector("[data-live]") || document.getElementById("stream").dataset.state === "live"`)
				tab.accessible()
				tab.picture(fmt.Sprintf("%s-%d-%v", name, width, dark))
			}
		}
	}
}

// picturePath is the picture in the README. UPDATE=1 takes it anew.
const picturePath = "../docs/dashboard.png"

// TestDashboardPicture: the README's picture shows the dashboard as it is: of the same size, and made by this test.
func TestDashboardPicture(t *testing.T) {
	t.Parallel()
	s := newSite(t, okay)
	at := s.dashboard()
	s.worker()
	lively(s)
	stop := s.busy(map[string]time.Duration{"acme": 100 * time.Millisecond, "globex": 400 * time.Millisecond, "initech": time.Second})
	defer stop()
	tab := newBrowser(t).tab(t, desk)
	tab.open(at)
	tab.until("rejections", `/[1-9][0-9.]*\/s/.test(document.querySelector("main").innerText.match(/Rejected[^]*Fullest/)?.[0].replace(/\s+/g, " "))`)
	tab.until("the buckets", `document.getElementById("stream").dataset.state === "live" && document.querySelectorAll("svg[role=img]").length >= 9 && document.querySelector(".vessel.spills.flows") && document.getElementById("main").innerText.includes("live")`)
	taken := tab.picture("readme")
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(picturePath, taken, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadFile(picturePath)
	if err != nil {
		t.Fatal(err)
	}
	now, errNow := png.DecodeConfig(bytes.NewReader(taken))
	was, errWas := png.DecodeConfig(bytes.NewReader(kept))
	if errNow != nil || errWas != nil || now != was {
		t.Errorf("the picture is %dx%d and was %dx%d: take it anew with UPDATE=1 (%v, %v)", now.Width, now.Height, was.Width, was.Height, errNow, errWas)
	}
	readme, err := os.ReadFile("../README.md")
	if err != nil || !strings.Contains(string(readme), "docs/dashboard.png") {
		t.Errorf("the README does not show the picture: %v", err)
	}
}

// TestDashboardViewer: who may only look logs in with a token, and finds no button on any page that writes.
func TestDashboardViewer(t *testing.T) {
	t.Parallel()
	s := newSite(t, okay)
	token, tokens := s.person("vera", "viewer")
	at := s.dashboard("--tokens", tokens)
	s.worker()
	lively(s)
	tab := newBrowser(t).tab(t, desk)
	tab.expect("404")
	tab.open(at + "classes")
	tab.until("the login", `location.pathname === "/login"`)
	tab.accessible()
	tab.fill(map[string]string{"token": token})
	tab.pressText("Log in")
	tab.until("the page that was asked for", `location.pathname === "/classes"`)
	// What posts is a form or an attribute of htmx. To log out and to play with meters writes nothing of anybody else's.
	writes := `[...document.querySelectorAll("form[method=post], [hx-post], [hx-put], [hx-delete]")]
		.filter(e => !/\/(logout|meter)/.test(e.action || e.getAttribute("hx-post") || "")).map(e => e.outerHTML.slice(0, 200))`
	for name, path := range s.pagesOf() {
		if name == "submit" || name == "edit" || name == "new" {
			tab.expect("403") // nothing leads there
		}
		tab.open(at + path)
		if found := value[[]string](tab, writes); len(found) > 0 {
			t.Errorf("%s has what a viewer may not do: %q", path, found)
		}
		if name == "submit" {
			continue
		}
		if found := value[[]string](tab, `[...document.querySelectorAll("a")].map(a => a.getAttribute("href")).filter(h => !h.startsWith("#") && /\/submit|\/class\/(edit|new)|purge/.test(h))`); len(found) > 0 {
			t.Errorf("%s leads a viewer to %q", path, found)
		}
	}
}

// person makes a token for somebody, and a file that knows of it.
func (s *site) person(name, role string, more ...string) (token, file string) {
	s.tb.Helper()
	out := s.run("admin", append([]string{"token", "new", "--name", name, "--role", role}, more...)...)
	token, entry, _ := strings.Cut(out, "\n")
	file = filepath.Join(s.tb.TempDir(), "tokens.yaml")
	if err := os.WriteFile(file, []byte("tokens:\n"+entry), 0o600); err != nil {
		s.tb.Fatal(err)
	}
	return token, file
}
