package jobstream_test

import (
	"errors"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/spout-queue/spout/cmd/internal/jobstream"
	"github.com/spout-queue/spout/internal/natstest"
)

// Any text is one token that is legal everywhere in NATS, and comes back.
func FuzzToken(f *testing.F) {
	for _, text := range []string{"a", "a.b", "*", ">", "with space", "%41", "ключ 🔑", "=", "\x00\n", "$SYS", "~", strings.Repeat("é", 128)} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		token := jobstream.Token(text)
		if strings.ContainsAny(token, ".*> \t\r\n") || !utf8.ValidString(token) {
			t.Errorf("%q has the token %q", text, token)
		}
		if back, err := jobstream.ReadToken(token); err != nil || back != text {
			t.Errorf("%q came back as %q, %v", text, back, err)
		}
	})
}

func TestSubjects(t *testing.T) {
	t.Parallel()
	s := jobstream.Subjects("a.b")
	if got := s.Jobs("calls", "k.1"); got != "a.b.jobs.calls.k%2E1" {
		t.Errorf("got %s", got)
	}
	for _, test := range []struct {
		subject, class, token string
		bad                   bool
	}{
		{"a.b.jobs.calls.k", "calls", "k", false},
		{"a.b.jobs.calls", "calls", "", true},
		{"a.b.jobs", "", "", true},
		{"a.b.jobs.calls.k.l", "calls", "", true},
		{"other.jobs.calls.k", "", "", true},
	} {
		class, token, err := s.ReadJobs(test.subject)
		if class != test.class || token != test.token || errors.Is(err, jobstream.ErrSubject) != test.bad {
			t.Errorf("%s: got %q, %q, %v", test.subject, class, token, err)
		}
	}
	for prefix, ok := range map[jobstream.Subjects]bool{"spout.v1": true, "x": true, "": false, "a..b": false, "a.*": false, "a b": false, "a.": false} {
		if err := prefix.Validate(); (err == nil) != ok {
			t.Errorf("prefix %q: %v", prefix, err)
		}
	}
}

// The stream is made once, refuses what is above its limits, and is never changed.
func TestEnsure(t *testing.T) {
	t.Parallel()
	server := natstest.Start(t)
	js, err := jetstream.New(server.Client(t))
	if err != nil {
		t.Fatal(err)
	}
	c := jobstream.Default()
	c.PerKey = 2
	for range 2 {
		if _, differs, err := jobstream.Ensure(t.Context(), js, c); err != nil || differs != nil {
			t.Fatalf("got %v, %v", differs, err)
		}
	}
	for i, ok := range []bool{true, true, false} {
		_, err := js.Publish(t.Context(), c.Subjects.Jobs("calls", "k"), nil)
		if (err == nil) != ok {
			t.Errorf("message %d of a key: %v", i+1, err)
		}
	}
	if _, err := js.Publish(t.Context(), c.Subjects.Jobs("calls", "other"), nil); err != nil {
		t.Errorf("another key: %v", err)
	}
	other := c
	other.PerKey, other.Dedup = 3, time.Minute
	_, differs, err := jobstream.Ensure(t.Context(), js, other)
	if err != nil || len(differs) != 2 || !strings.Contains(differs[0], "2, not 3") {
		t.Errorf("got %v, %v", differs, err)
	}
	other.Subjects = "spout.v2"
	if _, _, err = jobstream.Ensure(t.Context(), js, other); !errors.Is(err, jobstream.ErrUnfit) || !strings.Contains(err.Error(), "spout.v1.jobs") {
		t.Errorf("other subjects: %v", err)
	}
	lossy := c
	lossy.Name, lossy.Subjects = "LOSSY", "lossy"
	_, err = js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "LOSSY", Subjects: []string{"lossy.jobs", "lossy.jobs.>"}, MaxAge: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = jobstream.Ensure(t.Context(), js, lossy)
	for _, want := range []string{"retention", "drops old", "1h0m0s"} {
		if !errors.Is(err, jobstream.ErrUnfit) || !strings.Contains(err.Error(), want) {
			t.Errorf("a stream that loses messages: %v; want %q", err, want)
		}
	}
}
