package e2e

import (
	"encoding/json"
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/queue"
)

// shape is what a page is made of: how often it has an element with which attributes, and what none should have.
type shape struct {
	Kinds map[string]int `json:"kinds"`
	Wrong []string       `json:"wrong"`
}

// shapes defines functions in the page: shapeOf a document, and of one that is fetched. How many parts a timeline, a ruler, the life of a job, what is
// told of it and the groups of errors have depends on the moment and on how alike the errors are: of them it counts which kinds there are, not how
// many. What is hidden for the moment is there.
const shapes = `
	window.shapeOf = (doc) => {
		const kinds = {}, wrong = [];
		for (const e of doc.querySelectorAll('*')) {
			const names = [...e.attributes].map((a) => a.name).filter((n) => n !== 'hidden').sort();
			const kind = [e.localName, ...names].join(' ');
			if (e.closest('svg.timeline, svg.ruler, .groups, ol.life, dl.facts, [aria-label^="History"] tbody')) kinds['some ' + kind] = 1;
			else kinds[kind] = (kinds[kind] || 0) + 1;
			for (const a of e.attributes) {
				if (/^on/.test(a.name) || doc !== document && a.name === 'style') wrong.push(kind);
				if (/^(href|src|action|formaction|xlink:href|data)$/.test(a.name) && !/^[#/]/.test(a.value)) wrong.push(kind + ' leads to ' + a.value);
				if (/^(href|src|action|formaction)$/.test(a.name) && /^[/][/\\]/.test(a.value)) wrong.push(kind + ' leads to ' + a.value);
			}
		}
		if (window.ran !== undefined) wrong.push('a script of a text ran');
		return { kinds, wrong };
	};
	window.fetched = async (path, form) => {
		const answer = await fetch(path, form ? { method: 'POST', body: new URLSearchParams(form) } : {});
		return shapeOf(new DOMParser().parseFromString(await answer.text(), 'text/html'));
	};`

// known is the shape of the page as it is now.
func (t *tab) known() shape {
	t.tb.Helper()
	t.do(chromedp.Evaluate[chromedp.Void](shapes))
	return value[shape](t, `shapeOf(document)`)
}

// asked are pages that are fetched and parsed by the browser, for one text. An address with fields is posted to.
func (d *dressed) asked(i int) map[string][]any {
	class, text := []string{"first", "second"}[i%2], d.texts[i]
	in := url.Values{"class": {class}, "key": {nameOf(text)}}.Encode()
	echo := url.QueryEscape(text)
	return map[string][]any{
		"bucket":       {"/bucket?" + in},
		"purge":        {"/bucket/purge?" + in},
		"dead of it":   {"/dead?" + in},
		"a dead job":   {"/job?ref=" + d.refs[nameOf(text)+"dead"]},
		"a done job":   {"/job?ref=" + d.refs[nameOf(text)+"done"]},
		"a held job":   {"/job?ref=" + d.refs[nameOf(text)+"held"]},
		"a parked job": {"/job?ref=" + d.refs[nameOf(text)+"parked"]},
		"submit to it": {"/submit?" + in},
		"filter":       {"/?class=x" + echo + "&prefix=x" + echo + "&sort=" + echo},
		"of no class":  {"/class?name=x" + echo},
		"no bucket":    {"/bucket?class=" + echo + "x&key=k"},
		"no job":       {"/job?ref=x" + echo},
		"no page":      {"/x/" + url.PathEscape(text)},
		"changes":      {"/changes?class=x" + echo + "&who=x" + echo + "&after=" + echo},
		"dead with":    {"/dead?class=third&text=" + echo},
		"wrong job": {"/submit", map[string]string{
			"class": text + "!", "key": "x" + text, "type": "x" + text, "id": "x" + text, "shape": "json", "payload": text + "{", "max_wait": "x" + text, "not_before": "x" + text, "times": "x" + text,
		}},
		"wrong request": {"/submit", map[string]string{"class": "first", "key": "x" + text, "url": "x " + text, "headers": "x" + text, "body": text, "method": text}},
		"wrong class":   {"/class/edit", map[string]string{"name": text + "!", "rate": text, "capacity": text + "x", "base": text, "do": "preview"}},
		"wrong hold":    {"/bucket/hold", map[string]string{"class": class, "key": nameOf(text), "for": text + "x"}},
		"wrong delete":  {"/class/delete", map[string]string{"name": "third", "confirm": text}},
	}
}

