package access_test

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/cmd/admin/access"
)

// asking is a request from an address with a token, empty for none.
func asking(t *testing.T, from, token string) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/classes", nil)
	r.RemoteAddr = from
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	return r
}

// withToken returns a guard with one token.
func withToken(t *testing.T, o access.Options) (guard *access.Guard, token string) {
	t.Helper()
	token, hash := access.NewToken()
	var err error
	o.Tokens, err = access.ReadTokens(
		tokensFile(t, fmt.Sprintf("tokens:\n- {name: ann, role: operator, classes: [a, b], hash: %q}\n", hash)), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	guard, err = access.NewGuard(o)
	if err != nil {
		t.Fatal(err)
	}
	return guard, token
}

func TestBearer(t *testing.T) {
	t.Parallel()
	guard, token := withToken(t, access.Options{})
	ann := access.Person{Name: "ann", Role: access.Operator, Classes: []string{"a", "b"}}
	for name, test := range map[string]struct {
		header []string
		want   error
	}{
		"right":       {[]string{"Bearer " + token}, nil},
		"lower case":  {[]string{"bearer " + token}, nil},
		"none":        {nil, access.ErrAnonymous},
		"empty":       {[]string{""}, access.ErrWrong},
		"no token":    {[]string{"Bearer"}, access.ErrWrong},
		"wrong":       {[]string{"Bearer " + token + "x"}, access.ErrWrong},
		"half":        {[]string{"Bearer " + token[:20]}, access.ErrWrong},
		"another way": {[]string{"Basic " + token}, access.ErrWrong},
		"the hash":    {[]string{"Bearer " + access.HashOf(token).String()}, access.ErrWrong},
		"twice":       {[]string{"Bearer " + token, "Bearer " + token}, access.ErrWrong},
		"right, late": {[]string{"Bearer wrong", "Bearer " + token}, access.ErrWrong},
	} {
		r := asking(t, "192.0.2.1:1", "")
		r.Header["Authorization"] = test.header
		person, err := guard.Authenticate(r)
		if !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
		if test.want == nil {
			if diff := cmp.Diff(ann, person); diff != "" {
				t.Errorf("%s: %s", name, diff)
			}
		} else if person.Name != "" || person.Role != "" {
			t.Errorf("%s: it is %v", name, person)
		}
	}
}

func TestLocal(t *testing.T) {
	t.Parallel()
	guard, err := access.NewGuard(access.Options{Local: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		from, header string
		want         error
	}{
		{"127.0.0.1:1", "", nil},
		{"[::1]:1", "", nil},
		{"[::ffff:127.0.0.1]:1", "", nil},
		{"192.0.2.1:1", "", access.ErrNotLocal},
		{"127.0.0.1:1", "X-Forwarded-For", access.ErrNotLocal},
		{"127.0.0.1:1", "Forwarded", access.ErrNotLocal},
		{"", "", access.ErrNotLocal},
	} {
		r := asking(t, test.from, "")
		if test.header != "" {
			r.Header.Set(test.header, "127.0.0.1")
		}
		person, err := guard.Authenticate(r)
		if !errors.Is(err, test.want) || (err == nil) != (person.Role == access.Admin) {
			t.Errorf("from %q with %q: %v, %v, want %v", test.from, test.header, person, err, test.want)
		}
	}
}

// TestGuesses tries tokens out: a few are heard, and right ones always are.
func TestGuesses(t *testing.T) {
	t.Parallel()
	proxy := netip.MustParsePrefix("10.0.0.0/8")
	synctest.Test(t, func(t *testing.T) {
		guard, token := withToken(t, access.Options{Trusted: []netip.Prefix{proxy}})
		guess := func(from string) error {
			_, err := guard.Authenticate(asking(t, from, "wrong"))
			return err
		}
		for i := range 10 {
			if err := guess("192.0.2.1:1"); !errors.Is(err, access.ErrWrong) {
				t.Fatalf("guess %d: %v", i+1, err)
			}
		}
		many, ok := errors.AsType[*access.TooManyError](guess("192.0.2.1:2"))
		if !ok || many.RetryAfter != 6*time.Second {
			t.Fatalf("guess 11: %v", many)
		}
		if _, err := guard.Authenticate(asking(t, "192.0.2.1:1", token)); err != nil {
			t.Errorf("the right token is hindered by wrong ones: %v", err)
		}
		if err := guess("192.0.2.2:1"); !errors.Is(err, access.ErrWrong) {
			t.Errorf("another address pays for the first: %v", err)
		}
		<-time.After(many.RetryAfter)
		if err := guess("192.0.2.1:1"); !errors.Is(err, access.ErrWrong) {
			t.Errorf("after the time that was told: %v", err)
		}
		behind := asking(t, "10.1.1.1:1", "wrong")
		behind.Header.Set("X-Forwarded-For", "192.0.2.1")
		if _, err := guard.Authenticate(behind); errors.Is(err, access.ErrWrong) {
			t.Error("behind the proxy, the address counts anew")
		}
		refused := 0
		for i := range 600 {
			if err := guess(fmt.Sprintf("198.51.%d.%d:1", i/200, i%200)); !errors.Is(err, access.ErrWrong) {
				refused++
			}
		}
		if refused < 250 || refused > 350 {
			t.Errorf("of 600 addresses that guess once, %d were refused; want some 300", refused)
		}
	})
}

// reply is what of a page the tests look at.
type reply struct {
	status   int
	location string
	cookies  []*http.Cookie
}

// page asks one of the login pages, as a browser with a cookie.
func page(t *testing.T, guard *access.Guard, r *http.Request, cookies ...*http.Cookie) reply {
	t.Helper()
	for _, c := range cookies {
		r.AddCookie(c)
	}
	w := httptest.NewRecorder()
	guard.Handler().ServeHTTP(w, r)
	answer := reply{w.Code, w.Header().Get("Location"), nil}
	for _, line := range w.Header().Values("Set-Cookie") {
		cookie, err := http.ParseSetCookie(line)
		if err != nil {
			t.Error(err)
		}
		answer.cookies = append(answer.cookies, cookie)
	}
	return answer
}

func form(t *testing.T, target string, values url.Values) *http.Request {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, target, strings.NewReader(values.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return r
}

func TestSession(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		guard, token := withToken(t, access.Options{Base: "/spout"})
		for _, scheme := range []string{"http", "https"} {
			resp := page(t, guard, form(t, scheme+"://localhost/spout/login", url.Values{"token": {" " + token + "\n"}, "next": {"/spout/class?name=a"}}))
			if resp.status != http.StatusSeeOther || resp.location != "/spout/class?name=a" || len(resp.cookies) != 1 {
				t.Fatalf("login: %v", resp)
			}
			cookie := resp.cookies[0]
			secure := scheme == "https"
			want := map[bool]string{false: "spout-session", true: "__Host-spout-session"}[secure]
			if cookie.Name != want || cookie.Secure != secure || !cookie.HttpOnly || cookie.SameSite != http.SameSiteLaxMode || cookie.Path != "/" || cookie.Domain != "" {
				t.Errorf("cookie %v", cookie)
			}
			visit := func() error {
				r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, scheme+"://localhost/spout/", nil)
				r.AddCookie(cookie)
				p, err := guard.Authenticate(r)
				if err == nil && p.Name != "ann" {
					t.Errorf("it is %v", p)
				}
				return err
			}
			if err := visit(); err != nil {
				t.Errorf("logged in: %v", err)
			}
			<-time.After(12*time.Hour + time.Second)
			if err := visit(); !errors.Is(err, access.ErrAnonymous) {
				t.Errorf("after 12 h: %v", err)
			}
		}
	})
}

