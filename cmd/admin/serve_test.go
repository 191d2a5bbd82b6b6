package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spout-queue/spout/internal/redistest"
)

// newToken makes a token with the command, and a file that it is in.
func newToken(t *testing.T, args ...string) (token, file string) {
	t.Helper()
	var stdout, stderr strings.Builder
	args = append([]string{"admin", "token", "new"}, args...)
	if status := run(t.Context(), args, os.Getenv, strings.NewReader(""), &stdout, &stderr); status != 0 {
		t.Fatalf("%v: %d: %s", args, status, &stderr)
	}
	token, entry, ok := strings.Cut(stdout.String(), "\n\n")
	if !ok || strings.Contains(entry, token) {
		t.Fatalf("it says %q", &stdout)
	}
	file = filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(file, []byte("tokens:\n"+entry), 0o600); err != nil {
		t.Fatal(err)
	}
	return token, file
}

// served runs admin serve until the test ends, and returns what it prints first.
func served(t *testing.T, args ...string) (line string) {
	t.Helper()
	server := redistest.Start(t)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	from, stdout := io.Pipe()
	var stderr strings.Builder
	ended := make(chan int, 1)
	if !slices.Contains(args, "--addr") {
		args = append(args, "--addr", "127.0.0.1:0")
	}
	args = append([]string{"admin", "serve", "--redis", server.Addr}, args...)
	go func() {
		ended <- run(ctx, args, func(string) string { return "" }, strings.NewReader(""), stdout, &stderr)
		_ = stdout.Close()
	}()
	t.Cleanup(func() {
		cancel()
		if status := <-ended; status != 0 {
			t.Errorf("%v ended with %d: %s", args, status, &stderr)
		}
	})
	line, err := bufio.NewReader(from).ReadString('\n')
	if err != nil {
		cancel()
		t.Fatalf("%v says nothing: %v", args, err)
	}
	return line
}

// address is what stands behind "serving" or in "url".
func address(t *testing.T, line string) string {
	t.Helper()
	_, rest, ok := strings.Cut(line, "http://")
	host, _, ended := strings.Cut(rest, "/")
	if !ok || !ended {
		t.Fatalf("no address in %q", line)
	}
	return "http://" + host
}

func status(t *testing.T, url, token string) int {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func TestServe(t *testing.T) {
	t.Parallel()
	t.Run("without authentication", func(t *testing.T) {
		t.Parallel()
		line := served(t)
		if !strings.HasSuffix(line, "/, for everybody on this machine, without authentication\n") {
			t.Errorf("it says %q", line)
		}
		if got := status(t, address(t, line)+"/v1/classes", ""); got != 200 {
			t.Errorf("GET /v1/classes: %d", got)
		}
	})
	t.Run("on all addresses", func(t *testing.T) {
		t.Parallel()
		token, file := newToken(t, "--name", "ann")
		line := served(t, "--tokens", file, "--addr", "0.0.0.0:0")
		if got := status(t, address(t, line)+"/v1/classes", token); got != 200 {
			t.Errorf("GET at what it says, %q: %d", line, got)
		}
	})
	t.Run("with tokens", func(t *testing.T) {
		t.Parallel()
		token, file := newToken(t, "--name", "ann")
		line := served(t, "--tokens", file, "--base", "/spout/", "-o", "json")
		if !strings.Contains(line, `"authentication":true`) {
			t.Errorf("it says %q", line)
		}
		url := address(t, line) + "/spout/v1/classes"
		if got := status(t, url, ""); got != 401 {
			t.Errorf("without a token: %d", got)
		}
		if got := status(t, url, token); got != 200 {
			t.Errorf("with a token: %d", got)
		}
	})
}

func TestServeRefuses(t *testing.T) {
	t.Parallel()
	_, tokens := newToken(t, "--name", "ann", "--role", "admin", "--class", "a,b")
	open := filepath.Join(t.TempDir(), "open.yaml")
	if err := os.WriteFile(open, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(open, 0o666); err != nil {
		t.Fatal(err)
	}
	oidc := []string{"--oidc-issuer", "https://id.example", "--oidc-client-id", "spout", "--oidc-redirect-url"}
	for name, test := range map[string]struct {
		args   []string
		status int
		says   string
	}{
		"all addresses":      {[]string{"--addr", ":0"}, 78, "give --tokens FILE"},
		"another address":    {[]string{"--addr", "0.0.0.0:0"}, 78, "without authentication everybody could do everything"},
		"no address":         {[]string{"--addr", "nowhere"}, 64, "--addr"},
		"no file":            {[]string{"--tokens", "/no/such"}, 78, "/no/such"},
		"a file for all":     {[]string{"--tokens", open}, 78, "chmod go-w"},
		"a key alone":        {[]string{"--tls-key", tokens}, 64, "without --tls-cert"},
		"a certificate":      {[]string{"--tls-cert", tokens, "--tls-key", tokens}, 64, "certificate"},
		"a network":          {[]string{"--trusted-proxy", "10.0.0.0/x"}, 64, "is no network"},
		"no issuer":          {[]string{"--oidc-client-id", "x"}, 64, "without --oidc-issuer"},
		"no group":           {append(oidc, "https://ops.example/login/callback"), 78, "no group has a role"},
		"another callback":   {append(oidc, "https://ops.example/", "--oidc-admin", "a"), 78, "must end in /login/callback"},
		"a bad base":         {[]string{"--base", "spout"}, 78, "the base"},
		"a wild host":        {[]string{"--host", "*"}, 78, "no name of a host"},
		"through another":    {[]string{"--api", "http://127.0.0.1:1"}, 64, "works on Redis itself"},
		"something else too": {[]string{"more"}, 64, "takes"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := test.args
			if name == "a bad base" || name == "a wild host" {
				args = append(args, "--redis", redistest.Start(t).Addr)
			}
			var stderr strings.Builder
			args = append([]string{"admin", "serve", "--addr", "127.0.0.1:0"}, args...)
			if strings.Contains(strings.Join(test.args, " "), "--addr") {
				args = append([]string{"admin", "serve"}, test.args...)
			}
			got := run(t.Context(), args, func(string) string { return "" }, strings.NewReader(""), io.Discard, &stderr)
			if got != test.status || !strings.Contains(stderr.String(), test.says) {
				t.Errorf("%v: %d, want %d and %q: %s", args, got, test.status, test.says, &stderr)
			}
		})
	}
}

func TestTokenRefuses(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"no name":  nil,
		"no role":  {"--name", "a", "--role", "root"},
		"bad name": {"--name", "a\nb"},
	} {
		var stdout, stderr strings.Builder
		args = append([]string{"admin", "token", "new"}, args...)
		if got := run(t.Context(), args, func(string) string { return "" }, strings.NewReader(""), &stdout, &stderr); got != 64 || stdout.Len() > 0 {
			t.Errorf("%s: %d, %s%s", name, got, &stdout, &stderr)
		}
	}
}
