package e2e

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/spout-queue/spout/queue"
)

// hostileTexts are 100 texts that want to be something else in a page. What runs of them sets window.ran.
func hostileTexts() []string {
	list := []string{
		`<img src=x onerror="ran=1">`, `"><script>ran=1</script>`, `'><svg onload=ran=1>`, `javascript:ran=1`, `</title><script>ran=1</script>`,
		`</script><script>ran=1</script>`, `<!--`, `-->`, `--!><b>`, `]]>`, `<![CDATA[<b>]]>`, `<?xml version="1.0"?>`, `{{.Person}}`, `{{template "nav"}}`, `${ran=1}`,
		"\u202Eright to left", "\u200F\u2066x\u2069", `\u003cscript\u003eran=1`, `&lt;b&gt;`, `&#60;b&#62;`, `&lt;script>ran=1`, `" autofocus onfocus="ran=1`,
		`' onmouseover='ran=1`, "` onload=ran=1 `", `%3Cscript%3Eran=1`, `../../etc`, `//evil.example/x`, `https://evil.example/x`, `?a=b&c=d#e`, `a/b/c`,
		`data:text/html,<script>ran=1</script>`, `hx-get="/x"`, `<b hx-get=/x hx-trigger=load>`, `<a hx-on:click=ran=1>`, `<style>*{display:none}</style>`, `<base href=//evil.example>`,
		`<form action=//evil.example>`, `<meta http-equiv=refresh content=0>`, `<link rel=stylesheet href=//evil.example>`, `<iframe srcdoc="<script>ran=1</script>">`,
		`<plaintext>`, `<textarea>`, `<select><option>`, `<table><tr><td>`, `</section></main></body>`, `<template><b>`, `<math><mtext><b>`, `<svg><style><img src=x onerror=ran=1>`,
		`<noscript><p title="</noscript><img src=x onerror=ran=1>">`, `<object data=x>`, `<embed src=x>`, `<video src=x onerror=ran=1>`, `<details open ontoggle=ran=1>`, `<input autofocus onfocus=ran=1>`,
		`<dialog open>`, `<p id=main>`, `<p id=part-state>`, `" data-live="/x`, `" data-dialog="/x`, "$(touch x)", "`touch x`", `'; touch x; '`, `$HOME`, `-x --help`, `*`, `?[a-z]`, `~`,
		`\`, `\\`, `null`, `undefined`, `__proto__`, `constructor`, `0`, `-1`, "\u00a0", strings.Repeat("w", 110), strings.Repeat("<b>", 30), `event: patch`, "data: {}", `"x":1},{`,
	}
	for _, c := range "<>\"'&`=/+#;:@!^({[|,." {
		list = append(list, strings.Repeat(string(c), 3))
	}
	return list[:100]
}

// harmlessTexts are as many words.
func harmlessTexts() []string {
	var list []string
	for a := 'a'; a <= 'j'; a++ {
		for b := 'a'; b <= 'j'; b++ {
			list = append(list, "word"+string([]rune{a, b}))
		}
	}
	return list
}

// name makes a text fit for a key, an id, a type or the name of a person.
func nameOf(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, text)
	for len(text) > 100 {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}

// dressed is an installation with texts wherever there can be one.
type dressed struct {
	*site
	texts  []string
	at     string
	tokens []string
	refs   map[string]string // of jobs, by their ids
	all    string            // the ref of a job whose payload holds all texts
}

