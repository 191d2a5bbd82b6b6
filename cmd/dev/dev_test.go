package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// The demo is the first thing a newcomer sees: the burst must be smoothed, and the naive calls must not be.
func TestBurstIsSmoothed(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-once"}, &out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		"Nothing here survives its exit",
		"Without Spout: 60 calls at once, 12 done, 48 answered 429",
		"15 admitted, 5 rejected: bucket full",
		"60 calls done in ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the demo does not say %q:\n%s", want, text)
		}
	}
}

// The dashboard is there as soon as its address is printed, and only on this machine.
func TestDashboard(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	lines, out := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		ended <- run(ctx, nil, out)
		_ = out.Close()
	}()
	said := make([]byte, 0, 4096)
	url := regexp.MustCompile(`dashboard (http://\S+)`)
	for buffer := make([]byte, 512); url.FindSubmatch(said) == nil; {
		n, err := lines.Read(buffer)
		if err != nil {
			t.Fatalf("no dashboard is told of: %v\n%s", err, said)
		}
		said = append(said, buffer[:n]...)
	}
	go func() { _, _ = io.Copy(io.Discard, lines) }()
	at := string(url.FindSubmatch(said)[1])
	for _, path := range []string{"", "docs", "v1/classes/demo"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, at+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(res.Body)
		if _ = res.Body.Close(); err != nil || res.StatusCode != http.StatusOK {
			t.Errorf("%s%s: %s %v\n%.500s", at, path, res.Status, err, body)
		}
		if path == "" && !bytes.Contains(body, []byte(`id="strip-nats"`)) {
			t.Error("the overview does not tell of NATS")
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestDashboardIsForThisMachine(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-addr", "0.0.0.0:0"}, &out); err == nil || !strings.Contains(err.Error(), "not on this machine alone") {
		t.Errorf("the dashboard is open to all: %v", err)
	}
}
