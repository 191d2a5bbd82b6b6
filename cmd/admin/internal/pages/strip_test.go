package pages

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/cmd/admin/internal/live"
	"github.com/spout-queue/spout/queue"
)

func TestNATSInTheStrip(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		is   *live.NATS
		want []stripCell
	}{
		"none":      {nil, nil},
		"not yet":   {&live.NATS{}, []stripCell{{"strip-nats", "NATS", "asking", "", ""}}},
		"connected": {&live.NATS{Asked: true, Waiting: 12_345}, []stripCell{{"strip-nats", "NATS", "connected", "12,345 messages wait", ""}}},
		"away":      {&live.NATS{Asked: true, Err: errors.New("x")}, []stripCell{{"strip-nats", "NATS", "away", "nothing comes in by it", "bad"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var found []stripCell
			for _, cell := range newStrip(&live.Picture{At: now, NATS: c.is}, nil, now).Cells {
				if cell.Name == "NATS" {
					found = append(found, cell)
				}
			}
			if diff := cmp.Diff(c.want, found); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

// A class that is closed says so in its row, whatever closes it.
func TestClassState(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]queue.Standing{"": {}, "paused": {Paused: true, Held: true}, "held": {Held: true, Draining: true}, "draining": {Draining: true}} {
		if is := classState(live.Class{Standing: s}); is.Text != want {
			t.Errorf("%+v is %q", s, is.Text)
		}
	}
}
