package bridge_test

import (
	"encoding/json"
	"testing"

	"github.com/spout-queue/spout/cmd/internal/jobline/doors"
	"github.com/spout-queue/spout/queue"
)

// Every door answers a job line with the same word: the table is that of the other doors' tests, too.
func TestDoors(t *testing.T) {
	t.Parallel()
	calls := class("calls", 2)
	calls.MaxPayload = 1 << 10
	s := newSite(t, calls)
	s.bridge()
	s.answering()
	for _, test := range doors.Lines(t) {
		reply := s.ask("submit.calls", test.Line)
		var said struct{ Reason queue.Reason }
		if err := json.Unmarshal(reply.Data, &said); err != nil || said.Reason != test.Reason {
			t.Errorf("%s: %s, want reason %q", test.Name, reply.Data, test.Reason)
		}
	}
}
