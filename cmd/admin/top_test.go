package main

import (
	"os"
	"strings"
	"testing"

	"github.com/spout-queue/spout/internal/redistest"
)

// onWrite does something before the first write, and keeps what is written.
type onWrite struct {
	strings.Builder
	first func()
}

func (w *onWrite) Write(p []byte) (int, error) {
	if w.Len() == 0 {
		w.first()
	}
	return w.Builder.Write(p)
}

// TestTopOutlivesRedis: the table goes on when Redis is back.
func TestTopOutlivesRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	stdout := &onWrite{first: server.Kill}
	stderr := &onWrite{first: server.Restart}
	getenv := func(name string) string { return map[string]string{"SPOUT_REDIS": "redis://" + server.Addr}[name] }
	status := run(t.Context(), []string{"admin", "top", "--every", "100ms", "--rounds", "3"}, getenv, os.Stdin, stdout, stderr)
	if status != 0 || strings.Count(stdout.String(), "jobs wait") != 2 || strings.Count(stderr.String(), "redis does not answer") != 1 {
		t.Errorf("exit status %d, want two tables and one warning between them:\n%s%s", status, stdout, stderr)
	}
}

func TestCut(t *testing.T) {
	t.Parallel()
	const text = "how all classes stand, however long\nBUCKET  STATE\nä/1     open\nb/1     held until noon\nc/1     open\n"
	for _, test := range []struct {
		width, height int
		want          string
	}{
		{80, 24, text},
		{12, 24, "how all classes stand, however long\nBUCKET  STA…\nä/1     open\nb/1     hel…\nc/1     open\n"},
		{80, 5, "how all classes stand, however long\nBUCKET  STATE\nä/1     open\n"},
		{80, 1, "how all classes stand, however long\nBUCKET  STATE\nä/1     open\n"},
	} {
		if got := cut(text, test.width, test.height); got != test.want {
			t.Errorf("%d columns and %d lines: %q, want %q", test.width, test.height, got, test.want)
		}
	}
}
