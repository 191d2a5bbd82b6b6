package tracing

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A receiver of traces that is away costs a line a minute, however many batches are lost.
func TestLossesAreToldSeldom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		lost := newLosses(slog.New(slog.NewTextHandler(&out, nil)))
		for range 130 {
			lost.Handle(errors.New("away"))
			<-time.After(time.Second) // of virtual time
		}
		if n := strings.Count(out.String(), "traces could not be sent"); n != 3 {
			t.Errorf("%d lines in 130 s, want 3:\n%s", n, out.String())
		}
		for _, want := range []string{"batches=1 error=away", "batches=60 error=away"} {
			if !strings.Contains(out.String(), want) {
				t.Errorf("no %q in\n%s", want, out.String())
			}
		}
		if err := lost.untold(); err == nil || !strings.Contains(err.Error(), "9 more batches") {
			t.Errorf("at the end %v, want the 9 that nobody was told of", err)
		}
		if err := lost.untold(); err != nil {
			t.Errorf("told twice: %v", err)
		}
	})
}
