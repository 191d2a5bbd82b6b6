package classfile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/cmd/internal/classfile"
	"github.com/spout-queue/spout/queue"
)

func TestParse(t *testing.T) {
	t.Parallel()
	got, err := classfile.Parse("classes.yaml", []byte(`
# two classes
classes:
  github-api: &github
    capacity: 500
    rate: 30/60s
    catch_up: 1ms
    max_wait: 10m
    max_jobs: 7
    timeout: 1h
    dedup: 24h
    max_payload: 64KiB
    http:
      allow_private: true
      hosts: [api.github.com, "example.org:8443"]
  mail: {capacity: 1, rate: 200000/1d, dedup: 0}
  again: *github
`))
	if err != nil {
		t.Fatal(err)
	}
	github := queue.Class{
		Name: "github-api", Capacity: 500, Rate: queue.Rate{Limit: 30, Period: time.Minute}, CatchUp: time.Millisecond,
		MaxWait: 10 * time.Minute, MaxJobs: 7, Timeout: time.Hour, Dedup: 24 * time.Hour, MaxPayload: 64 << 10,
		HTTP: queue.HTTP{AllowPrivate: true, Hosts: []string{"api.github.com", "example.org:8443"}},
	}
	again := github
	again.Name = "again"
	want := []queue.Class{github, queue.NewClass("mail", 1, queue.Rate{Limit: 200000, Period: 24 * time.Hour}), again}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	const ok = "capacity: 1, rate: 1/1s"
	for _, test := range []struct {
		name, file string
		want       []string // all that is reported, line by line
	}{
		{"empty", "", []string{"f:1: there are no classes"}},
		{"only a comment", "# nothing", []string{"f:1: there are no classes"}},
		{"no classes", "classes:", []string{"f:1: there are no classes"}},
		{"other top", "class: {}", []string{`f:1: the file: unknown field "class"; known are classes`}},
		{"a list", "- a", []string{"f:1: the file is not a mapping"}},
		{"a list of classes", "classes:\n  - a", []string{"f:2: classes is not a mapping"}},
		{"syntax", "classes:\n  a: [", []string{"f: line 2"}},
		{"second document", "classes: {a: {" + ok + "}}\n---\nclasses: {}", []string{"f: line 2: a second document"}},
		{"name", "classes:\n  GitHub: {" + ok + "}", []string{`f:2: class "GitHub": the name is not [a-z0-9]`}},
		{"nothing in it", "classes:\n  a:", []string{`f:2: class "a": capacity is missing`, `f:2: class "a": rate is missing`}},
		{"a text", "classes:\n  a: b", []string{`f:2: class "a" is not a mapping`, "capacity is missing", "rate is missing"}},
		{
			"unknown fields",
			"classes:\n  a:\n    capacity: 1\n    max_in_flight: 2\n    rate: 1/1s\n    overflow: reject",
			[]string{
				`f:4: class "a": unknown field "max_in_flight"; known are capacity, rate, catch_up, max_wait, max_jobs, ` +
					`timeout, dedup, max_payload, http`,
				`f:6: class "a": unknown field "overflow"`,
			},
		},
		{"merged", "classes:\n  a: &a {" + ok + "}\n  b:\n    <<: *a\n    " + `"capacity": 2` + "\n    rate: 1/1s", []string{`f:4: class "b": unknown field "<<"`}},
		{
			"twice",
			"classes:\n  a:\n    capacity: 1\n    rate: 1/1s\n    capacity: 2\n  a: {}",
			[]string{`f:5: class "a": "capacity" is there twice, first in line 3`, `f:6: classes: "a" is there twice, first in line 2`},
		},
		{"capacity 0", "classes:\n  a: {rate: 1/1s, capacity: 0}", []string{`f:2: class "a": capacity 0 is not between 1 and 1000000`}},
		{"capacity", "classes:\n  a: {rate: 1/1s, capacity: 1000001}", []string{"capacity 1000001 is not between"}},
		{"capacity text", "classes:\n  a: {rate: 1/1s, capacity: x}", []string{"capacity is not a whole number"}},
		{"capacity quoted", "classes:\n  a: {rate: 1/1s, capacity: '5'}", []string{"capacity is not a whole number"}},
		{"capacity null", "classes:\n  a: {rate: 1/1s, capacity: }", []string{"capacity is not a whole number"}},
		{"rate 0/1s", "classes:\n  a: {capacity: 1, rate: 0/1s}", []string{`f:2: class "a": rate 0/1s: limit and period must be above zero`}},
		{"rate -1/1s", "classes:\n  a: {capacity: 1, rate: -1/1s}", []string{`rate -1/1s: limit and period must be above zero`}},
		{"rate 5/0s", "classes:\n  a: {capacity: 1, rate: 5/0s}", []string{`rate 5/0s: limit and period must be above zero`}},
		{"rate x", "classes:\n  a: {capacity: 1, rate: x}", []string{`rate "x": there is no /; write limit/period, such as 30/60s`}},
		{"rate list", "classes:\n  a: {capacity: 1, rate: [1]}", []string{"rate is not a single value"}},
		{"rate too high", "classes:\n  a: {capacity: 1, rate: 10001/1s}", []string{"above 10000 a second"}},
		{"duration", "classes:\n  a: {" + ok + ", timeout: 30}", []string{`timeout "30" is not a duration`}},
		{"duration range", "classes:\n  a: {" + ok + ", timeout: 25h}", []string{"timeout 25h0m0s is not between 1ms and 24h0m0s"}},
		{"duration too fine", "classes:\n  a: {" + ok + ", catch_up: 10ns}", []string{"catch_up 10ns is not a whole number of microseconds"}},
		{"payload", "classes:\n  a: {" + ok + ", max_payload: 2MiB}", []string{"max_payload 2097152 is not between 1 and 1048576 bytes"}},
		{"payload unit", "classes:\n  a: {" + ok + ", max_payload: 2MB}", []string{`size "2MB" is not a number of bytes, KiB or MiB`}},
		{"http", "classes:\n  a: {" + ok + ", http: yes}", []string{"http is not a mapping"}},
		{
			"http fields",
			"classes:\n  a: {" + ok + ", http: {private: true, allow_private: 1, hosts: x}}",
			[]string{`http: unknown field "private"; known are allow_private, hosts; http: allow_private is not true or false; http: hosts is not a list`},
		},
		{"http host", "classes:\n  a: {" + ok + ", http: {hosts: ['http://x']}}", []string{`http.hosts: "http://x" is not a host or host:port`}},
		{
			"several", "classes:\n  a: {capacity: 0, rate: x}\n  b: {capacity: 1}",
			[]string{"f:2: class \"a\": capacity 0", "f:2: class \"a\": rate \"x\"", "f:3: class \"b\": rate is missing"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, err := classfile.Parse("f", []byte(test.file))
			if err == nil {
				t.Fatal("no error")
			}
			got := strings.Split(err.Error(), "\n")
			if len(got) != len(test.want) {
				t.Fatalf("got %d problems, want %d:\n%v", len(got), len(test.want), err)
			}
			for i, want := range test.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("problem %d:\n got %s\nwant %s", i, got[i], want)
				}
			}
		})
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	old := queue.NewClass("a", 10, queue.Rate{Limit: 30, Period: time.Minute})
	updated := old
	updated.Version = 7 // no setting
	if got := classfile.Diff(old, updated); got != nil {
		t.Errorf("the same class differs: %v", got)
	}
	updated.Capacity = 20
	updated.MaxWait = 10 * time.Minute
	updated.HTTP.Hosts = []string{"a", "b"}
	want := []classfile.Change{
		{Field: "capacity", Old: "10", New: "20"},
		{Field: "max_wait", Old: "0s", New: "10m"},
		{Field: "http", Old: "{}", New: "{hosts: [a, b]}"},
	}
	if diff := cmp.Diff(want, classfile.Diff(old, updated)); diff != "" {
		t.Error(diff)
	}
}

// FuzzParse: whatever is in a file, it is read or refused, and what is read is sound.
func FuzzParse(f *testing.F) {
	f.Add("classes: {a: {capacity: 1, rate: 1/1s, http: {hosts: [x]}}}")
	f.Add("classes: &a {a: *a}")
	f.Add("a: {[: ]")
	f.Fuzz(func(t *testing.T, file string) {
		classes, err := classfile.Parse("f", []byte(file))
		if err != nil {
			return
		}
		for _, class := range classes {
			if err := class.Validate(); err != nil {
				t.Errorf("%q: %v", file, err)
			}
		}
	})
}
