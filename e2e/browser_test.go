package e2e

import (
	"context"
	_ "embed"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

//go:embed testdata/axe/axe.min.js
var axe string

// The widths of a phone and of a desk.
const (
	phone = 390
	desk  = 1280
)

// browser is a Chromium, in whose context tabs are opened.
type browser struct{ ctx context.Context }

// newBrowser starts a Chromium of the test's own, with nothing of any user.
func newBrowser(tb testing.TB) *browser {
	tb.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:len(chromedp.DefaultExecAllocatorOptions):len(chromedp.DefaultExecAllocatorOptions)],
		chromedp.UserDataDir(tb.TempDir()),
		// The tests open pages of our own only, and in a container nothing can be sandboxed.
		chromedp.NoSandbox,
	)
	alloc, stop := chromedp.NewExecAllocator(context.Background(), options...) // not the test's context: it ends before the clean-up
	ctx, cancel := chromedp.NewContext(alloc)
	tb.Cleanup(func() {
		if err := chromedp.Cancel(ctx); err != nil {
			tb.Logf("end the browser: %v", err)
		}
		cancel()
		stop()
	})
	if err := chromedp.Do(ctx); err != nil {
		tb.Fatalf("start chromium (.ci/install installs it): %v", err)
	}
	return &browser{ctx}
}

// tab is one page that a person looks at. Whatever the browser complains of fails the test at its end.
type tab struct {
	tb  testing.TB
	ctx context.Context

	mu       sync.Mutex
	problems []string
	expected []string
}

// tab opens an empty tab of a width.
func (b *browser) tab(tb testing.TB, width int64) *tab {
	tb.Helper()
	ctx, cancel := chromedp.NewContext(b.ctx)
	t := &tab{tb: tb, ctx: ctx}
	tb.Cleanup(cancel)
	tb.Cleanup(t.judge)
	if err := chromedp.Listen(ctx, t.hear); err != nil {
		tb.Fatal(err)
	}
	t.do(chromedp.EmulateViewport(width, 900))
	return t
}

// hear notes errors of scripts and of the console, and what the browser refused, such as what breaks the content security policy.
func (t *tab) hear(event any) {
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		t.note(fmt.Sprintf("exception: %s at line %d of %s: %+v",
			e.ExceptionDetails.Text, e.ExceptionDetails.LineNumber, e.ExceptionDetails.URL, e.ExceptionDetails.Exception))
	case *runtime.EventConsoleAPICalled:
		switch e.Type { //nolint:exhaustive // the others are no complaints
		case runtime.ConsoleAPICalledTypeError, runtime.ConsoleAPICalledTypeWarning, runtime.ConsoleAPICalledTypeAssert:
			for _, arg := range e.Args {
				t.note(fmt.Sprintf("console: %s %s", arg.Value, arg.Description))
			}
		}
	case *network.EventRequestWillBeSent:
		if at, err := url.Parse(e.Request.URL); err != nil || at.Scheme != "data" && at.Scheme != "blob" && at.Hostname() != "127.0.0.1" {
			t.note("asks elsewhere: " + e.Request.URL)
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			t.note(fmt.Sprintf("%s: %s %s", e.Entry.Source, e.Entry.Text, e.Entry.URL))
		}
	}
}

func (t *tab) note(problem string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.problems = append(t.problems, problem)
}

// expect lets a complaint pass that the test brings about, such as an answer with status 429.
func (t *tab) expect(part string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.expected = append(t.expected, part)
}

// judge tells what the browser complained of.
func (t *tab) judge() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, problem := range t.problems {
		if !slices.ContainsFunc(t.expected, func(part string) bool { return strings.Contains(problem, part) }) {
			t.tb.Errorf("the browser complains: %s", problem)
		}
	}
}

// do does something within the patience of the tests.
func (t *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	t.tb.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		t.fail("%v", err)
	}
}

// fail ends the test with what the page shows.
func (t *tab) fail(format string, args ...any) {
	t.tb.Helper()
	shows, _ := chromedp.Run(t.ctx, chromedp.Evaluate[string](`location.href + "\n" + document.body.innerText.slice(0, 2000)`))
	t.picture(strings.ReplaceAll(t.tb.Name(), "/", "-") + "-failed")
	t.tb.Fatalf(format+"\nThe page is %s", append(args, shows)...)
}

// open loads a page.
func (t *tab) open(url string) {
	t.tb.Helper()
	t.do(chromedp.Navigate(url))
}

// until waits for an expression to be true in the page, whichever it is by then.
func (t *tab) until(what, expression string) {
	t.tb.Helper()
	if !within(t.tb, patience, func() bool {
		ok, err := chromedp.Run(t.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		return err == nil && ok // while a page is left for another, there is nothing to ask
	}) {
		t.fail("%s: waited in vain for %s", what, expression)
	}
}

// value of an expression in the page; a promise is waited for.
func value[T any](t *tab, expression string) T {
	t.tb.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, patience)
	defer cancel()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression, chromedp.EvalAwaitPromise))
	if err != nil {
		t.fail("%s: %v", expression, err)
	}
	return v
}

// press focuses what a selector finds and presses Enter: everything must work by the keyboard.
func (t *tab) press(selector string) {
	t.tb.Helper()
	t.do(chromedp.WaitVisible(chromedp.CSS(selector)), chromedp.Focus(chromedp.CSS(selector)), chromedp.KeyEvent(kb.Enter))
}

// fill writes into fields of a form, by their names.
func (t *tab) fill(fields map[string]string) {
	t.tb.Helper()
	for name, text := range fields {
		t.do(chromedp.SetValue(chromedp.CSS(`[name="`+name+`"]`), text))
	}
}

// finding is what axe-core has against a page.
type finding struct {
	ID     string `json:"id"`
	Impact string `json:"impact"`
	Help   string `json:"help"`
	Nodes  []struct {
		HTML string `json:"html"`
	} `json:"nodes"`
}

// accessible has axe-core look at the page, and sees that a narrow window needs no sideways scrolling.
func (t *tab) accessible() {
	t.tb.Helper()
	t.do(chromedp.Evaluate[chromedp.Void](axe))
	where := value[string](t, `location.pathname + " at " + innerWidth + " px"`)
	for _, f := range value[[]finding](t, `axe.run().then(r => r.violations)`) {
		if f.Impact == "serious" || f.Impact == "critical" {
			t.tb.Errorf("%s: %s, %s: %s\n%v", where, f.Impact, f.ID, f.Help, f.Nodes)
		}
	}
	if over := value[int](t, `document.documentElement.scrollWidth - document.documentElement.clientWidth`); over > 0 {
		t.tb.Errorf("%s: the page is %d px too wide", where, over)
	}
}

// dark asks for dark colours, or for light ones.
func (t *tab) dark(on bool) {
	t.tb.Helper()
	scheme := map[bool]string{true: "dark", false: "light"}[on]
	_, err := chromedp.Call(t.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
		Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}},
	})
	if err != nil {
		t.fail("%v", err)
	}
}

// picture is what the window shows, as a PNG file. SPOUT_E2E_PICTURES, a directory, keeps it under a name.
func (t *tab) picture(name string) []byte {
	t.tb.Helper()
	png, err := chromedp.Run(t.ctx, chromedp.CaptureScreenshot())
	if err != nil {
		t.tb.Errorf("take a picture: %v", err)
		return nil
	}
	if dir := os.Getenv("SPOUT_E2E_PICTURES"); dir != "" {
		if err := os.WriteFile(filepath.Join(dir, name+".png"), png, 0o600); err != nil {
			t.tb.Error(err)
		}
	}
	return png
}
