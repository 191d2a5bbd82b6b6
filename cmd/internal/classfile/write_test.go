package classfile_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/cmd/internal/classfile"
	"github.com/spout-queue/spout/queue"
)

// What is written is read again as the same class.
func TestWrite(t *testing.T) {
	t.Parallel()
	plain := queue.NewClass("a", 500, queue.Rate{Limit: 30, Period: time.Minute})
	if text := classfile.Write(plain); text != "classes:\n  a:\n    capacity: 500\n    rate: 30/60s\n" {
		t.Errorf("a plain class:\n%s", text)
	}
	every := plain
	every.Name = "true" // a word that means something else in YAML
	for name, value := range map[string]string{
		"catch_up": "1ms", "adapt.min": "5/60s", "adapt.max": "25/60s", "pace": "strict", "max_in_flight": "4", "max_wait": "10m",
		"overflow": "drop-oldest", "max_jobs": "7", "timeout": "1h", "retry.max_attempts": "7", "retry.backoff": "2s", "retry.max_backoff": "1h",
		"retry.order": "hold", "max_crashes": "2", "retention": "1h", "dead.max": "0", "dead.keep": "48h", "dedup": "24h", "ack": "replicated(2)",
		"max_payload": "64KiB", "http.allow_private": "true", "http.hosts": `["no.example.com", "api.example.com:8080"]`, "http.schemes": "[https]",
		"http.ports": "[443, 8080]", "http.redirects": "3", "http.secrets": "[yes, token]", "http.hold": "class", "http.max_hold": "2h",
		"http.anonymous": "true",
	} {
		if err := classfile.Set(&every, name, value); err != nil {
			t.Fatal(err)
		}
	}
	if same := len(classfile.Diff(plain, every)); same != len(classfile.Settings(plain))-2 { // all but capacity and rate
		t.Fatalf("%d settings of %d differ: not every one is tried", same, len(classfile.Settings(plain)))
	}
	for _, class := range []queue.Class{plain, every} {
		text := classfile.Write(class)
		read, err := classfile.Parse("written", []byte(text))
		if err != nil || len(read) != 1 {
			t.Fatalf("%v in\n%s", err, text)
		}
		if read[0].Name != class.Name {
			t.Errorf("the name is %q, want %q", read[0].Name, class.Name)
		}
		if diff := cmp.Diff(classfile.Settings(class), classfile.Settings(read[0])); diff != "" {
			t.Errorf("%s\n%s", diff, text)
		}
	}
}

func TestProblems(t *testing.T) {
	t.Parallel()
	class := queue.NewClass("NOT A NAME", 0, queue.Rate{Limit: 1, Period: time.Second})
	class.Retry.MaxBackoff = time.Millisecond
	got := classfile.Problems(class)
	if len(got) != 2 || !slices.Equal(got[0].Settings, []string{"capacity"}) ||
		!slices.Equal(got[1].Settings, []string{"retry.max_backoff", "retry.backoff"}) {
		t.Errorf("%+v", got)
	}
	if got := classfile.Problems(queue.NewClass("a", 1, class.Rate)); got != nil {
		t.Errorf("of a sound class: %+v", got)
	}
}
