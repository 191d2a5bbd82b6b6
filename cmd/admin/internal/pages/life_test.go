package pages

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/queue"
)

func at(seconds float64) time.Time {
	return time.Unix(1_700_000_000, 0).UTC().Add(time.Duration(seconds * float64(time.Second)))
}

func TestLife(t *testing.T) {
	t.Parallel()
	failed := queue.Attempt{Number: 1, Outcome: "failed", Departed: at(10), Due: at(10), Started: at(10.01), Ended: at(12), Worker: "w1", Error: "GET https://u:p@h/: 503"}
	done := queue.Attempt{Number: 2, Outcome: "done", Departed: at(20), Due: at(20), Started: at(20.001), Ended: at(21), Worker: "w2"}
	for _, c := range []struct {
		name  string
		job   queue.JobState
		whats string
		says  string
		spans string
	}{
		{"waits", queue.JobState{State: queue.Line, Position: 1234}, "admitted, waits", "position 1,234", "wait 30"},
		{"delayed", queue.JobState{State: queue.Later, NotBefore: at(60)}, "admitted, delayed", "joins the line at", "later 30"},
		{"parked", queue.JobState{State: queue.Later, NotBefore: at(60), Attempts: 1, History: []queue.Attempt{failed}}, "admitted, attempt 1 failed, parked", "joins the line again", "wait 10, out 0.01, run 1.99 bad, later 18"},
		{"out", queue.JobState{State: queue.Out, DepartedAt: at(25), Worker: "w3"}, "admitted, out", "worker w3 has it", "wait 25, run 5"},
		{"told to end", queue.JobState{State: queue.Out, DepartedAt: at(25), Cancelling: true}, "admitted, cancelling", "told to end", "wait 25, run 5"},
		{
			"done",
			queue.JobState{State: queue.Completed, EndedAt: at(21), Attempts: 2, History: []queue.Attempt{failed, done}},
			"admitted, attempt 1 failed, attempt 2 done, done", "It took 21s", "wait 10, out 0.01, run 1.99 bad, wait 8, out 0.001, run 0.999 good",
		},
		{"dead", queue.JobState{State: queue.Kept, EndedAt: at(12), Error: "x", Attempts: 1, History: []queue.Attempt{failed}}, "admitted, attempt 1 failed, dead", "goes round again", "wait 10, out 0.01, run 1.99 bad"},
		{"some forgotten", queue.JobState{State: queue.Kept, EndedAt: at(21), Attempts: 2, History: []queue.Attempt{done}}, "admitted, earlier attempts, attempt 2 done, dead", "first 1 are not kept", "wait 20, out 0.001, run 0.999 good"},
		{"expired", queue.JobState{State: queue.Expired, EndedAt: at(9)}, "admitted, expired", "waited longer", "wait 9"},
		{"gone", queue.JobState{State: queue.Gone}, "admitted, gone", "Only its identity", "wait 30"},
	} {
		c.job.AdmittedAt = at(0)
		events := life(c.job, at(30))
		var whats, spans []string
		text := ""
		for _, e := range events {
			whats, text = append(whats, e.What), text+e.Text+e.Error
		}
		for _, s := range timeline(c.job, events, at(30)).Spans {
			spans = append(spans, strings.TrimSpace(fmt.Sprintf("%s %v %s", s.Kind, s.To.Sub(s.From).Seconds(), s.End)))
		}
		if got := strings.Join(whats, ", "); got != c.whats {
			t.Errorf("%s: %s, want %s", c.name, got, c.whats)
		}
		if !strings.Contains(text, c.says) || strings.Contains(text, "u:p") {
			t.Errorf("%s says %q, want %q", c.name, text, c.says)
		}
		if got := strings.Join(spans, ", "); got != c.spans {
			t.Errorf("%s: spans %s, want %s", c.name, got, c.spans)
		}
	}
}

