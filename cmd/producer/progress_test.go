package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/spout-queue/spout/cmd/producer/internal/bulk"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		size int64
		want []string
	}{
		"of a file": {1000, []string{"3 jobs, ", "/s", "0%", "[0s:"}},
		"of a pipe": {-1, []string{"3 jobs, ", "/s"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var w strings.Builder
			p := newProgress(&w, true, test.size)
			p.show(bulk.Summary{Admitted: 2, Bad: 1, Bytes: 500})
			slog.New(p.clearing(slog.NewTextHandler(&w, nil))).Info("a line of its own")
			p.show(bulk.Summary{Admitted: 3, Bad: 1, Bytes: 1000})
			p.done()
			for _, want := range test.want {
				if !strings.Contains(w.String(), want) {
					t.Errorf("%q has no %q", w.String(), want)
				}
			}
			if !strings.Contains(w.String(), "\rtime=") {
				t.Errorf("the log does not begin a line: %q", w.String())
			}
		})
	}
	t.Run("nobody looks", func(t *testing.T) {
		t.Parallel()
		var w strings.Builder
		p := newProgress(&w, false, 1000)
		p.show(bulk.Summary{Admitted: 2, Bytes: 500})
		p.done()
		if w.Len() > 0 {
			t.Errorf("wrote %q", w.String())
		}
	})
}