// step is something that somebody does in a tab.
type step struct {
	name string
	do   func(*tab, *dressed)
}

// opens is a step that opens a page and waits until it is whole.
func opens(name string, path func(*dressed) string, whole string) step {
	return step{name, func(t *tab, d *dressed) {
		if name == "workers" {
			d.pretend()
		}
		t.live(d.at + path(d))
		t.until("the whole page", whole)
	}}
}

// charted: the charts of a class are drawn.
const charted = `document.querySelectorAll(".u-wrap").length === 4`

func (d *dressed) opened() []step {
	at := func(path string) func(*dressed) string { return func(*dressed) string { return path } }
	list := []step{
		opens("overview of first", at("?class=first&show=50&sort=name"), "true"),
		opens("overview of second", at("?class=second&show=50&sort=name"), "true"),
		opens("class first", at("class?name=first"), charted), opens("class second", at("class?name=second"), charted),
		opens("a job with all texts", func(d *dressed) string { return "job?ref=" + d.all }, "true"),
	}
	for _, path := range []string{"classes", "changes", "workers", "dead", "class/edit?name=first", "dead?class=first", "dead?class=second"} {
		list = append(list, opens(path, at(path), "true"))
	}
	for i := range 2 {
		list = append(list, opens(fmt.Sprint("line ", i), at(fmt.Sprint("bucket?class=third&key=k", i)), "true"))
	}
	for i := range 2 { // one of first, one of second
		list = append(list, opens(fmt.Sprint("bucket ", i), func(d *dressed) string { return d.bucket(i) }, "true"),
			opens(fmt.Sprint("job ", i), func(d *dressed) string { return "job?ref=" + d.refs[nameOf(d.texts[i])+"dead"] }, "true"))
	}
	return list
}

// bucket is the page of a text's bucket.
func (d *dressed) bucket(i int) string {
	return "bucket?" + url.Values{"class": {[]string{"first", "second"}[i%2]}, "key": {nameOf(d.texts[i])}}.Encode()
}

// TestDashboardHostile: whatever a key, an id, a type, a payload, a header, a result, an error, the reason of a hold, a worker or who changed something
// is called, and whatever is typed into a form: no page has another element or attribute than for harmless words, nothing of it runs, and nothing
// is loaded from elsewhere; not when it is opened, and not after its stream changed it.
func TestDashboardHostile(t *testing.T) {
	t.Parallel()
	harmless, hostile := dress(t, harmlessTexts()), dress(t, hostileTexts())
	calm, wild := harmless.enter(t), hostile.enter(t)
	pattern := calm.fetchAll(harmless.asked(0))
	for i, text := range hostile.texts {
		compare(t, fmt.Sprintf("%q", text), pattern, wild.fetchAll(hostile.asked(i)))
	}
	for _, step := range append(hostile.opened(), hostile.changed()...) {
		step.do(calm, harmless)
		step.do(wild, hostile)
		agree(t, step.name, calm, wild)
	}
}

// agree waits until two tabs show pages of the same shape: each is brought up to date by its own stream.
func agree(t *testing.T, what string, calm, wild *tab) {
	t.Helper()
	diff := ""
	within(t, patience/3, func() bool {
		want, got := calm.known(), wild.known()
		if diff = cmp.Diff(want.Kinds, got.Kinds); len(got.Wrong) > 0 {
			diff = fmt.Sprintf("%q", got.Wrong)
		}
		return diff == ""
	})
	if diff != "" {
		t.Errorf("%s (-harmless +hostile)\n%s", what, diff)
	}
}

