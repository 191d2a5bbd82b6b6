package console_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/console"
)

// TestRefuses holds what the console itself says no to, as anybody without credentials, on this machine, sees it.
func TestRefuses(t *testing.T) {
	t.Parallel()
	url := start(t, console.Options{Hosts: []string{"Ops.example.com"}})
	huge := strings.Repeat("x", 2<<20)
	deep := strings.Repeat("[", 10_000) + strings.Repeat("]", 10_000)
	for _, test := range []struct {
		name, method, path, body string
		headers                  []string
		want                     int
	}{
		{"loopback name", "GET", "/healthz", "", []string{"Host: localhost:1"}, 200},
		{"loopback address", "GET", "/healthz", "", []string{"Host: [::1]"}, 200},
		{"configured name", "GET", "/healthz", "", []string{"Host: ops.example.com"}, 200},
		{"another name", "GET", "/healthz", "", []string{"Host: evil.example"}, 421},
		{"another name with a loopback one in it", "GET", "/v1/classes", "", []string{"Host: localhost.evil.example"}, 421},
		{"an address that this is not", "GET", "/v1/classes", "", []string{"Host: 192.0.2.1"}, 421},
		{"a page of another site", "POST", "/v1/jobs", "{}", []string{"Sec-Fetch-Site: cross-site"}, 403},
		{"a page of a sibling site", "POST", "/v1/jobs", "{}", []string{"Sec-Fetch-Site: same-site"}, 403},
		{"another origin", "POST", "/v1/jobs", "{}", []string{"Origin: https://evil.example"}, 403},
		{"another origin's form", "POST", "/pause", "a=b", []string{"Origin: null", "Content-Type: application/x-www-form-urlencoded"}, 403},
		{"a link of another site", "GET", "/healthz", "", []string{"Sec-Fetch-Site: cross-site"}, 200},
		{"through a proxy, without authentication", "GET", "/v1/classes", "", []string{"X-Forwarded-For: 192.0.2.1"}, 403},
		{"two megabytes", "POST", "/v1/jobs", huge, nil, 413},
		{"two megabytes for a page", "POST", "/pause", huge, []string{"Content-Type: application/x-www-form-urlencoded"}, 413},
		{"a body for the login page", "POST", "/login", huge, nil, 413},
		{"a body for a file", "POST", "/static/x", "x", nil, 413},
		{"deep JSON", "POST", "/v1/jobs", deep, []string{"Content-Type: application/json"}, 400},
		{"deep JSON that says nothing of it", "PUT", "/v1/classes/a", deep, nil, 400},
		{"deep JSON, by halves", "POST", "/v1/jobs", strings.Repeat("[", 10_000), []string{"Content-Type: application/problem+json"}, 400},
		{"dots behind what is for everybody", "GET", "/static/..%2Fv1", "", []string{"X-Forwarded-For: 192.0.2.1"}, 403},
		{"a head of 64 KiB", "GET", "/healthz", "", []string{"X-Long: " + strings.Repeat("x", 64<<10)}, 431},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			resp, body := do(t, request(t, test.method, url+test.path, test.body, test.headers...))
			if resp.StatusCode != test.want {
				t.Errorf("%s %s: %s, want %d: %.200s", test.method, test.path, resp.Status, test.want, body)
			}
			if strings.HasPrefix(test.path, "/v1/") && test.want >= 400 {
				isProblem(t, resp, body)
			}
		})
	}
}

// isProblem wants a problem document that repeats the status.
func isProblem(t *testing.T, resp reply, body string) {
	t.Helper()
	var p struct {
		Type, Title, Detail, Reason string
		Status                      int
	}
	err := json.Unmarshal([]byte(body), &p)
	if err != nil || resp.Header.Get("Content-Type") != "application/problem+json" || p.Status != resp.StatusCode ||
		p.Type != "urn:spout:problem:"+p.Reason || p.Title == "" || p.Detail == "" || p.Reason == "" {
		t.Errorf("%s is no problem document (%v): %s", body, err, resp.Header)
	}
}

// TestHeaders wants what keeps browsers from harm, on whatever is answered.
func TestHeaders(t *testing.T) {
	t.Parallel()
	url := start(t, console.Options{})
	for _, path := range []string{"/", "/v1/none", "/healthz", "/login"} {
		resp, _ := do(t, request(t, http.MethodGet, url+path, ""))
		for name, want := range map[string]string{
			"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
				"font-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'",
			"X-Content-Type-Options":     "nosniff",
			"X-Frame-Options":            "DENY",
			"Referrer-Policy":            "no-referrer",
			"Cross-Origin-Opener-Policy": "same-origin",
			"Cache-Control":              "no-store",
			"Strict-Transport-Security":  "",
		} {
			if got := resp.Header.Get(name); got != want {
				t.Errorf("GET %s: %s: %q, want %q", path, name, got, want)
			}
		}
		if resp.Header.Get("X-Request-Id") == "" {
			t.Errorf("GET %s: no request id", path)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	who := func(*http.Request) (access.Person, error) { return access.Person{}, nil }
	for name, o := range map[string]console.Options{
		"no client":  {Authenticate: who},
		"nobody":     {},
		"bad base":   {Authenticate: who, Base: "spout"},
		"long base":  {Authenticate: who, Base: "/spout/"},
		"wild host":  {Authenticate: who, Hosts: []string{"*.example.com"}},
		"empty host": {Authenticate: who, Hosts: []string{""}},
	} {
		if name != "no client" {
			o.Client = open(t)
		}
		if _, err := console.New(o); err == nil || !strings.HasPrefix(err.Error(), "console: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