// dress fills an installation: two classes have a bucket for each text, held for it, with a job that waits, one that is delayed, two that died of it
// and one that ended with it; the buckets of a third have many jobs each, in line and parked. Everybody whose name is a text has drained a bucket.
func dress(t *testing.T, texts []string) *dressed {
	t.Helper()
	d := &dressed{site: newSite(t, nil), texts: texts, refs: map[string]string{}}
	d.classes(`classes:
  first: &few {capacity: 100, rate: 1000/1s, retention: 1h, retry: {max_attempts: 1}}
  second: *few
  third: {capacity: 1000, rate: 1000/1s, retry: {max_attempts: 3, backoff: 1h, max_backoff: 1h}}
`)
	var early, late []queue.Job
	for i, text := range texts {
		class, key, many := []string{"first", "second"}[i%2], nameOf(text), fmt.Sprint("k", i/20)
		early = append(early,
			d.say(class, key, "dead", text, "error"), d.say(class, key, "done", text, "result"), d.say(class, key, "unknown", text, ""),
			d.say("third", many, "parked", text, "error"),
			d.say(class, key, "held", text, "hold"), // the last of its bucket: nothing leaves after it
		)
		soon := d.say(class, key, "later", text, "")
		soon.NotBefore = time.Now().Add(time.Hour)
		late = append(late, soon, d.say("third", many, "", text, ""))
	}
	d.submitJobs(early)
	w := d.start("testworker")
	t.Cleanup(w.dismiss)
	until(t, "all to be held, dead, done or parked", func() bool {
		first, _ := d.books("first")
		second, _ := d.books("second")
		third, _ := d.books("third")
		return first.Held == 50 && second.Held == 50 && third.Retried == 100 && first.Out()+second.Out()+third.Out() == 0
	})
	for i := range 5 {
		d.run("admin", "bucket", "pause", fmt.Sprint("third/k", i))
	}
	w.stop()
	d.submitJobs(late)
	d.submitJobs([]queue.Job{{Class: "third", Key: "k0", ID: "all", Type: "all", Payload: d.payload(map[string]any{"list": texts})}})
	d.all = d.refs["all"]
	d.people()
	return d
}

// say is a job with a text in all its parts. What its handler does with it is error, result or hold; without one, no handler is for it.
func (d *dressed) say(class, key, what, text, does string) queue.Job {
	payload := map[string]any{"url": "u" + text, "headers": map[string]string{text: text}, "body": text}
	typ := "t" + nameOf(text) // which no worker knows
	if does != "" {
		payload[does], typ = text, "say"
	}
	return queue.Job{Class: class, Key: key, ID: nameOf(text) + what, Type: typ, Payload: d.payload(payload)}
}

func (d *dressed) payload(of map[string]any) json.RawMessage {
	payload, err := json.Marshal(of)
	if err != nil {
		d.tb.Fatal(err)
	}
	return payload
}

func (d *dressed) submitJobs(jobs []queue.Job) {
	d.tb.Helper()
	for i, result := range d.client.SubmitMany(d.tb.Context(), jobs) {
		if result.Err != nil {
			d.tb.Fatal(result.Err)
		}
		d.refs[jobs[i].ID] = url.QueryEscape(result.Receipt.Ref)
	}
}

// people serves the dashboard for a person of each name, and has each of them drain a bucket of that name.
func (d *dressed) people() {
	d.tb.Helper()
	var holders []map[string]string
	for _, text := range d.texts {
		token := rand.Text()
		d.tokens = append(d.tokens, token)
		holders = append(holders, map[string]string{"name": nameOf(text), "role": "admin", "hash": fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(token)))})
	}
	file, err := json.Marshal(map[string]any{"tokens": holders}) // JSON is YAML
	if err != nil {
		d.tb.Fatal(err)
	}
	path := filepath.Join(d.tb.TempDir(), "tokens.yaml")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		d.tb.Fatal(err)
	}
	d.at = d.dashboard("--tokens", path)
	for i, text := range d.texts {
		form := url.Values{"class": {[]string{"first", "second"}[i%2]}, "key": {nameOf(text)}}
		r, err := http.NewRequestWithContext(d.tb.Context(), http.MethodPost, d.at+"bucket/drain", strings.NewReader(form.Encode()))
		if err != nil {
			d.tb.Fatal(err)
		}
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Authorization", "Bearer "+d.tokens[i])
		resp, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			d.tb.Fatal(err)
		}
		if _ = resp.Body.Close(); resp.StatusCode != http.StatusSeeOther {
			d.tb.Fatalf("%q may not drain: %s", text, resp.Status)
		}
	}
}
