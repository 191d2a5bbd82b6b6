package access_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/cmd/admin/access"
)

// issuer is a small identity provider: it lets in whomever it is told to, and checks what a client must send.
type issuer struct {
	*httptest.Server
	key *rsa.PrivateKey

	claims    map[string]any // of the next ID token, besides the usual ones
	nonce     string         // of the last login
	challenge string
}

const clientSecret = "a secret of the client"

func startIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	i := &issuer{key: key}
	mux := http.NewServeMux()
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	say := func(w http.ResponseWriter, v any) {
		w.Header().Set("Content-Type", "application/json")
		if err := json.NewEncoder(w).Encode(v); err != nil {
			t.Error(err)
		}
	}
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		say(w, map[string]any{
			"issuer": i.URL, "authorization_endpoint": i.URL + "/authorize", "token_endpoint": i.URL + "/token", "jwks_uri": i.URL + "/keys",
			"id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		say(w, map[string]any{"keys": []any{map[string]any{
			"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1", "n": part(key.N.Bytes()), "e": part(big.NewInt(int64(key.E)).Bytes()),
		}}})
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		verifier := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		_, secret, _ := r.BasicAuth()
		if r.PostFormValue("code") != "the-code" || part(verifier[:]) != i.challenge || secret != url.QueryEscape(clientSecret) {
			w.WriteHeader(http.StatusBadRequest)
			say(w, map[string]any{"error": "invalid_grant"})
			return
		}
		say(w, map[string]any{"access_token": "x", "token_type": "Bearer", "expires_in": 60, "id_token": i.idToken(t)})
	})
	return i
}

func part(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }

// idToken is signed with the issuer's key, or with another one when the claims say "forged".
func (i *issuer) idToken(t *testing.T) string {
	t.Helper()
	claims := map[string]any{
		"iss": i.URL, "aud": "spout", "sub": "subject-1", "nonce": i.nonce, "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(),
	}
	maps.Copy(claims, i.claims)
	key := i.key
	if claims["forged"] == true {
		var err error
		if key, err = rsa.GenerateKey(rand.Reader, 2048); err != nil {
			t.Error(err)
		}
	}
	body, err := json.Marshal(claims)
	if err != nil {
		t.Error(err)
	}
	signed := part([]byte(`{"alg":"RS256","kid":"1"}`)) + "." + part(body)
	sum := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, key, crypto.SHA256, sum[:])
	if err != nil {
		t.Error(err)
	}
	return signed + "." + part(signature)
}

