package pages

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/queue"
)

func TestSubmit(t *testing.T) {
	t.Parallel()
	s := newSite(t, "/ui")
	s.class("a")
	form := []string{"class", "a", "key", "k", "id", "one", "shape", "json", "type", "t", "payload", `{"a":1}`}
	status, location, _ := s.post(admin, "/ui/submit", form...)
	if status != http.StatusSeeOther || !strings.HasPrefix(location, "/ui/submit?class=a&key=k&ref=") {
		t.Fatalf("%d, %q", status, location)
	}
	page := s.ok(admin, location)
	for _, want := range []string{"Position 1 in a/k", "level 1 of 10; the job is number 1", "data-until", "view=submit"} {
		if !strings.Contains(page, want) {
			t.Errorf("the receipt does not say %q", want)
		}
	}
	if _, again, _ := s.post(admin, "/ui/submit", form...); !strings.Contains(s.ok(admin, again), "It was there already") {
		t.Errorf("the same once more is no duplicate: %q", again)
	}
	form[11] = `{"a":2}`
	if status, _, body := s.post(admin, "/ui/submit", form...); status != http.StatusConflict || !strings.Contains(body, "This id belongs to another job") {
		t.Errorf("another payload: %d", status)
	}
	// Without an id, the form itself is one: a second click is no second job.
	form[5], form[11] = "", "3"
	form = append(form, "once", "dashboard-x")
	_, first, _ := s.post(admin, "/ui/submit", form...)
	if _, second, _ := s.post(admin, "/ui/submit", form...); second != strings.Replace(first, "admitted", "duplicate", 1) {
		t.Errorf("%q, then %q", first, second)
	}
}

func TestSubmitRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.class("a")
	s.submit("a", "full", 10)
	for name, c := range map[string]struct {
		pairs  []string
		status int
		says   []string
	}{
		"full":       {[]string{"key", "full"}, 429, []string{"The bucket is full: 10 of 10", "Submit again", "data-after", "level 10 of 10: full"}},
		"no class":   {[]string{"class", "none", "key", "k"}, 404, []string{"There is no such class", `aria-invalid="true"`}},
		"no key":     {nil, 400, []string{"key is empty"}},
		"no JSON":    {[]string{"key", "k", "payload", "{\n\"a\": b}"}, 400, []string{"line 2, character 6"}},
		"empty":      {[]string{"key", "k", "payload", ""}, 400, []string{"it is empty"}},
		"max_wait":   {[]string{"key", "k", "max_wait", "soon"}, 400, []string{"is not a duration"}},
		"not_before": {[]string{"key", "k", "not_before", "soon"}, 400, []string{"is not a time in RFC 3339"}},
		"times":      {[]string{"key", "k", "times", "101"}, 400, []string{"not a whole number between 1 and 100"}},
		"headers":    {[]string{"key", "k", "type", "http:call", "shape", "request", "headers", "no colon"}, 400, []string{"one header in each line"}},
		"long wait":  {[]string{"key", "full2", "times", "2", "max_wait", "1m"}, 200, []string{"1 of 2 admitted", "would_expire"}},
	} {
		form := url.Values{"class": {"a"}, "shape": {"json"}, "type": {"t"}, "payload": {"1"}}
		for i := 0; i+1 < len(c.pairs); i += 2 {
			form.Set(c.pairs[i], c.pairs[i+1])
		}
		var pairs []string
		for field, values := range form {
			pairs = append(pairs, field, values[0])
		}
		status, _, body := s.post(admin, "/submit", pairs...)
		if status != c.status {
			t.Errorf("%s: %d, want %d", name, status, c.status)
		}
		for _, want := range c.says {
			if !strings.Contains(body, want) {
				t.Errorf("%s does not say %q", name, want)
			}
		}
	}
	must(t, s.jobs.Buckets().Pause(t.Context(), "a", "full"))
	if _, _, body := s.post(admin, "/submit", "class", "a", "key", "full", "shape", "json", "type", "t", "payload", "1"); !strings.Contains(body, "nobody can tell") || strings.Contains(body, "data-after") {
		t.Error("a paused bucket tells a time")
	}
}

