package api_test

import (
	"fmt"
	"strings"
	"testing"
)

func TestSubmit(t *testing.T) {
	t.Parallel()
	s := realSite(t)
	s.class("calls", 2)
	first := s.ask("operator", "POST", "/v1/jobs", `{"class":"calls","key":"k","id":"1","payload":{"n":1}}`)
	first.want(t, 202, map[string]any{"status": "admitted", "id": "1", "position": 1, "level": 1, "capacity": 2})
	var receipt struct{ Ref string }
	first.read(t, &receipt)
	if got := first.header.Get("Location"); got != "/v1/jobs/"+receipt.Ref {
		t.Errorf("Location %q", got)
	}
	s.ask("operator", "GET", first.header.Get("Location"), "").want(t, 200, map[string]any{"id": "1", "state": "line"})
	for _, key := range []string{"1", `"1"`} {
		again := s.ask("operator", "POST", "/v1/jobs", `{"class":"calls","key":"k","payload":{"n":1}}`, "Idempotency-Key", key)
		again.want(t, 200, map[string]any{"status": "duplicate", "ref": receipt.Ref})
	}
	s.ask("operator", "POST", "/v1/jobs", `{"class":"calls","key":"k","id":"2","payload":1}`).want(t, 202, nil)
	full := s.ask("operator", "POST", "/v1/jobs", `{"class":"calls","key":"k","id":"3","payload":1}`)
	full.want(t, 429, map[string]any{"type": "urn:spout:problem:full", "reason": "full", "level": 2, "capacity": 2, "status": 429})
	for name, want := range map[string]string{
		"Content-Type": "application/problem+json", "RateLimit-Policy": `"bucket";q=2;w=120`,
		"RateLimit": fmt.Sprintf(`"bucket";r=0;t=%s`, full.header.Get("Retry-After")),
	} {
		if got := full.header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if !strings.Contains(full.body, `"retry_after_ms":`) {
		t.Error(full.body)
	}
}
