// Package doors has the job lines that the tests of all doors send, and the word that each door must answer.
package doors

import (
	_ "embed"
	"encoding/json"
	"testing"

	"github.com/spout-queue/spout/queue"
)

//go:embed doors.json
var table []byte

// Line is a job line for class calls, which has a max_payload of 1 KiB.
type Line struct {
	Name, Line string
	// Reason to refuse it; empty when it is admitted.
	Reason queue.Reason
}

// Lines are all of them.
func Lines(tb testing.TB) []Line {
	tb.Helper()
	var lines []Line
	if err := json.Unmarshal(table, &lines); err != nil || len(lines) < 20 {
		tb.Fatalf("%d lines, %v", len(lines), err)
	}
	return lines
}
