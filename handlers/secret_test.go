package handlers_test

import (
	"encoding/base64"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/handlers"
)

// canary is a secret that must not be found anywhere.
const canary = `ca"na/ry<&>+ \0é` // with all that somebody could escape

func TestSecretsAreFound(t *testing.T) {
	t.Parallel()
	first, second := t.TempDir(), t.TempDir()
	for path, value := range map[string]string{
		filepath.Join(first, "in-both"): "from the first\n", filepath.Join(second, "in-both"): "from the second",
		filepath.Join(second, "lines"): "lines\r\n", filepath.Join(first, "in-env"): "from a file", filepath.Join(first, "tiny"): "abc",
		filepath.Join(first, "huge"): strings.Repeat("x", 8<<10+1), filepath.Join(first, "empty"): "",
	} {
		if err := os.WriteFile(path, []byte(value), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(first, "directory"), 0o700); err != nil {
		t.Fatal(err)
	}
	secrets := handlers.Secrets{Dirs: []string{"", first, filepath.Join(first, "missing"), second}, Getenv: func(name string) string {
		return map[string]string{"SPOUT_SECRET_IN_ENV": "from the environment", "SPOUT_SECRET_A_B_C": "dashes"}[name]
	}}
	for name, want := range map[string]string{
		"in-env": "from the environment", "a-b_c": "dashes", "in-both": "from the first", "lines": "lines",
	} {
		if got, err := secrets.Lookup(name); got != want || err != nil {
			t.Errorf("%s: %q, %v; want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]string{
		"none": "set SPOUT_SECRET_NONE, or put a file none into its --secrets-dir", "empty": "is not on this worker",
		"tiny": "has 3 bytes, not between 4 and 8192", "huge": "has 8193 bytes", "directory": "is a directory",
		"": "the name is not", "../in-both": "the name is not", "In-Env": "the name is not", "a.b": "the name is not",
	} {
		value, err := secrets.Lookup(name)
		if value != "" || err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), first) {
			t.Errorf("%s: %q, %v; want %q and no path in it", name, value, err, want)
		}
	}
	if _, err := (handlers.Secrets{}).Lookup("a"); err == nil {
		t.Error("the zero value has a secret")
	}
}

func TestSecretsGoWhereTheClassSays(t *testing.T) {
	t.Parallel()
	var got string
	srv := newService(t, func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") })
	h := newCall(t, handlers.HTTPOptions{Secrets: handlers.Secrets{Getenv: func(name string) string {
		return map[string]string{"SPOUT_SECRET_TOKEN": "abcdef", "SPOUT_SECRET_USER": "{{secret:token}}", "SPOUT_SECRET_BAD": "ab\ncd"}[name]
	}}})
	const port, open = `"allow_private":true,"hosts":["127.0.0.1"],`, `"schemes":["http"],"secrets":["token","user","bad","none"]`
	for name, test := range map[string]struct {
		value, settings string
		want, fails     string
		permanent       bool
	}{
		"listed":             {"Bearer {{secret:token}}", port + open, "Bearer abcdef", "", false},
		"twice":              {"{{secret:token}}:{{secret:token}}", port + open, "abcdef:abcdef", "", false},
		"not once more":      {"{{secret:user}}", port + open, "{{secret:token}}", "", false},
		"not listed":         {"{{secret:token}}", port + `"schemes":["http"]`, "", `secret "token" refused: it is not in http: {secrets: [...]}`, true},
		"without hosts":      {"{{secret:token}}", `"allow_private":true,` + open, "", `secret "token" refused`, true},
		"not over http":      {"{{secret:token}}", port + `"secrets":["token"]`, "", "a secret is not sent over http", true},
		"not on this worker": {"{{secret:none}}", port + open, "", `secret "none" is not on this worker`, false},
		"no header value":    {"{{secret:bad}}", port + open, "", `secret "bad" has a control character`, false},
	} {
		got = ""
		err := h.ProcessTask(t.Context(), taskIn(t, object{"url": srv.URL + "/", "headers": object{"Authorization": test.value}}, `{`+test.settings+`}`))
		if got != test.want || (err != nil) != (test.fails != "") || err != nil && !strings.Contains(err.Error(), test.fails) || errors.Is(err, asynq.SkipRetry) != test.permanent {
			t.Errorf("%s: sent %q, %v; want %q, %q", name, got, err, test.want, test.fails)
		}
	}
	for _, value := range []string{"{{secret:Token}}", "{{secret:}}", "{{secret:a", "{{secret:../a}}", "{{secret: a}}", strings.Repeat("{{secret:a}}", 17)} {
		payload := fmt.Sprintf(`{"url":"http://a.example","headers":{"a":%q}}`, value)
		if err := handlers.CheckCall([]byte(payload)); err == nil || !strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v, want it refused", value, err)
		}
	}
}

// forms are what a service may make of a secret that it echoes.
func forms(secret string) []string {
	return []string{
		secret, strconv.Quote(secret), url.QueryEscape(secret), url.PathEscape(secret), (&url.URL{Path: "/" + secret}).EscapedPath()[1:], html.EscapeString(secret),
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.URLEncoding.EncodeToString([]byte(secret)), `"` + strings.ReplaceAll(strings.ReplaceAll(secret, `\`, `\\`), `"`, `\"`) + `"`,
	}
}

// TestEchoedSecretsAreMasked: a service may send back what it got, anywhere in its answer; neither the result nor an error
// keeps it, not even a piece of some length that was cut off.
func TestEchoedSecretsAreMasked(t *testing.T) {
	t.Parallel()
	echo := strings.Join(forms(canary), " | ")
	for name, answer := range map[string]http.HandlerFunc{
		"body":  func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, echo) },
		"error": func(w http.ResponseWriter, _ *http.Request) { http.Error(w, echo, http.StatusTeapot) },
		"header": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Echo", url.QueryEscape(canary)+" "+base64.StdEncoding.EncodeToString([]byte(canary)))
		},
		"location": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://"+url.PathEscape(canary)+".example/")
			w.WriteHeader(http.StatusFound)
		},
		"redirect": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/" {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Location", "/at/"+(&url.URL{Path: "/" + canary}).EscapedPath()+"/"+url.PathEscape(canary))
			w.WriteHeader(http.StatusFound)
		},
		"redirect that is refused": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://b.example/"+url.PathEscape(canary))
			w.WriteHeader(http.StatusFound)
		},
		"broken": func(w http.ResponseWriter, _ *http.Request) { hijack(t, w, "HTTP/1.1 200 OK\r\n"+canary+"\r\n\r\n") },
		"at the end of what is kept": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("x", 40<<10-len(canary)/2)+canary+strings.Repeat("x", 1<<10))
		},
		"at the end of what an error shows": func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, strings.Repeat("x", 256-len(canary)/2)+canary+strings.Repeat("y", 1<<10), http.StatusTeapot)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newService(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("X-Key") != canary {
					t.Errorf("the service got %q", r.Header.Get("X-Key"))
				}
				answer(w, r)
			})
			h := newCall(t, handlers.HTTPOptions{Secrets: handlers.Secrets{Getenv: func(string) string { return canary }}})
			result, err := resultOf(t, h, taskIn(t, object{"url": srv.URL + "/", "headers": object{"X-Key": "{{secret:key}}"}},
				`{"allow_private":true,"hosts":["127.0.0.1"],"schemes":["http"],"secrets":["key"],"redirects":1}`))
			text := fmt.Sprint(err) + string(result)
			for _, form := range append(forms(canary), canary[:len(canary)/2]) {
				if strings.Contains(text, form) {
					t.Errorf("%q is in %.2000s", form, text)
				}
			}
		})
	}
}
