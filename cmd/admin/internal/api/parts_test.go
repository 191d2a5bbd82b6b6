package api_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spout-queue/spout/queue"
)

// A page of large jobs is short, and goes on: it is in memory as often as somebody asks for it.
func TestLargeJobs(t *testing.T) {
	t.Parallel()
	s := newSite(t, mini(t))
	s.class("calls", 100, func(c *queue.Class) { c.MaxPayload = 1 << 20 })
	const jobs = 30
	payload := `"` + strings.Repeat("x", 400<<10) + `"`
	for i := range jobs {
		job := queue.Job{Class: "calls", Key: "k", ID: fmt.Sprint(i), Payload: []byte(payload)}
		if _, err := s.client.Submit(t.Context(), job); err != nil {
			t.Fatal(err)
		}
	}
	next, sum := "", 0
	for pages := 1; ; pages++ {
		var page struct {
			Items []struct {
				ID      string
				Payload string
			}
			Next string
		}
		answer := s.ask("viewer", "GET", "/v1/jobs?class=calls&key=k&limit=1000"+next, "")
		answer.read(t, &page)
		if len(answer.body) > 12<<20 {
			t.Errorf("page %d has %d bytes", pages, len(answer.body))
		}
		for _, item := range page.Items {
			if item.ID != fmt.Sprint(sum) || len(item.Payload) != len(payload)-2 {
				t.Fatalf("job %d is %s, with %d bytes", sum, item.ID, len(item.Payload))
			}
			sum++
		}
		if page.Next == "" {
			if pages < 2 || sum != jobs {
				t.Errorf("%d jobs on %d pages", sum, pages)
			}
			return
		}
		next = "&cursor=" + page.Next
	}
}
