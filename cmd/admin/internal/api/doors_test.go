package api_test

import (
	"testing"

	"github.com/spout-queue/spout/cmd/internal/jobline/doors"
	"github.com/spout-queue/spout/queue"
)

// Every door answers a job line with the same word: the table is that of the other doors' tests, too.
func TestDoors(t *testing.T) {
	t.Parallel()
	s := realSite(t)
	s.class("calls", 2, func(c *queue.Class) { c.MaxPayload = 1 << 10 })
	for _, test := range doors.Lines(t) {
		got := s.ask("operator", "POST", "/v1/jobs", test.Line)
		var said struct {
			Reason queue.Reason
			Title  string
		}
		got.read(t, &said)
		if said.Reason != test.Reason || (got.status < 300) != (test.Reason == "") || (said.Title == "") != (test.Reason == "") {
			t.Errorf("%s: %d %s, want reason %q", test.Name, got.status, got.body, test.Reason)
		}
	}
}

// Whatever is sent, a submission is answered with a receipt or a problem that the description knows.
func FuzzSubmit(f *testing.F) {
	s := realSite(f)
	s.class("calls", 1_000_000)
	for _, line := range []string{
		`{"class":"calls","key":"k","payload":1}`, `{"class":"calls","key":"k","id":"1","payload":{"a":[1,"\u0000"]},"max_wait":"1h"}`, `{}`, `[`, "\x00",
		`{"class":"nosuch","key":"k","payload":1}`, `{"class":"calls","key":"\ud800","payload":1}`, `{"class":"calls","key":"k","payload":1e999}`,
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		asked := *s
		asked.tb = t
		got := asked.ask("operator", "POST", "/v1/jobs", line, "Content-Type", "application/json") // holds the answer against the description
		switch got.status {
		case 200, 202, 400, 404, 409, 413, 429:
		default:
			t.Errorf("%q: %d %s", line, got.status, got.body)
		}
	})
}
