package api_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/spout-queue/spout/queue"
)

// No key is out of reach: each goes in the path, percent-encoded, or, where clients tidy paths up, in the query.
func TestKeys(t *testing.T) {
	t.Parallel()
	s := realSite(t)
	s.class("calls", 10)
	for _, key := range []string{
		"k", "a/b", "/", "a//b", "%2F", "%", "..", ".", "a/../b", "../../classes", "ünïcödé 日本語 🪣", "a b", "a+b", "a?b=c", "a#b", "a;b", "a&b=c", "pause",
		"purge", "{key}", "<script>alert(1)</script>", `"quoted"`, `\`, "'", "*", "-", strings.Repeat("x", 256), "%2e%2e", "\u202e", "\u00a0",
	} {
		if err := queue.CheckKey(key); err != nil {
			t.Errorf("%q: %v", key, err)
			continue
		}
		segment := strings.ReplaceAll(url.PathEscape(key), ".", "%2E")
		for path, query := range map[string]string{
			"/v1/classes/calls/buckets/" + segment: "",
			"/v1/classes/calls/bucket":             "?key=" + url.QueryEscape(key),
		} {
			if key == "/" && query == "" {
				continue // a path that ends in it is another: it goes in the query
			}
			s.ask("viewer", "GET", path+query, "").want(t, 200, map[string]any{"class": "calls", "key": key, "level": 0})
			s.ask("operator", "POST", path+"/pause"+query, "").want(t, 200, map[string]any{"key": key, "paused": true})
			s.ask("operator", "POST", path+"/resume"+query, "").want(t, 200, map[string]any{"key": key, "paused": false})
		}
	}
	class, err := s.client.Classes().Get(t.Context(), "calls")
	if err != nil || class.Paused {
		t.Errorf("the class: %+v, %v", class, err)
	}
	for path, status := range map[string]int{
		"/v1/classes/calls/buckets/" + strings.Repeat("x", 257): 400, "/v1/classes/calls/buckets/%00": 400, "/v1/classes/calls/buckets/%ff": 400,
		"/v1/classes/calls/bucket": 400, "/v1/classes/calls/bucket?key=": 400, "/v1/classes/calls/bucket?key=a&key=b": 400,
		"/v1/classes/calls/buckets/": 404, "/v1/classes/nosuch/buckets/k": 404, "/v1/classes/calls/bucket?key=%zz": 400,
	} {
		if got := s.ask("viewer", "GET", path, ""); got.status != status {
			t.Errorf("%s: %d %s, want %d", path, got.status, got.body, status)
		}
	}
}

// What is not understood is refused, not skipped.
func TestStrictness(t *testing.T) {
	t.Parallel()
	s := realSite(t)
	s.class("calls", 10)
	job := `{"class":"calls","key":"k","payload":1}`
	for _, test := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		reason, detail           string
	}{
		{"no route", "GET", "/v1/nosuch", "", nil, 404, "not_found", "there is nothing at"},
		{"no route below one", "GET", "/v1/workers/x", "", nil, 404, "not_found", ""},
		{"dots for a key", "POST", "/v1/classes/calls/buckets/../pause", "", nil, 400, "invalid", "/bucket?key="},
		{"an empty key", "POST", "/v1/classes/calls/buckets//pause", "", nil, 400, "invalid", "empty segment"},
		{"dots", "GET", "/v1/./classes", "", nil, 400, "invalid", ""},
		{"method", "PATCH", "/v1/jobs", job, nil, 405, "method_not_allowed", "GET, HEAD, POST, OPTIONS"},
		{"method of a path with two routes", "DELETE", "/v1/jobs/batch", "", nil, 405, "method_not_allowed", ""},
		{"unknown parameter", "GET", "/v1/jobs?class=calls&limits=1", "", nil, 400, "invalid", `unknown query parameter "limits"`},
		{"unknown parameter of a direct route", "POST", "/v1/jobs?waits=1s", job, nil, 400, "invalid", "known are wait"},
		{"parameter of a route without any", "GET", "/v1/workers?x=1", "", nil, 400, "invalid", "there are none here"},
		{"parameter twice", "GET", "/v1/jobs?class=calls&class=calls", "", nil, 400, "invalid", "there 2 times"},
		{"parameter missing", "GET", "/v1/jobs", "", nil, 400, "invalid", "query.class"},
		{"limit too high", "GET", "/v1/jobs?class=calls&limit=1001", "", nil, 400, "invalid", "query.limit"},
		{"limit no number", "GET", "/v1/jobs?class=calls&limit=NaN", "", nil, 400, "invalid", "query.limit"},
		{"no such state", "GET", "/v1/jobs?class=calls&state=gone", "", nil, 400, "invalid", "query.state"},
		{"cursor made up", "GET", "/v1/jobs?class=calls&cursor=!!", "", nil, 400, "invalid", "cursor"},
		{"dead cursor made up", "GET", "/v1/dead?class=calls&cursor=!!", "", nil, 400, "invalid", "cursor"},
		{"semicolon", "GET", "/v1/jobs?class=calls;limit=1", "", nil, 400, "invalid", "semicolon"},
		{"wait too long", "POST", "/v1/jobs?wait=61s", job, nil, 400, "invalid", "at most 1m0s"},
		{"wait negative", "POST", "/v1/jobs?wait=-1s", job, nil, 400, "invalid", "at most"},
		{"wait no duration", "POST", "/v1/jobs?wait=30", job, nil, 400, "invalid", "like 30s"},
		{"form", "POST", "/v1/jobs", job, []string{"Content-Type", "application/x-www-form-urlencoded"}, 415, "unsupported_media_type", "application/json"},
		{"charset", "POST", "/v1/jobs", job, []string{"Content-Type", "application/json; charset=latin1"}, 415, "unsupported_media_type", ""},
		{"accept", "GET", "/v1/workers", "", []string{"Accept", "text/html"}, 406, "not_acceptable", "answers with: application/json"},
		{"accept none of it", "GET", "/v1/workers", "", []string{"Accept", "application/json;q=0"}, 406, "not_acceptable", ""},
		{"coded", "POST", "/v1/jobs", job, []string{"Content-Encoding", "gzip"}, 415, "unsupported_media_type", "read as they are"},
		{"a body where none is read", "POST", "/v1/classes/calls/pause", `{"for":"1s"}`, nil, 400, "invalid", "parameters go into the query"},
		{"a body that would be less", "POST", "/v1/dead/purge?class=calls&confirm=9", `{"key":"k"}`, nil, 400, "invalid", "none is read here"},
		{"no page", "GET", "/docs/nosuch", "", nil, 404, "not_found", "there is nothing at /docs/nosuch"},
		{"no description", "GET", "/openapi.xml", "", nil, 404, "not_found", ""},
		{"method of the description", "POST", "/openapi.json", "{}", nil, 405, "method_not_allowed", "GET, HEAD"},
		{"method of a page", "POST", "/docs", "{}", nil, 405, "method_not_allowed", ""},
		{"a key for a batch", "POST", "/v1/jobs/batch", `{"jobs":[]}`, []string{"Idempotency-Key", "b"}, 400, "invalid", "each job of a batch an id"},
		{"empty body", "POST", "/v1/jobs", "", nil, 400, "invalid", "ends too early"},
		{"two objects", "POST", "/v1/jobs", job + job, nil, 400, "invalid", "behind the object"},
		{"ids that differ", "POST", "/v1/jobs", `{"class":"calls","key":"k","id":"a","payload":1}`, []string{"Idempotency-Key", "b"}, 400, "invalid", "id is"},
		{"half a structured field", "POST", "/v1/jobs", job, []string{"Idempotency-Key", `"b`}, 400, "invalid", "Idempotency-Key"},
		{"deep", "POST", "/v1/jobs", `{"class":"calls","key":"k","payload":` + strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000) + "}", nil, 400, "invalid", "nested deeper"},
		{"2 MB", "POST", "/v1/jobs", `{"class":"calls","key":"k","payload":"` + strings.Repeat("x", 2<<20) + `"}`, nil, 413, "too_large", "bytes"},
		{"above max_payload", "POST", "/v1/jobs", `{"class":"calls","key":"k","payload":"` + strings.Repeat("x", 300<<10) + `"}`, nil, 413, "too_large", "max_payload"},
		{"batch no list", "POST", "/v1/jobs/batch", `{"jobs":{}}`, nil, 400, "invalid", "not a list"},
		{"batch of others", "POST", "/v1/jobs/batch", `{"job":[]}`, nil, 400, "invalid", `unknown field "job"`},
		{"batch without", "POST", "/v1/jobs/batch", `{}`, nil, 400, "invalid", "missing"},
		{"batch too long", "POST", "/v1/jobs/batch", `{"jobs":[` + strings.Repeat("1,", 1000) + `1]}`, nil, 413, "too_large", "1001 jobs"},
		{"batch of lines too long", "POST", "/v1/jobs/batch", strings.Repeat("1\n", 1001), []string{"Content-Type", "application/x-ndjson"}, 413, "too_large", "1001 jobs"},
		{"hold without", "POST", "/v1/classes/calls/hold", `{}`, nil, 400, "invalid", "one of for and until"},
		{"hold both", "POST", "/v1/classes/calls/hold", `{"for":"1s","until":"2100-01-01T00:00:00Z"}`, nil, 400, "invalid", "one of"},
		{"hold past", "POST", "/v1/classes/calls/hold", `{"until":"2020-01-01T00:00:00Z"}`, nil, 400, "invalid", "past"},
		{"hold short", "POST", "/v1/classes/calls/hold", `{"for":"1us"}`, nil, 400, "invalid", "below 1ms"},
		{"hold misspelt", "POST", "/v1/classes/calls/hold", `{"For":"1s"}`, nil, 400, "invalid", `unknown field "For"`},
		{"class unknown field", "PUT", "/v1/classes/x", `{"capacity":1,"rate":"1/1s","capcity":2}`, nil, 400, "invalid", `unknown field "capcity"`},
		{"class twice", "PUT", "/v1/classes/x", `{"capacity":1,"capacity":1,"rate":"1/1s"}`, nil, 400, "invalid", "twice"},
		{"class null", "PUT", "/v1/classes/x", `{"capacity":1,"rate":"1/1s","timeout":null}`, nil, 400, "invalid", "null"},
		{"class without", "PUT", "/v1/classes/x", `{}`, nil, 400, "invalid", "capacity is missing"},
		{"class as YAML", "PUT", "/v1/classes/x", "capacity: 1\nrate: 1/1s", nil, 400, "invalid", "not JSON"},
		{"class out of range", "PUT", "/v1/classes/x", `{"capacity":0,"rate":"1/1s"}`, nil, 400, "invalid", "capacity 0 is not between"},
		{"class of another name", "PUT", "/v1/classes/x", `{"name":"y","capacity":1,"rate":"1/1s"}`, nil, 400, "invalid", "in the path"},
		{"class badly named", "PUT", "/v1/classes/X", `{"capacity":1,"rate":"1/1s"}`, nil, 400, "invalid", "the name is not"},
		{"both conditions", "PUT", "/v1/classes/x", `{"capacity":1,"rate":"1/1s"}`, []string{"If-Match", `"1"`, "If-None-Match", "*"}, 400, "invalid", "one will do"},
		{"weak tag", "PUT", "/v1/classes/x", `{"capacity":1,"rate":"1/1s"}`, []string{"If-Match", `W/"1"`}, 400, "invalid", "one version in quotes"},
		{"dry run maybe", "PUT", "/v1/classes/x?dry_run=yes", `{"capacity":1,"rate":"1/1s"}`, nil, 400, "invalid", "neither true nor false"},
		{"pressure with a cursor", "GET", "/v1/buckets?class=calls&cursor=x", "", nil, 400, "invalid", "order=name"},
		{"pressure without a class", "GET", "/v1/buckets", "", nil, 400, "invalid", "needs a class"},
		{"confirm what", "POST", "/v1/classes/calls/purge?confirm=yes", "", nil, 400, "invalid", "not a number"},
		{"meter question", "POST", "/v1/meter/check", `{"key":"a"}`, nil, 400, "invalid", `"limit" is missing`},
		{"span", "GET", "/v1/history?class=calls&span=1h", "", nil, 400, "invalid", "query.span"},
		{"time", "GET", "/v1/dead?class=calls&before=yesterday", "", nil, 400, "invalid", "before"},
	} {
		got := s.ask("admin", test.method, test.path, test.body, test.header...)
		got.want(t, test.status, map[string]any{"reason": test.reason, "type": "urn:spout:problem:" + test.reason, "status": test.status})
		if !strings.Contains(got.body, strings.ReplaceAll(test.detail, `"`, `\"`)) || got.header.Get("Content-Type") != "application/problem+json" {
			t.Errorf("%s: %s %.300s, want %q in it", test.name, got.header.Get("Content-Type"), got.body, test.detail)
		}
	}
	s.ask("admin", "POST", "/v1/classes/calls/unhold", " {}\n").want(t, 200, map[string]any{"unchanged": true}) // what some send for no body
	books, err := s.client.Books(t.Context(), "calls")
	if err != nil || books.Admitted != 0 {
		t.Errorf("something was admitted: %+v, %v", books, err)
	}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	s := realSite(t)
	if got := s.ask("viewer", "OPTIONS", "/v1/jobs", ""); got.status != 204 || got.header.Get("Allow") != "GET, HEAD, POST, OPTIONS" {
		t.Errorf("OPTIONS: %d %v", got.status, got.header)
	}
	if got := s.ask("viewer", "HEAD", "/v1/classes", ""); got.status != 200 || got.body != "" {
		t.Errorf("HEAD: %d %q", got.status, got.body)
	}
	if got := s.ask("viewer", "DELETE", "/v1/workers", ""); got.header.Get("Allow") != "GET, HEAD, OPTIONS" {
		t.Errorf("Allow: %v", got.header)
	}
	for _, accept := range []string{"*/*", "application/*", "application/json", "text/html, application/xhtml+xml, */*;q=0.8", "application/problem+json, application/json;q=0.5"} {
		s.ask("viewer", "GET", "/v1/workers", "", "Accept", accept).want(t, 200, nil)
	}
}