// A shell takes each word as it was, whatever is in it.
func TestCopiesInAShell(t *testing.T) {
	t.Parallel()
	for _, text := range append(hostile(), "it's", "a\nb", `\n`, "$HOME `id` $(id) !!", "-x", "'", "''", `'"'"'`, "~", "#c", "a*b?", "日本") {
		if queue.CheckKey(text) != nil && text != "a\nb" {
			continue
		}
		payload, err := json.Marshal(map[string]string{"t": text})
		must(t, err)
		job := queue.JobState{Class: "a", Key: text, Type: text, Payload: payload}
		c := copiesOf(job, bodyOf(payload), "http://127.0.0.1/v1/jobs")
		want := append([]string{"producer", "enqueue", "--class=a", "--key=" + text, "--type=" + text}, "")
		words := shell(t, c.Producer)
		last := len(words) - 1
		value, isPayload := strings.CutPrefix(words[last], "--payload=")
		if !slices.Equal(words[:last], want[:last]) || !isPayload || c.Found == 0 && !sameJSON(t, value, string(payload)) {
			t.Errorf("%q became %q", text, words)
		}
		words = shell(t, c.Curl)
		var line struct {
			Class, Key, Type string
			Payload          json.RawMessage
		}
		must(t, json.Unmarshal([]byte(words[slices.Index(words, "--data-raw")+1]), &line))
		if line.Key != text || line.Type != text || line.Class != "a" || words[len(words)-1] != "http://127.0.0.1/v1/jobs" {
			t.Errorf("%q became %q", text, words)
		}
	}
}

// shell is what a shell makes of a command: its words.
func shell(t *testing.T, command string) []string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "/bin/sh", "-c", `set -f; show() { printf '%s\0' "$@"; }; show `+command).Output()
	must(t, err)
	return strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	must(t, json.Unmarshal([]byte(a), &x))
	must(t, json.Unmarshal([]byte(b), &y))
	return cmp.Equal(x, y)
}

func TestBodyOf(t *testing.T) {
	t.Parallel()
	for _, c := range []string{`{"a":[1,{"b":"x\"y{,:[\\"}],"c":{},"d":[],"e":[[]],"f":null}`, `[]`, `"text"`, `1.50`, `[[1,2],[3]]`} {
		var want bytes.Buffer
		must(t, json.Indent(&want, []byte(c), "", "  "))
		if got := bodyOf([]byte(c)); got.Text != want.String() || got.Cut || got.Size != len(c) {
			t.Errorf("%s became %+v", c, got)
		}
	}
	long := `["` + strings.Repeat("é", bodyMost) + `"]`
	if got := bodyOf([]byte(long)); !got.Cut || len(got.Text) > bodyMost || !strings.HasSuffix(got.Text, "é") {
		t.Errorf("a long one has %d bytes, cut %v", len(got.Text), got.Cut)
	}
	deep := strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000)
	if got := bodyOf([]byte(deep)); len(got.Text) > bodyMost || !got.Cut {
		t.Errorf("a deep one has %d bytes", len(got.Text))
	}
	if got := bodyOf([]byte("plain, with password=x")); got.Text != "plain, with password=[redacted]" || got.Found != 1 {
		t.Errorf("text: %+v", got)
	}
	if got := bodyOf([]byte{0xff, 0xfe, 0}); !strings.HasPrefix(got.Text, "00000000  ff fe 00") {
		t.Errorf("bytes: %+v", got)
	}
}

