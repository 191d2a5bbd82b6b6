package progress_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/spout-queue/spout/cmd/internal/progress"
)

func TestBar(t *testing.T) {
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
			b := progress.Draw(&w, test.size)
			b.Show("3 jobs, 10/s", 500)
			slog.New(b.Clearing(slog.NewTextHandler(&w, nil))).Info("a line of its own")
			b.Show("4 jobs, 10/s", 1000)
			b.Done()
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
		b := progress.New(&w, 1000)
		b.Show("2 jobs", 500)
		b.Done()
		if w.Len() > 0 {
			t.Errorf("wrote %q", w.String())
		}
	})
}
