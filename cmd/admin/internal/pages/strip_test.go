package pages

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/cmd/admin/internal/live"
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
