package access_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/cmd/admin/access"
)

// tokensFile writes a file of tokens.
func tokensFile(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "tokens.yaml")
	write(t, name, text)
	return name
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestTokensFile(t *testing.T) {
	t.Parallel()
	token, hash := access.NewToken()
	_, other := access.NewToken()
	entry := func(name, role string, hash access.Hash) string {
		return fmt.Sprintf("- {name: %s, role: %s, hash: %q}\n", name, role, hash)
	}
	for _, test := range []struct{ name, text, want string }{
		{"good", "tokens:\n" + entry("a", "viewer", hash) + entry("b", "admin", other), ""},
		{"empty", "", "tokens.yaml:1: there is no token in it"},
		{"no list", "tokens: a\n", "tokens.yaml:1: tokens is not a list"},
		{"no YAML", "{", "tokens.yaml: line 1"},
		{"unknown field", "token:\n", `tokens.yaml:1: the file of tokens: unknown field "token"; known are tokens`},
		{"unknown field below", "tokens:\n- {name: a, rol: viewer}\n", `tokens.yaml:2: a token: unknown field "rol"`},
		{"all missing", "tokens:\n- {}\n", "tokens.yaml:2: a token has no hash"},
		{"no role", "tokens:\n" + entry("a", "root", hash), `role: "root" is none of the roles [viewer operator admin]`},
		{"no hash", "tokens:\n- {name: a, role: viewer, hash: abc}\n", "hash: it is not sha256: and 64 hexadecimal digits"},
		{"a token", "tokens:\n- {name: a, role: viewer, hash: " + token + "}\n", "it is a token, and must be its hash"},
		{"twice", "tokens:\n" + entry("a", "viewer", hash) + entry("a", "admin", other), `tokens.yaml:3: the name "a" is there twice`},
		{"same token", "tokens:\n" + entry("a", "viewer", hash) + entry("b", "admin", hash), `tokens.yaml:3: the hash of "b" is there twice`},
		{"no name", "tokens:\n" + entry(`""`, "viewer", hash), "name: a name has 1 to 128 bytes"},
		{"a name of control", "tokens:\n" + entry(`"a\nb"`, "viewer", hash), "name: a name is UTF-8 without control characters"},
		{"no classes", "tokens:\n- {name: a, role: viewer, classes: [], hash: \"" + hash.String() + "\"}\n", "classes: is empty; leave it out for all"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := access.ReadTokens(tokensFile(t, test.text), slog.New(slog.DiscardHandler))
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("got %v, want %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), token) {
				t.Errorf("the error has the token: %v", err)
			}
		})
	}
}

func TestTokensFileOfOthers(t *testing.T) {
	t.Parallel()
	_, hash := access.NewToken()
	name := tokensFile(t, fmt.Sprintf("tokens:\n- {name: a, role: viewer, hash: %q}\n", hash))
	for mode, want := range map[os.FileMode]bool{0o600: true, 0o644: true, 0o440: true, 0o664: false, 0o602: false} {
		if err := os.Chmod(name, mode); err != nil {
			t.Fatal(err)
		}
		if _, err := access.ReadTokens(name, slog.New(slog.DiscardHandler)); (err == nil) != want {
			t.Errorf("mode %o: %v", mode, err)
		}
	}
	if _, err := access.ReadTokens(t.TempDir(), slog.New(slog.DiscardHandler)); err == nil {
		t.Error("a directory is read")
	}
}

// TestTokensChange has a file that changes while it is used.
func TestTokensChange(t *testing.T) {
	t.Parallel()
	first, firstHash := access.NewToken()
	second, secondHash := access.NewToken()
	entry := func(name string, hash access.Hash) string {
		return fmt.Sprintf("- {name: %s, role: viewer, hash: %q}\n", name, hash)
	}
	name := tokensFile(t, "tokens:\n"+entry("first", firstHash))
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		tokens, err := access.ReadTokens(name, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		guard, err := access.NewGuard(access.Options{Tokens: tokens})
		if err != nil {
			t.Fatal(err)
		}
		expect := func(when string, want ...string) {
			t.Helper()
			var got []string
			for _, token := range []string{first, second} {
				if p, err := guard.Authenticate(asking(t, "192.0.2.1:1", token)); err == nil {
					got = append(got, p.Name)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: %s", when, diff)
			}
		}
		expect("at first", "first")
		write(t, name, "tokens:\n"+entry("first", firstHash)+entry("second", secondHash))
		expect("within a second", "first")
		<-time.After(2 * time.Second)
		expect("after a second", "first", "second")
		write(t, name, "tokens:\n"+entry("second", secondHash))
		<-time.After(2 * time.Second)
		expect("without the first", "second")
		write(t, name, "tokens: {}")
		<-time.After(2 * time.Second)
		expect("when it is wrong", "second")
		if said := log.String(); strings.Count(said, "is not used") != 1 || !strings.Contains(said, "tokens is not a list") {
			t.Errorf("the log says %s", said)
		}
		if err := os.Remove(name); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			<-time.After(2 * time.Second)
			expect("when it is gone", "second")
		}
		if said := log.String(); strings.Count(said, "no such file") != 1 {
			t.Errorf("the log says %s", said)
		}
		if err := tokens.Reload(); err == nil {
			t.Error("a file that is gone can be read again")
		}
	})
}

func TestHash(t *testing.T) {
	t.Parallel()
	token, hash := access.NewToken()
	if len(token) != len("spout_")+43 || access.HashOf(token) != hash {
		t.Errorf("token %q does not have the hash %v", token, hash)
	}
	if read, err := access.ParseHash(hash.String()); err != nil || read != hash {
		t.Errorf("%v is read as %v, %v", hash, read, err)
	}
}
