package console_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/spout-queue/spout/cmd/admin/access"
	"github.com/spout-queue/spout/cmd/admin/console"
)

// guarded returns a guard with one token for each role.
func guarded(t *testing.T, base string) (guard *access.Guard, tokens map[access.Role]string) {
	t.Helper()
	tokens = map[access.Role]string{}
	var file strings.Builder
	file.WriteString("tokens:\n")
	for _, role := range []access.Role{access.Viewer, access.Operator, access.Admin} {
		token, hash := access.NewToken()
		tokens[role] = token
		fmt.Fprintf(&file, "- {name: %s, role: %[1]s, hash: %q}\n", role, hash)
	}
	name := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(name, []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	people, err := access.ReadTokens(name, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	guard, err = access.NewGuard(access.Options{Tokens: people, Base: base})
	if err != nil {
		t.Fatal(err)
	}
	return guard, tokens
}

func TestStrangers(t *testing.T) {
	t.Parallel()
	guard, _ := guarded(t, "/spout")
	at := start(t, console.Options{Base: "/spout", Guard: guard})
	page := "Accept: text/html,*/*"
	for _, test := range []struct {
		method, path string
		headers      []string
		want         int
		header, has  string
	}{
		{"GET", "/v1/classes", nil, 401, "Www-Authenticate", `Bearer realm="spout"`},
		{"GET", "/v1/classes", []string{page}, 401, "Content-Type", "application/problem+json"},
		{"GET", "/docs", []string{page}, 303, "Location", "/spout/login?next=%2Fspout%2Fdocs"},
		{"GET", "/docs", nil, 401, "Content-Type", "application/problem+json"},
		{"GET", "/openapi.json", nil, 401, "Content-Type", "application/problem+json"},
		{"POST", "/v1/jobs", nil, 401, "Content-Type", "application/problem+json"},
		{"GET", "/", []string{page}, 303, "Location", "/spout/login?next=%2Fspout%2F"},
		{"GET", "/bucket?class=a&key=b", []string{page}, 303, "Location", "/spout/login?next=%2Fspout%2Fbucket%3Fclass%3Da%26key%3Db"},
		{"GET", "/live?view=overview", []string{"Accept: text/event-stream"}, 401, "Www-Authenticate", `Bearer realm="spout"`},
		{"GET", "/?part=buckets", []string{page, "HX-Request: true"}, 401, "Hx-Redirect", "/spout/login"},
		{"POST", "/bucket/pause", []string{page, "HX-Request: true", "HX-Current-URL: http://localhost/spout/bucket?class=a&key=b"}, 401, "Hx-Redirect", "/spout/login?next=%2Fspout%2Fbucket%3Fclass%3Da%26key%3Db"},
		{"POST", "/bucket/pause", []string{page, "HX-Request: true", "HX-Current-URL: https://evil.example/x"}, 401, "Hx-Redirect", "/spout/login"},
		{"POST", "/pause", []string{page}, 401, "Content-Type", "text/html; charset=utf-8"},
		{"GET", "/static/../v1/classes", nil, 401, "", ""},
		{"GET", "/login/../v1/classes", nil, 401, "", ""},
		{"GET", "/login", nil, 200, "Content-Type", "text/html; charset=utf-8"},
		{"GET", "/login/style.css", nil, 200, "Content-Type", "text/css; charset=utf-8"},
		{"GET", "/healthz", nil, 200, "", ""},
		{"GET", "/static/none", nil, 404, "", ""},
		{"GET", "", nil, 308, "Location", "/spout/"},
		{"GET", "/v1/classes", []string{"Authorization: Bearer wrong"}, 401, "", ""},
		{"GET", "/v1/classes", []string{"Authorization: Basic YTpi"}, 401, "", ""},
	} {
		resp, body := do(t, request(t, test.method, at+test.path, "", test.headers...))
		if resp.StatusCode != test.want || test.header != "" && resp.Header.Get(test.header) != test.has {
			t.Errorf("%s %s %v: %s, %s: %q; want %d, %q: %.100s", test.method, test.path, test.headers,
				resp.Status, test.header, resp.Header.Get(test.header), test.want, test.has, body)
		}
	}
	if resp, _ := do(t, request(t, http.MethodGet, strings.TrimSuffix(at, "/spout")+"/elsewhere", "")); resp.StatusCode != 404 {
		t.Errorf("outside of the base: %s", resp.Status)
	}
}

// TestLogin goes through the login page as a browser does.
func TestLogin(t *testing.T) {
	t.Parallel()
	guard, tokens := guarded(t, "/spout")
	at := start(t, console.Options{Base: "/spout", Guard: guard})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	defer browser.CloseIdleConnections()
	visit := func(method, path, form string) (where, text string) {
		t.Helper()
		r := request(t, method, at+path, form, "Accept: text/html", "Sec-Fetch-Site: same-origin", "Content-Type: application/x-www-form-urlencoded")
		resp, err := browser.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close() //nolint:errcheck // it is read
		var b bytes.Buffer
		if _, err := b.ReadFrom(resp.Body); err != nil {
			t.Fatal(err)
		}
		return resp.Request.URL.RequestURI(), b.String()
	}
	if where, text := visit("GET", "/?x=1", ""); where != "/spout/login?next=%2Fspout%2F%3Fx%3D1" || !strings.Contains(text, `value="/spout/?x=1"`) {
		t.Errorf("a stranger lands on %s: %s", where, text)
	}
	if where, text := visit("POST", "/login", "token=spout_wrong&next=/spout/"); where != "/spout/login" || !strings.Contains(text, "not right") {
		t.Errorf("a wrong token leads to %s: %s", where, text)
	}
	form := url.Values{"token": {tokens[access.Viewer]}, "next": {"/spout/?x=1"}}.Encode()
	if where, text := visit("POST", "/login", form); where != "/spout/?x=1" || !strings.Contains(text, "<small>viewer</small>") {
		t.Errorf("the right token leads to %s: %s", where, text)
	}
	if where, text := visit("GET", "/", ""); where != "/spout/" || !strings.Contains(text, `action="/spout/logout"`) {
		t.Errorf("logged in, / is %s: %s", where, text)
	}
	if where, _ := visit("POST", "/logout", ""); where != "/spout/login" {
		t.Errorf("logging out leads to %s", where)
	}
	if where, _ := visit("GET", "/", ""); !strings.HasPrefix(where, "/spout/login") {
		t.Errorf("logged out, / is %s", where)
	}
}

// lines is a log for tests.
type lines struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// TestAround is a console in somebody's own program, which says who asks, or breaks.
func TestAround(t *testing.T) {
	t.Parallel()
	log := &lines{}
	at := start(t, console.Options{
		Log: slog.New(slog.NewJSONHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Authenticate: func(r *http.Request) (access.Person, error) {
			switch r.Header.Get("X-Who") {
			case "somebody":
				return access.Person{Name: "somebody", Role: access.Viewer}, nil
			case "banned":
				return access.Person{}, fmt.Errorf("%w: not you", access.ErrDenied)
			case "trouble":
				panic("trouble with secret things")
			}
			return access.Person{}, errors.New("nobody")
		},
	})
	for who, want := range map[string]int{"somebody": 200, "banned": 403, "trouble": 500, "": 401} {
		resp, body := do(t, request(t, http.MethodGet, at+"/?token=hidden", "", "X-Who: "+who, "Accept: text/html"))
		if resp.StatusCode != want || strings.Contains(body, "secret things") || strings.Contains(body, "goroutine") {
			t.Errorf("%q: %s, want %d: %.300s", who, resp.Status, want, body)
		}
		if id := resp.Header.Get("X-Request-Id"); !strings.Contains(log.String(), id) {
			t.Errorf("%q: nothing in the log about %s", who, id)
		}
	}
	if resp, _ := do(t, request(t, http.MethodGet, at+"/login", "")); resp.StatusCode != 404 {
		t.Errorf("there is a login page, and nobody to log in with: %s", resp.Status)
	}
	if said := log.String(); !strings.Contains(said, `"panic":"trouble with secret things"`) || strings.Contains(said, "hidden") {
		t.Errorf("the log has no panic, or a query: %s", said)
	}
}

// TestSessionOfAnother is a browser that a balancer sends to a process which does not know its session, or that was started anew: it is led
// to the login page, and back.
func TestSessionOfAnother(t *testing.T) {
	t.Parallel()
	guard, tokens := guarded(t, "")
	first := start(t, console.Options{Guard: guard})
	form := url.Values{"token": {tokens[access.Viewer]}}.Encode()
	login := func(at string, headers ...string) (session string) {
		t.Helper()
		resp, _ := do(t, request(t, "POST", at+"/login", form, append(headers, "Content-Type: application/x-www-form-urlencoded")...))
		session, _, _ = strings.Cut(resp.Header.Get("Set-Cookie"), ";")
		if resp.StatusCode != 303 || session == "" {
			t.Fatalf("login: %s, %v", resp.Status, resp.Header)
		}
		return "Cookie: " + session
	}
	session := login(first)
	other, otherTokens := guarded(t, "")
	second := start(t, console.Options{Guard: other})
	page := "Accept: text/html"
	for _, test := range []struct {
		at, path     string
		headers      []string
		want         int
		header, says string
	}{
		{first, "/classes", []string{page}, 200, "", ""},
		{second, "/classes", []string{page}, 303, "Location", "/login?next=%2Fclasses"},
		{second, "/classes?part=list", []string{page, "HX-Request: true"}, 401, "Hx-Redirect", "/login"},
		{second, "/live?view=overview", []string{"Accept: text/event-stream"}, 401, "Content-Type", "text/html; charset=utf-8"},
		{second, "/v1/classes", nil, 401, "Content-Type", "application/problem+json"},
		{second, "/v1/classes", []string{"Authorization: Bearer " + otherTokens[access.Viewer]}, 200, "", ""}, // what is right counts
	} {
		resp, body := do(t, request(t, "GET", test.at+test.path, "", append(test.headers, session)...))
		if resp.StatusCode != test.want || test.header != "" && resp.Header.Get(test.header) != test.says {
			t.Errorf("GET %s: %s, %s: %q: %.200s", test.path, resp.Status, test.header, resp.Header.Get(test.header), body)
		}
	}
	form = url.Values{"token": {otherTokens[access.Viewer]}}.Encode()
	if resp, _ := do(t, request(t, "GET", second+"/classes", "", page, login(second, session))); resp.StatusCode != 200 {
		t.Errorf("logged in there: %s", resp.Status)
	}
}