// Where a script asks, a refusal is no error of the browser, and the address becomes that of the job.
func TestSubmitByScript(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.class("a")
	for key, replaced := range map[string]bool{"k": true, "": false} {
		form := url.Values{"class": {"a"}, "key": {key}, "shape": {"json"}, "type": {"t"}, "payload": {"1"}, "once": {"o"}}
		r := httptest.NewRequestWithContext(access.With(t.Context(), admin), http.MethodPost, "/submit", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("HX-Request", "true")
		w := httptest.NewRecorder()
		s.pages.ServeHTTP(w, r)
		if w.Code != http.StatusOK || (w.Header().Get("HX-Replace-Url") != "") != replaced {
			t.Errorf("key %q: %d, %v", key, w.Code, w.Header())
		}
		if replaced && strings.Contains(w.Body.String(), `name="once" value="o"`) {
			t.Error("the next job would be the same one")
		}
	}
}

// The stream tells of a job that left, and the page says what became of it.
func TestSubmitFollows(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.class("a")
	receipt, err := s.jobs.Submit(t.Context(), queue.Job{Class: "a", Key: "k", Type: "t", Payload: []byte("1")})
	must(t, err)
	path := "/live?view=submit&ref=" + url.QueryEscape(receipt.Ref)
	version := func() string {
		_, r := recorder(t, admin, path)
		look, err := s.pages.liveSubmit(r)
		must(t, err)
		f, err := look(r.Context())
		must(t, err)
		return f.Parts["job"]
	}
	before := version()
	if again := version(); again != before {
		t.Errorf("nothing happened: %q, %q", before, again)
	}
	_, err = s.jobs.Cancel(t.Context(), receipt.Ref)
	must(t, err)
	if after := version(); after == before {
		t.Errorf("the job is cancelled: still %q", after)
	}
	if page := s.ok(admin, "/submit?class=a&key=k&ref="+url.QueryEscape(receipt.Ref)); !strings.Contains(page, "The job has ended") {
		t.Error("the page does not say that it has ended")
	}
}

func TestRefusalWords(t *testing.T) {
	t.Parallel()
	now := time.Now()
	seen := map[string]bool{}
	for _, reason := range []queue.Reason{
		queue.ReasonFull, queue.ReasonClassFull, queue.ReasonStoreFull, queue.ReasonWouldExpire, queue.ReasonDraining, queue.ReasonConflict,
		queue.ReasonInvalid, queue.ReasonTooLarge, queue.ReasonUnknownClass, queue.ReasonUnavailable, queue.ReasonUnknown,
	} {
		title, meaning := words(reason)
		if title == "" || meaning == "" || seen[title] {
			t.Errorf("%s: %q, %q", reason, title, meaning)
		}
		seen[title] = true
	}
	r := refusalOf(&queue.FullError{Reason: queue.ReasonFull, RetryAfter: time.Minute, Level: 5, Capacity: 5}, now)
	if !r.Again.Equal(now.Add(time.Minute)) || r.Hopeless {
		t.Errorf("%+v", r)
	}
}

// No text becomes an element, on any of these pages.
func TestFormsAreEscaped(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.class("a")
	shapes := map[string][]string{}
	for i, text := range append([]string{"harmless"}, hostile()...) {
		for what, page := range map[string]func() string{
			"refusal": func() string {
				_, _, body := s.post(admin, "/submit", "class", "a"+text+"!", "key", text+"k", "id", text+"i", "type", text+"t", "shape", "json", "payload", text+"x", "headers", text, "body", text, "once", text+"o")
				return body
			},
			"form": func() string { return s.ok(admin, "/submit?"+url.Values{"class": {text}, "key": {text}}.Encode()) },
			"changes": func() string {
				return s.ok(admin, "/changes?"+url.Values{"class": {text + "x"}, "who": {text}}.Encode())
			},
			"class": func() string {
				_, _, body := s.post(admin, "/class/edit", "do", "preview", "name", text+"!", "version", "0", "base", text, "capacity", "0", "rate", "1/1s", "http.hosts", "")
				return body
			},
			"settings": func() string {
				view := classView{Name: text, Base: text, Preview: &classPreview{Warnings: []string{text}}, YAML: text, Changes: []changeRow{{Differs: []fieldChange{{Field: text, Before: text, Now: text}}}}}
				w, r := recorder(t, admin, "/class/edit")
				must(t, s.pages.show(w, r, http.StatusOK, "class_edit", page{Title: text, Content: view}))
				return w.Body.String()
			},
			"removed": func() string { return s.ok(admin, "/classes?"+url.Values{"removed": {text + "x"}}.Encode()) },
		} {
			shape := structure(t, page())
			if i == 0 {
				shapes[what] = shape
			} else if !slices.Equal(shape, shapes[what]) {
				t.Errorf("%q changes the page %q: %v", text, what, difference(shape, shapes[what]))
			}
		}
	}
}
