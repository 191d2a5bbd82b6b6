package console_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/spout-queue/spout/cmd/admin/console"
)

// TestProblemsAreDocumented: what the console says by itself has a page like what the API says, under the same title.
func TestProblemsAreDocumented(t *testing.T) {
	t.Parallel()
	url := start(t, console.Options{})
	guard, _ := guarded(t, "")
	locked := start(t, console.Options{Guard: guard})
	requests := map[string]*http.Request{
		"wrong_host":      request(t, http.MethodGet, url+"/v1/classes", "", "Host: elsewhere.example"),
		"cross_site":      request(t, http.MethodPost, url+"/v1/jobs", "{}", "Origin: https://elsewhere.example"),
		"invalid":         request(t, http.MethodPost, url+"/v1/jobs", strings.Repeat("[", 1000), "Content-Type: application/json"),
		"too_large":       request(t, http.MethodPost, url+"/v1/jobs", strings.Repeat(" ", 2<<20), "Content-Type: application/json"),
		"denied":          request(t, http.MethodGet, url+"/v1/classes", "", "X-Forwarded-For: 192.0.2.1"),
		"unauthenticated": request(t, http.MethodGet, locked+"/v1/classes", ""),
	}
	for range 100 { // more on a slow machine, where some are forgiven meanwhile
		if head, _ := do(t, request(t, http.MethodGet, locked+"/v1/classes", "", "Authorization: Bearer wrong")); head.StatusCode == http.StatusTooManyRequests {
			break
		}
	}
	requests["too_many_wrong"] = request(t, http.MethodGet, locked+"/v1/classes", "", "Authorization: Bearer wrong")
	for reason, r := range requests {
		_, body := do(t, r)
		var said struct{ Type, Title, Reason string }
		if err := json.Unmarshal([]byte(body), &said); err != nil || said.Reason != reason || said.Type != "urn:spout:problem:"+reason {
			t.Errorf("%s: it says %s (%v)", reason, body, err)
			continue
		}
		head, page := do(t, request(t, http.MethodGet, url+"/docs/problems/"+reason, ""))
		if head.StatusCode != http.StatusOK || !strings.Contains(page, said.Title) {
			t.Errorf("%s: its page, %s, does not have the title %q", reason, head.Status, said.Title)
		}
	}
}
