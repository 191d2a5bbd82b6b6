package api_test

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// The tour of docs/api.md, as it is there, with curl.
func TestTour(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../../docs/api.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(page), "```sh\n")
	script, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/api.md has no tour")
	}
	s := realSite(t)
	cmd := exec.CommandContext(t.Context(), "sh", "-eu", "-c", script)
	cmd.Env = append(slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.Contains(strings.ToLower(v), "_proxy=") }), "SPOUT_API="+s.server.URL)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rest = string(out)
	for _, want := range []string{
		`"change":"new"`, `"id":"invoice-7","status":"admitted","position":1`, `"position":2`, `"status":"rejected"`, `"reason":"full"`,
		"429 Too Many Requests", "Retry-After: ", `"reason":"full"`, `"level":2`, `"items":[{"ref":`, `"hold_reason":"an operator"`, `"paused":false`,
		`"confirm":"2"`, `"purged":2`, `"removed":true`, `"action":"remove class"`,
	} {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Fatalf("%q is not in what follows:\n%s\nof all:\n%s", want, rest, out)
		}
		rest = after
	}
}
