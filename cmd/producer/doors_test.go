package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/internal/jobline/doors"
	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// Every door answers a job line with the same word: the table is that of the other doors' tests, too.
func TestDoors(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	calls := queue.NewClass("calls", 2, queue.Rate{Limit: 1, Period: time.Minute})
	calls.MaxPayload = 1 << 10
	newSite(t, server.Client(t), calls)
	getenv := func(name string) string { return map[string]string{"SPOUT_REDIS": "redis://" + server.Addr}[name] }
	for _, test := range doors.Lines(t) {
		var out, errs strings.Builder
		run(t.Context(), []string{"producer", "bulk", "-f", "-", "-o", "json", "--on-full", "skip"}, getenv, strings.NewReader(test.Line), &out, &errs)
		first, _, _ := strings.Cut(out.String(), "\n")
		var said struct {
			Status string
			Reason queue.Reason
		}
		if err := json.Unmarshal([]byte(first), &said); err != nil || said.Reason != test.Reason || (said.Status == "rejected") != (test.Reason != "") {
			t.Errorf("%s: %s %s, want reason %q", test.Name, &out, &errs, test.Reason)
		}
	}
}