// begin goes to the identity provider as a browser would, and returns the cookie and what it is to come back with.
func (i *issuer) begin(t *testing.T, guard *access.Guard) (cookie *http.Cookie, state string) {
	t.Helper()
	resp := page(t, guard, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://ops.example/login/oidc?next=/classes", nil))
	to, err := url.Parse(resp.location)
	if err != nil || resp.status != http.StatusSeeOther || !strings.HasPrefix(to.String(), i.URL+"/authorize?") || len(resp.cookies) != 1 {
		t.Fatalf("to the identity provider: %v", resp)
	}
	q := to.Query()
	if q.Get("client_id") != "spout" || q.Get("response_type") != "code" || q.Get("redirect_uri") != "https://ops.example/login/callback" ||
		q.Get("code_challenge_method") != "S256" || !strings.Contains(q.Get("scope"), "openid") {
		t.Errorf("it is asked for %v", q)
	}
	i.nonce, i.challenge = q.Get("nonce"), q.Get("code_challenge")
	if cookie = resp.cookies[0]; !cookie.HttpOnly || !cookie.Secure {
		t.Errorf("cookie %v", cookie)
	}
	return cookie, q.Get("state")
}

func back(t *testing.T, query url.Values) *http.Request {
	t.Helper()
	return httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://ops.example/login/callback?"+query.Encode(), nil)
}

func newProvider(t *testing.T, i *issuer, claim string, change ...func(*access.OIDC)) *access.Guard {
	t.Helper()
	o := &access.OIDC{
		Issuer: i.URL, ClientID: "spout", ClientSecret: clientSecret, RedirectURL: "https://ops.example/login/callback", RoleClaim: claim,
		Admins: []string{"admins"}, Operators: []string{"on-call"}, Viewers: []string{"staff", "guests"},
	}
	for _, c := range change {
		c(o)
	}
	guard, err := access.NewGuard(access.Options{OIDC: o})
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

func TestOIDC(t *testing.T) {
	t.Parallel()
	i := startIssuer(t)
	groups := func(names ...any) map[string]any { return map[string]any{"groups": names} }
	for _, test := range []struct {
		name, claim string
		claims      map[string]any
		want        access.Person
		status      int
	}{
		{"viewer", "", groups("guests"), access.Person{Name: "subject-1", Role: access.Viewer}, 303},
		{"the highest role", "", groups("staff", "on-call", "admins"), access.Person{Name: "subject-1", Role: access.Admin}, 303},
		{"operator by one text", "role", map[string]any{"role": "on-call"}, access.Person{Name: "subject-1", Role: access.Operator}, 303},
		{
			"inside an object", "realm_access.roles",
			map[string]any{"realm_access": map[string]any{"roles": []any{"admins"}}},
			access.Person{Name: "subject-1", Role: access.Admin},
			303,
		},
		{
			"a claim with dots", "https://ops.example/roles",
			map[string]any{"https://ops.example/roles": []any{"staff"}},
			access.Person{Name: "subject-1", Role: access.Viewer},
			303,
		},
		{
			"a verified address", "",
			map[string]any{"groups": "staff", "email": "ann@ops.example", "email_verified": true},
			access.Person{Name: "ann@ops.example", Role: access.Viewer},
			303,
		},
		{
			"an address that anybody could claim", "",
			map[string]any{"groups": "staff", "email": "ann@ops.example"},
			access.Person{Name: "subject-1", Role: access.Viewer},
			303,
		},
		{"no group", "", nil, access.Person{}, 403},
		{"other groups", "", groups("others", 7, nil), access.Person{}, 403},
		{"forged", "", map[string]any{"groups": "admins", "forged": true}, access.Person{}, 502},
		{"for another client", "", map[string]any{"groups": "admins", "aud": "other"}, access.Person{}, 502},
		{"of another issuer", "", map[string]any{"groups": "admins", "iss": "https://evil.example"}, access.Person{}, 502},
		{"too old", "", map[string]any{"groups": "admins", "exp": 1}, access.Person{}, 502},
		{"of another login", "", map[string]any{"groups": "admins", "nonce": "other"}, access.Person{}, 502},
	} {
		t.Run(test.name, func(t *testing.T) { // one after the other: they share the issuer
			guard := newProvider(t, i, test.claim)
			cookie, state := i.begin(t, guard)
			i.claims = test.claims
			resp := page(t, guard, back(t, url.Values{"state": {state}, "code": {"the-code"}}), cookie)
			if resp.status != test.status {
				t.Fatalf("%d, want %d", resp.status, test.status)
			}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://ops.example/", nil)
			for _, c := range resp.cookies {
				r.AddCookie(c)
			}
			person, err := guard.Authenticate(r)
			if diff := cmp.Diff(test.want, person); diff != "" || (err == nil) != (test.status == 303) {
				t.Errorf("%v: %s", err, diff)
			}
			if test.status == 303 && resp.location != "/classes" {
				t.Errorf("it leads to %s", resp.location)
			}
		})
	}
}

// TestOIDCClasses: with a claim for them, people know of the classes in it, and of none without.
func TestOIDCClasses(t *testing.T) {
	t.Parallel()
	i := startIssuer(t)
	person := func(classes any) access.Person {
		p := access.Person{Name: "subject-1", Role: access.Operator}
		if list, ok := classes.([]string); ok {
			p.Classes = list
		}
		return p
	}
	for name, test := range map[string]struct {
		claim, inside any
		want          access.Person
		status        int
	}{
		"some":               {[]any{"mail", "sms"}, nil, person([]string{"mail", "sms"}), 303},
		"one text":           {"mail", nil, person([]string{"mail"}), 303},
		"all":                {[]any{"mail", "*"}, nil, person(nil), 303},
		"none":               {nil, nil, access.Person{}, 403},
		"an empty list":      {[]any{}, nil, access.Person{}, 403},
		"an empty text":      {"", nil, access.Person{}, 403},
		"what are no texts":  {[]any{1, nil, map[string]any{}}, nil, access.Person{}, 403},
		"in an object":       {nil, map[string]any{"classes": []any{"mail"}}, person([]string{"mail"}), 303},
		"an object of other": {nil, map[string]any{"others": []any{"mail"}}, access.Person{}, 403},
	} {
		claim := "spout_classes"
		if test.inside != nil {
			claim = "spout.classes"
		}
		guard := newProvider(t, i, "", func(o *access.OIDC) { o.ClassesClaim = claim })
		cookie, state := i.begin(t, guard)
		i.claims = map[string]any{"groups": "on-call", "spout_classes": test.claim, "spout": test.inside}
		resp := page(t, guard, back(t, url.Values{"state": {state}, "code": {"the-code"}}), cookie)
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://ops.example/", nil)
		for _, c := range resp.cookies {
			r.AddCookie(c)
		}
		got, err := guard.Authenticate(r)
		if diff := cmp.Diff(test.want, got); diff != "" || resp.status != test.status || (err == nil) != (test.status == 303) {
			t.Errorf("%s: %d, %v: %s", name, resp.status, err, diff)
		}
	}
}

// TestOIDCOthers is a browser that comes back with what is not its own.
func TestOIDCOthers(t *testing.T) {
	t.Parallel()
	i := startIssuer(t)
	i.claims = map[string]any{"groups": "admins"}
	guard := newProvider(t, i, "")
	cookie, state := i.begin(t, guard)
	right := url.Values{"state": {state}, "code": {"the-code"}}
	for name, test := range map[string]struct {
		query   url.Values
		cookies []*http.Cookie
		want    int
	}{
		"no cookie":     {right, nil, 401},
		"another state": {url.Values{"state": {"x"}, "code": {"the-code"}}, []*http.Cookie{cookie}, 401},
		"no state":      {url.Values{"code": {"the-code"}}, []*http.Cookie{cookie}, 401},
		"no code":       {url.Values{"state": {state}, "error": {"access_denied"}}, []*http.Cookie{cookie}, 401},
		"empty cookie":  {url.Values{"state": {""}, "code": {"the-code"}}, []*http.Cookie{{Name: cookie.Name, Value: "..."}}, 401},
		"another code":  {url.Values{"state": {state}, "code": {"x"}}, []*http.Cookie{cookie}, 502},
	} {
		resp := page(t, guard, back(t, test.query), test.cookies...)
		if resp.status != test.want {
			t.Errorf("%s: %d, want %d", name, resp.status, test.want)
		}
		for _, c := range resp.cookies {
			if strings.Contains(c.Name, "session") {
				t.Errorf("%s: a session begins", name)
			}
		}
	}
}

// TestOIDCAway has an identity provider that cannot be reached at first.
func TestOIDCAway(t *testing.T) {
	t.Parallel()
	i := startIssuer(t)
	guard := newProvider(t, i, "")
	handler := i.Config.Handler
	i.Config.Handler = http.NotFoundHandler()
	resp := page(t, guard, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "https://ops.example/login/oidc", nil))
	if resp.status != http.StatusBadGateway {
		t.Errorf("away: %d", resp.status)
	}
	i.Config.Handler = handler
	i.begin(t, guard)
	if _, err := guard.Authenticate(asking(t, "192.0.2.1:1", "a token, where there are none")); !errors.Is(err, access.ErrWrong) {
		t.Errorf("a token: %v", err)
	}
}