func compare(t *testing.T, what string, want, got map[string]shape) {
	t.Helper()
	for name, shape := range got {
		if diff := cmp.Diff(want[name].Kinds, shape.Kinds); diff != "" || len(shape.Wrong) > 0 {
			t.Errorf("%s, %s: %q (-harmless +hostile)\n%s", what, name, shape.Wrong, diff)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%s: %d pages, and %d with harmless words", what, len(got), len(want))
	}
}

// enter logs in as the person whose name is the first text.
func (d *dressed) enter(t *testing.T) *tab {
	t.Helper()
	tab := newBrowser(t).tab(t, desk) // cookies are of a host, whatever its port
	tab.expect("with a status of 4")  // of what is wrong in a form or leads nowhere
	tab.open(d.at)
	tab.fill(map[string]string{"token": d.tokens[0]})
	tab.pressText("Log in")
	tab.until("the overview", `document.querySelector("main h1").innerText === "Overview"`)
	return tab
}

// fetchAll has the browser fetch and parse pages.
func (t *tab) fetchAll(pages map[string][]any) map[string]shape {
	t.tb.Helper()
	t.do(chromedp.Evaluate[chromedp.Void](shapes))
	return value[map[string]shape](t, fmt.Sprintf(`(async () => {
		const found = {};
		await Promise.all(Object.entries(%s).map(async ([name, how]) => { found[name] = await fetched(...how); }));
		return found;
	})()`, jsonOf(t.tb, pages)))
}

// live opens a page and waits for its stream, if it has one.
func (t *tab) live(url string) {
	t.tb.Helper()
	t.open(url)
	t.until("the stream", `!document.querySelector("[data-live]") || document.getElementById("stream").dataset.state === "live"`)
}

// changed are steps in which the stream changes a page, or the page asks for more.
func (d *dressed) changed() []step {
	shows := func(t *tab, text string) string {
		return fmt.Sprintf(`document.querySelector("main").textContent.includes(%s)`, jsonOf(t.tb, text))
	}
	return []step{
		{"another bucket, held", func(t *tab, d *dressed) {
			t.live(d.at + "?class=third")
			d.submitJobs([]queue.Job{d.say("third", nameOf(d.texts[0]), "", d.texts[0], "")})
			t.until("another bucket", `document.querySelectorAll("#part-buckets li").length === 6`)
			d.hold(d.texts[1])
			t.until("why it is held", `[...document.querySelectorAll(".why")].some((e) => e.textContent === `+jsonOf(t.tb, d.texts[1])+`)`)
		}},
		{"a class, held", func(t *tab, d *dressed) {
			t.live(d.at + "class?name=third")
			d.hold(d.texts[2])
			t.until("why it is held", shows(t, d.texts[2]))
			t.until("the charts", charted)
		}},
		{"a bucket with another job", func(t *tab, d *dressed) {
			t.live(d.at + "bucket?class=third&key=" + url.QueryEscape(nameOf(d.texts[0])))
			d.hold(d.texts[3])
			t.until("why it is held", shows(t, d.texts[3]))
			d.submitJobs([]queue.Job{d.say("third", nameOf(d.texts[0]), "more", d.texts[4], "")})
			t.until("another job", `document.querySelectorAll("#part-line tbody tr").length === 2`)
		}},
		{"a dialog", func(t *tab, d *dressed) {
			t.live(d.at + d.bucket(5))
			t.pressText("Purge")
			t.until("the question", `document.getElementById("dialog").open`)
		}},
		{"a submission", func(t *tab, d *dressed) {
			t.live(d.at + "submit")
			t.fill(map[string]string{
				"class": "third", "key": d.texts[0], "type": d.texts[1], "id": d.texts[2], "url": d.texts[3], "headers": "X: " + d.texts[4], "body": d.texts[5],
			})
			t.do(chromedp.Evaluate[chromedp.Void](`document.querySelector("[name=shape][value=json]").click()`), chromedp.SetValue(chromedp.CSS("#f-payload"), jsonOf(t.tb, d.texts)))
			t.press("#f-submit")
			t.until("a receipt", `document.querySelector("#answer a[href*='/job?ref=']")`)
		}},
	}
}

// hold closes class third and says why.
func (d *dressed) hold(why string) {
	d.tb.Helper()
	if err := d.client.Classes().Unhold(d.tb.Context(), "third"); err != nil {
		d.tb.Fatal(err)
	}
	if err := d.client.Classes().Hold(d.tb.Context(), "third", time.Now().Add(time.Hour), why); err != nil {
		d.tb.Fatal(err)
	}
}

// pretend has workers of these names tell of themselves.
func (d *dressed) pretend() {
	d.tb.Helper()
	for _, text := range d.texts {
		if err := d.rdb.HSet(d.tb.Context(), "{spout:0}:workers", text, 1).Err(); err != nil {
			d.tb.Fatal(err)
		}
		if _, err := d.client.Report(d.tb.Context(), queue.Report{Worker: text, Host: text, Version: text, Concurrency: 1, Since: time.Now()}); err != nil {
			d.tb.Fatal(err)
		}
	}
}

func jsonOf(tb testing.TB, v any) string {
	tb.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		tb.Fatal(err)
	}
	return string(text)
}