func TestLogout(t *testing.T) {
	t.Parallel()
	guard, token := withToken(t, access.Options{})
	cookie := page(t, guard, form(t, "http://localhost/login", url.Values{"token": {token}})).cookies[0]
	visit := func() error {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", nil)
		r.AddCookie(cookie)
		_, err := guard.Authenticate(r)
		return err
	}
	if err := visit(); err != nil {
		t.Fatal(err)
	}
	resp := page(t, guard, form(t, "http://localhost/logout", nil), cookie)
	if resp.status != http.StatusSeeOther || resp.cookies[0].MaxAge != -1 {
		t.Errorf("logout: %v", resp)
	}
	if err := visit(); !errors.Is(err, access.ErrAnonymous) {
		t.Errorf("with the cookie of a session that was ended: %v", err)
	}
}

// TestNext wants nobody led elsewhere by the login page.
// TestLogoutEverywhere ends the sessions of one person in all browsers, and those of no other.
func TestLogoutEverywhere(t *testing.T) {
	t.Parallel()
	token, hash := access.NewToken()
	other, otherHash := access.NewToken()
	people, err := access.ReadTokens(tokensFile(t, fmt.Sprintf("tokens:\n- {name: ann, role: operator, hash: %q}\n- {name: bob, role: viewer, hash: %q}\n",
		hash, otherHash)), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	guard, err := access.NewGuard(access.Options{Tokens: people})
	if err != nil {
		t.Fatal(err)
	}
	login := func(token string) *http.Cookie {
		return page(t, guard, form(t, "https://ops.example/login", url.Values{"token": {token}})).cookies[0]
	}
	knows := func(c *http.Cookie) bool {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://ops.example/", nil)
		r.AddCookie(c)
		_, err := guard.Authenticate(r)
		return err == nil
	}
	first, second, third, bob := login(token), login(token), login(token), login(other)
	page(t, guard, form(t, "https://ops.example/logout", nil), third)
	if knows(third) || !knows(first) || !knows(second) {
		t.Error("to log out ends that session, and no other")
	}
	page(t, guard, form(t, "https://ops.example/logout", url.Values{"everywhere": {"yes"}}), &http.Cookie{Name: first.Name, Value: "nonsense"})
	if !knows(first) || !knows(bob) {
		t.Error("nobody's cookie ended sessions")
	}
	page(t, guard, form(t, "https://ops.example/logout", url.Values{"everywhere": {"yes"}}), first)
	if knows(first) || knows(second) || !knows(bob) {
		t.Errorf("everywhere: %t %t, another person %t", knows(first), knows(second), knows(bob))
	}
}

func TestNext(t *testing.T) {
	t.Parallel()
	guard, token := withToken(t, access.Options{Base: "/spout"})
	for next, want := range map[string]string{
		"":                                    "/spout/",
		"/spout/bucket?class=a&key=%2F":       "/spout/bucket?class=a&key=%2F",
		"https://evil.example/":               "/spout/",
		"//evil.example/spout/":               "/spout/",
		"/\\evil.example":                     "/spout/",
		"/spout/\\evil":                       "/spout/",
		"/spout\\..\\evil":                    "/spout/",
		"/other":                              "/spout/",
		"/spout/login":                        "/spout/",
		"/spout/\nLocation: x":                "/spout/",
		"javascript:alert(1)":                 "/spout/",
		"/spout/../..//evil.example":          "/spout/",
		"/spout/%2e%2e/other":                 "/spout/",
		"/spout/./login":                      "/spout/",
		"/spout/%zz":                          "/spout/",
		"/spout/a/../bucket?class=a":          "/spout/bucket?class=a",
		"/spout/" + strings.Repeat("x", 3000): "/spout/",
	} {
		resp := page(t, guard, form(t, "http://localhost/spout/login", url.Values{"token": {token}, "next": {next}}))
		if got := resp.location; got != want {
			t.Errorf("next %.40q leads to %q, want %q", next, got, want)
		}
	}
}

func TestGuardOptions(t *testing.T) {
	t.Parallel()
	provider := access.OIDC{Issuer: "https://id.example", ClientID: "spout", RedirectURL: "https://ops.example/login/callback", Admins: []string{"a"}}
	with := func(change func(*access.OIDC)) access.Options {
		changed := provider
		change(&changed)
		return access.Options{OIDC: &changed}
	}
	for name, test := range map[string]struct {
		o    access.Options
		good bool
	}{
		"nobody":          {access.Options{}, false},
		"both":            {access.Options{Local: true, OIDC: &provider}, false},
		"provider":        {access.Options{OIDC: &provider}, true},
		"plain issuer":    {with(func(o *access.OIDC) { o.Issuer = "http://id.example" }), false},
		"loopback issuer": {with(func(o *access.OIDC) { o.Issuer = "http://127.0.0.1:1" }), true},
		"plain redirect":  {with(func(o *access.OIDC) { o.RedirectURL = "http://ops.example/login/callback" }), false},
		"other redirect":  {with(func(o *access.OIDC) { o.RedirectURL = "https://ops.example/" }), false},
		"no client":       {with(func(o *access.OIDC) { o.ClientID = "" }), false},
		"no group":        {with(func(o *access.OIDC) { o.Admins = nil }), false},
	} {
		if _, err := access.NewGuard(test.o); (err == nil) != test.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