func TestJudge(t *testing.T) {
	t.Parallel()
	class := queue.NewClass("a", 10, queue.Rate{Limit: 1, Period: time.Second})
	open := queue.Bucket{Class: "a", Key: "k", Capacity: 10, At: at(100), Interval: time.Second, Out: -1}
	with := func(edit func(*queue.Bucket)) queue.Bucket {
		b := open
		edit(&b)
		return b
	}
	paused := class
	paused.Paused = true
	drops := class
	drops.Overflow = queue.DropOldest
	for _, c := range []struct {
		class       queue.Class
		b           queue.Bucket
		kind, state string
		retry       string
	}{
		{class, open, "good", "empty", ""},
		{class, with(func(b *queue.Bucket) { b.Line, b.Level, b.Due = 3, 3, at(101) }), "good", "draining down", ""},
		{class, with(func(b *queue.Bucket) { b.Line, b.Level, b.Due = 3, 3, at(90) }), "bad", "stalled", ""},
		{class, with(func(b *queue.Bucket) { b.Line, b.Level, b.Due = 3, 3, at(99) }), "good", "draining down", ""},
		{class, with(func(b *queue.Bucket) { b.Line, b.Level, b.Due = 10, 10, at(101) }), "bad", "full", "1s"},
		{class, with(func(b *queue.Bucket) { b.Line, b.Level, b.Due = 12, 12, at(100.5) }), "bad", "full", "2.5s"},
		{drops, with(func(b *queue.Bucket) { b.Line, b.Level, b.Due = 10, 10, at(101) }), "warn", "full", "1s"},
		{class, with(func(b *queue.Bucket) { b.Paused, b.Line, b.Level = true, 10, 10 }), "warn", "paused", "never"},
		{paused, with(func(b *queue.Bucket) { b.Paused = true }), "warn", "paused", ""},
		{class, with(func(b *queue.Bucket) { b.Hold, b.HoldReason = at(200), "429" }), "warn", "held", ""},
		{class, with(func(b *queue.Bucket) { b.Draining = true }), "warn", "draining", ""},
		{class, with(func(b *queue.Bucket) { b.Sick, b.Paused = "broken", true }), "bad", "sick", ""},
	} {
		v := judge(c.class, c.b)
		if v.Kind != c.kind || v.State != c.state || v.Title == "" {
			t.Errorf("%+v: %+v, want %s %s", c.b, v, c.kind, c.state)
		}
		page := bucketPage{Bucket: c.b}
		switch got := page.RetryAfter(); {
		case c.retry == "never" && strings.Contains(got, "nobody can tell"):
		case c.retry == "" && got == "":
		default:
			if d, err := time.ParseDuration(c.retry); err != nil || got != shortDuration(d) {
				t.Errorf("%+v: retry after %q, want %q", c.b, got, c.retry)
			}
		}
	}
}

func TestJudgePace(t *testing.T) {
	t.Parallel()
	class := queue.NewClass("a", 10, queue.Rate{Limit: 1, Period: time.Second})
	b := queue.Bucket{At: at(60), Interval: time.Second}
	starts := func(seconds ...float64) []queue.Start {
		var list []queue.Start
		for _, s := range seconds {
			list = append(list, queue.Start{Due: at(s), Started: at(s + 0.002), Lateness: 2 * time.Millisecond})
		}
		return list
	}
	for _, c := range []struct {
		starts []queue.Start
		early  int
		says   string
	}{
		{nil, 0, "No start of the last minute is known"},
		{starts(10), 0, "1 starts; lateness p50 2.0ms"},
		{starts(10, 11, 12, 20, 21), 0, "closest two were 1.0s apart"},
		{starts(10, 10.98, 11.96), 1, "1 came earlier than T − 30.0ms"}, // each 20 ms early: the second uses the allowance up
		{starts(10, 10.5), 1, "1 came earlier"},
	} {
		p := judgePace(class, b, c.starts)
		if p.Early != c.early || !strings.Contains(p.Text, c.says) || p.Starts != len(c.starts) {
			t.Errorf("%d starts: %d early, %q; want %d, %q", len(c.starts), p.Early, p.Text, c.early, c.says)
		}
	}
	back := starts(10.5)
	back[0].Back = true
	p := judgePace(class, b, slices.Insert(starts(10, 11), 1, back...))
	if p.Starts != 2 || p.Early != 0 || !strings.Contains(p.Text, "1 departure went back") || !strings.Contains(string(p.Drawing), `class="back"`) {
		t.Errorf("with a departure that went back: %+v", p)
	}
}
