package pages

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"embed"
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/internal/redact"
	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/wire"
	"github.com/spout-queue/spout/queue"
)

//go:embed templates/*.html
var templateFiles embed.FS

// templates are the pages by name, each with the layout and the shared parts.
type templates map[string]*template.Template

// parseTemplates reads the pages. Files that begin with an underscore are shared by all.
func parseTemplates(p *Pages) templates {
	entries, err := templateFiles.ReadDir("templates")
	if err != nil {
		panic(err) // they are embedded
	}
	shared := template.New("").Funcs(p.functions())
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "_") {
			template.Must(shared.ParseFS(templateFiles, "templates/"+e.Name()))
		}
	}
	all := templates{}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "_") {
			page := template.Must(shared.Clone())
			all[strings.TrimSuffix(e.Name(), path.Ext(e.Name()))] = template.Must(page.ParseFS(templateFiles, "templates/"+e.Name()))
		}
	}
	return all
}

// functions are what templates call.
func (p *Pages) functions() template.FuncMap {
	return template.FuncMap{
		"url":      p.url,
		"entry":    p.entry,
		"asset":    p.static.url,
		"logout":   func() bool { return p.Logout },
		"now":      time.Now,
		"moment":   func(t time.Time) string { return t.UTC().Format(queue.TimeFormat) },
		"short":    shortDuration,
		"number":   number,
		"settings": settingsOf,
		"bytes":    bytesOf,
		"dict":     dict,
		"long":     func(name string) bool { return len(name) > longName },
		"minus":    func(a, b int) int { return a - b },
		"redact":   func(text string) string { text, _ = redact.Text(text); return text },
		"last":     func(list []happening) int { return len(list) - 1 },
		"notice":   func(kind, text string) notice { return notice{kind, text} },
		"shows":    func() []int { return []int{12, vesselsUsual, 36, vesselsMost} },
	}
}

// longName is how long a name can be, in bytes, until its title is written smaller.
const longName = 60

// navEntry is one entry of the navigation.
type navEntry struct {
	URL, Text string
	Here      bool
}

func (p *Pages) entry(is page, name, path, text string) navEntry {
	return navEntry{p.url(path), text, is.Here == name}
}

// notice is a sentence about what was done, or what is wrong: its Kind is good, warn or bad.
type notice struct{ Kind, Text string }

// page is what the layout shows around the content.
type page struct {
	Title  string
	Here   string // the entry of the navigation that the page belongs to
	Person access.Person
	// Live names the view that keeps the page live, with its query; empty for a page that stands still.
	Live string
	// At is where the page, and parts of it, can be read again. That of the answer to a form is told; of other pages it is where they were read.
	At string
	// Styles and Scripts are the page's own, from static/.
	Styles, Scripts []string
	Content         any
}

// Operates and Administers tell the templates which buttons to draw. The desk decides again.
func (p page) Operates() bool { return p.Person.May(access.Operator) }

// Administers tells whether the person may change classes and purge.
func (p page) Administers() bool { return p.Person.May(access.Admin) }

// show renders a page or, where a script asks for ?part=name, the part of it that is defined under that name.
func (p *Pages) show(w http.ResponseWriter, r *http.Request, status int, name string, is page) error {
	is.Person = access.From(r.Context())
	part := "layout"
	if asked := r.URL.Query().Get("part"); asked != "" {
		if part = "part-" + asked; p.templates[name].Lookup(part) == nil {
			return errNoPage
		}
		w.Header().Set("Spout-Version", versionIn(is.Live, asked))
	}
	if is.At == "" && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		is.At = r.URL.EscapedPath() + "?" + r.URL.RawQuery
	}
	var b bytes.Buffer
	if err := p.templates[name].ExecuteTemplate(&b, part, is); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Vary", "Accept-Encoding")
	body := b.Bytes()
	if len(body) >= gzipLeast && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		body = gzipped(body, gzip.BestSpeed)
	}
	w.WriteHeader(status)
	if _, err := w.Write(body); err != nil {
		p.Log.LogAttrs(r.Context(), slog.LevelDebug, "a page was not read to its end", slog.Any("error", err))
	}
	return nil
}

// gzipLeast is the least size of a page that is worth it.
const gzipLeast = 4 << 10

var errNoPage = errors.New("there is no such page")

// failure is what went wrong, for people.
type failure struct {
	Status int
	Title  string
	Detail string
}

// fail shows an error: as a page or, where a script asked, as a notice.
func (p *Pages) fail(w http.ResponseWriter, r *http.Request, err error) {
	if r.Context().Err() != nil { // nobody waits for an answer
		return
	}
	f := failure{statusOf(err), "That did not work", wire.Public(err).Error()}
	if f.Status == http.StatusInternalServerError {
		p.Log.LogAttrs(r.Context(), slog.LevelError, "a page could not be shown", slog.String("path", r.URL.Path), slog.Any("error", err))
		f.Detail = "An error of the dashboard itself; its log says more."
	} else if public := wire.Public(err); public != err { //nolint:errorlint // whether it is another one
		p.Log.LogAttrs(r.Context(), slog.LevelWarn, "a page could not be shown", slog.String("path", r.URL.Path), slog.Any("error", err))
	}
	name := "layout"
	if r.Header.Get("HX-Request") != "" { // it does not take the place of the page, with all that somebody typed there
		name = "part-failure"
		Aside(w.Header())
	}
	f.Title, f.Detail = titleOf(f.Status), sentence(strings.TrimPrefix(f.Detail, "queue: "))
	var b bytes.Buffer
	if err := p.templates["failure"].ExecuteTemplate(&b, name, page{Title: f.Title, Person: access.From(r.Context()), Content: f}); err != nil {
		http.Error(w, f.Detail, f.Status)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(f.Status)
	_, _ = b.WriteTo(w) // who went away needs no answer
}

// Aside has a script show an answer above the page and not in the place of what it asked for: what has the id failure of it.
func Aside(h http.Header) {
	h.Set("HX-Retarget", "#notices")
	h.Set("HX-Reswap", "beforeend")
	h.Set("HX-Reselect", "#failure")
}

func statusOf(err error) int {
	switch {
	case errors.Is(err, access.ErrDenied):
		return http.StatusForbidden
	case errors.Is(err, errNoPage):
		return http.StatusNotFound
	}
	return cmp.Or(answer.Code(err), http.StatusInternalServerError)
}

// titleOf is what went wrong in short.
func titleOf(status int) string {
	switch status {
	case http.StatusNotFound:
		return "Not found"
	case http.StatusForbidden:
		return "You may not do that"
	case http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return "Redis does not answer"
	}
	return "That did not work"
}

// sentence makes one of an error's text.
func sentence(text string) string {
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

func queryEscape(s string) string { return url.QueryEscape(s) }
