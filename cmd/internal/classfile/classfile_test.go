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
    max_in_flight: 4
    overflow: drop-oldest
    retention: 1h
    retry: {max_attempts: 7, backoff: 2s, max_backoff: 1h, order: hold}
    max_crashes: 2
    dead:
      max: 0
      keep: 48h
    ack: replicated(2)
    pace: strict
    adapt: {min: 5/60s, max: 25/60s}
    http:
      allow_private: true
      hosts: [api.github.com, "example.org:8443"]
      schemes: [https]
      ports: [443, 8443]
      redirects: 2
      secrets: [github]
      hold: class
      max_hold: 10m
      anonymous: true
  mail: {capacity: 1, rate: 200000/1d, dedup: 0, retry: {}, dead: }
  some: {capacity: 1, rate: 1/1s, retry: {order: tail}, dead: {max: 5}}
  again: *github
`))
	if err != nil {
		t.Fatal(err)
	}
	github := queue.Class{
		Name: "github-api", Capacity: 500, Rate: queue.Rate{Limit: 30, Period: time.Minute}, CatchUp: time.Millisecond,
		MaxWait: 10 * time.Minute, MaxJobs: 7, Timeout: time.Hour, Dedup: 24 * time.Hour, MaxPayload: 64 << 10,
		HTTP: queue.HTTP{
			AllowPrivate: true, Hosts: []string{"api.github.com", "example.org:8443"}, Schemes: []string{"https"}, Ports: []int{443, 8443},
			Redirects: 2, Secrets: []string{"github"}, Hold: queue.HoldClass, MaxHold: 10 * time.Minute, Anonymous: true,
		},
	}
	github.MaxInFlight, github.Overflow, github.Retention = 4, queue.DropOldest, time.Hour
	github.Retry = queue.Retry{MaxAttempts: 7, Backoff: 2 * time.Second, MaxBackoff: time.Hour, Order: queue.Hold}
	github.MaxCrashes, github.Dead = 2, queue.DeadLimits{Max: 0, Keep: 48 * time.Hour}
	github.Ack, github.Pace = queue.AckReplicated(2), queue.PaceStrict
	github.Adapt = queue.Adapt{Min: queue.Rate{Limit: 5, Period: time.Minute}, Max: queue.Rate{Limit: 25, Period: time.Minute}}
	again := github
	again.Name = "again"
	some := queue.NewClass("some", 1, queue.Rate{Limit: 1, Period: time.Second})
	some.Retry.Order, some.Dead.Max = queue.Tail, 5
	want := []queue.Class{github, queue.NewClass("mail", 1, queue.Rate{Limit: 200000, Period: 24 * time.Hour}), some, again}
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
			"classes:\n  a:\n    capacity: 1\n    shared_rate: 2\n    rate: 1/1s\n    retry.backoff: 1s",
			[]string{
				`f:4: class "a": unknown field "shared_rate"; known are capacity, rate, catch_up, adapt, pace, max_in_flight, max_wait, ` +
					`overflow, max_jobs, timeout, retry, max_crashes, retention, dead, dedup, ack, max_payload, http`,
				`f:6: class "a": unknown field "retry.backoff"`,
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
		{"max_in_flight", "classes:\n  a: {" + ok + ", max_in_flight: -1}", []string{"max_in_flight -1 is not between 0 and 1000000"}},
		{"overflow", "classes:\n  a: {" + ok + ", overflow: hold}", []string{`overflow "hold" is neither reject nor drop-oldest`}},
		{"overflow null", "classes:\n  a: {" + ok + ", overflow: }", []string{"overflow is not a single value"}},
		{"overflow list", "classes:\n  a: {" + ok + ", overflow: [reject]}", []string{"overflow is not a single value"}},
		{"pace", "classes:\n  a: {" + ok + ", pace: exact}", []string{`pace "exact" is neither normal nor strict`}},
		{"adapt", "classes:\n  a: {" + ok + ", adapt: {min: 2/1s}}", []string{"adapt.min is above what the rate may be"}},
		{"adapt without min", "classes:\n  a: {" + ok + ", adapt: {max: 1/2s}}", []string{"adapt needs min, the rate that"}},
		{"retention", "classes:\n  a: {" + ok + ", retention: -1s}", []string{"retention -1s is not between 0s and 8760h0m0s"}},
		{"max_crashes", "classes:\n  a: {" + ok + ", max_crashes: 0}", []string{"max_crashes 0 is not between 1 and 100"}},
		{"ack", "classes:\n  a: {" + ok + ", ack: replicated(17)}", []string{`ack "replicated(17)" is none of memory, fsynced and replicated(n)`}},
		{"ack of nothing", "classes:\n  a: {" + ok + `, ack: ""}`, []string{`ack "" is none of`}},
		{"retry is a number", "classes:\n  a: {" + ok + ", retry: 5}", []string{`f:2: class "a": retry is not a mapping`}},
		{
			"retry fields",
			"classes:\n  a:\n    capacity: 1\n    rate: 1/1s\n    retry:\n      max_attempts: 0\n      backof: 1s\n      backoff: 1\n" +
				"      max_backoff: 721h\n      order: head\n      order: tail",
			[]string{
				`f:6: class "a": retry.max_attempts 0 is not between 1 and 100`,
				`f:7: class "a": retry: unknown field "backof"; known are max_attempts, backoff, max_backoff, order`,
				`f:8: class "a": retry.backoff "1" is not a duration`,
				`f:9: class "a": retry.max_backoff 721h0m0s is not between 1ms and 720h0m0s`,
				`f:10: class "a": retry.order "head" is none of park, hold and tail`,
				`f:11: class "a": retry: "order" is there twice, first in line 10`,
			},
		},
		{
			"max_backoff below backoff",
			"classes:\n  a:\n    capacity: 1\n    rate: 1/1s\n    retry:\n      max_backoff: 1s\n      backoff: 2s",
			[]string{`f:6: class "a": retry.max_backoff 1s is below retry.backoff 2s`},
		},
		{
			"max_backoff below the default",
			"classes:\n  a:\n    capacity: 1\n    rate: 1/1s\n    retry:\n      max_backoff: 10ms",
			[]string{`f:6: class "a": retry.max_backoff 10ms is below retry.backoff 1s`},
		},
		{
			"backoff above the default",
			"classes:\n  a:\n    capacity: 1\n    rate: 1/1s\n    retry:\n      backoff: 10m",
			[]string{`f:6: class "a": retry.max_backoff 5m0s is below retry.backoff 10m0s`},
		},
		{"backoff too high", "classes:\n  a: {" + ok + ", retry: {backoff: 800h}}", []string{"retry.backoff 800h0m0s is not between 1ms and 720h0m0s"}},
		{"max_backoff 0", "classes:\n  a: {" + ok + ", retry: {max_backoff: 0s}}", []string{"retry.max_backoff 0s is not between 1ms and 720h0m0s"}},
		{"backoff unreadable", "classes:\n  a: {" + ok + ", retry: {max_backoff: 10ms, backoff: x}}", []string{`retry.backoff "x" is not a duration`}},
		{
			"dead", "classes:\n  a:\n    capacity: 1\n    rate: 1/1s\n    dead:\n      max: -1\n      keep: 0s",
			[]string{`f:6: class "a": dead.max -1 is not between 0 and 10000000`, `f:7: class "a": dead.keep 0s is not between 1s and 87600h0m0s`},
		},
		{"dead list", "classes:\n  a: {" + ok + ", dead: [1]}", []string{"dead is not a mapping"}},
		{"http", "classes:\n  a: {" + ok + ", http: yes}", []string{"http is not a mapping"}},
		{
			"http fields",
			"classes:\n  a: {" + ok + ", http: {private: true, allow_private: 1, hosts: x}}",
			[]string{
				`http: unknown field "private"; known are allow_private, hosts, schemes, ports, redirects, secrets, hold, max_hold, anonymous`,
				"http.allow_private is not true or false", "http.hosts is not a list",
			},
		},
		{"http hosts", "classes:\n  a: {" + ok + `, http: {hosts: ["a; b", "c/d", "retry.order x"]}}`, []string{
			`f:2: class "a": http.hosts: "a; b" is not a host or host:port`,
			`f:2: class "a": http.hosts: "c/d" is not a host or host:port`,
			`f:2: class "a": http.hosts: "retry.order x" is not a host`,
		}},
		{
			"http others",
			"classes:\n  a:\n    capacity: 1\n    rate: 1/1s\n    http:\n      schemes: [ftp]\n      ports: [0]\n      redirects: 11\n" +
				"      secrets: [A]\n      hold: all\n      max_hold: 1ms\n      anonymous: 1",
			[]string{
				`f:6: class "a": http.schemes: "ftp" is neither http nor https`, `f:7: class "a": http.ports: 0 is not between`,
				`f:8: class "a": http.redirects 11 is not between`, `f:9: class "a": http.secrets: "A" is not [a-z0-9]`,
				`f:9: class "a": http.secrets need hosts`,
				`f:10: class "a": http.hold "all" is neither bucket nor class`, `f:11: class "a": http.max_hold 1ms is not between 1s and 24h0m0s`,
				`f:12: class "a": http.anonymous is not true or false`,
			},
		},
		{"http ports", "classes:\n  a: {" + ok + ", http: {ports: [x]}}", []string{`http.ports: "x" is not a whole number`}},
		{"http port", "classes:\n  a: {" + ok + ", http: {ports: 80}}", []string{`http.ports is not a list`}},
		{"http hosts that match nothing", "classes:\n  a: {" + ok + `, http: {hosts: ["*.example.com", ".example.com", "bücher.example"]}}`, []string{
			`http.hosts: "*.example.com" is not a host or host:port; there are no wildcards`, `http.hosts: ".example.com" is not a host`,
			`http.hosts: "bücher.example" is not a host`,
		}},
		{"http host", "classes:\n  a: {" + ok + ", http: {hosts: ['http://x']}}", []string{`http.hosts: "http://x" is not a host or host:port`}},
		{
			"several", "classes:\n  a: {capacity: 0, rate: x}\n  b: {capacity: 1}",
			[]string{"f:2: class \"a\": rate \"x\"", "f:2: class \"a\": capacity 0", "f:3: class \"b\": rate is missing"},
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
	updated.MaxInFlight, updated.Overflow, updated.Retention = 3, queue.DropOldest, time.Hour
	updated.Retry = queue.Retry{MaxAttempts: 5, Backoff: 2 * time.Second, MaxBackoff: time.Hour, Order: queue.Hold}
	updated.MaxCrashes, updated.Dead.Max, updated.Ack, updated.Pace = 1, 7, queue.AckFsynced, queue.PaceStrict
	updated.HTTP.Hosts = []string{"a", "b"}
	updated.Adapt.Min = queue.Rate{Limit: 1, Period: time.Minute}
	want := []classfile.Change{
		{Field: "capacity", Old: "10", New: "20"},
		{Field: "adapt.min", Old: "none", New: "1/60s"},
		{Field: "pace", Old: "normal", New: "strict"},
		{Field: "max_in_flight", Old: "0", New: "3"},
		{Field: "max_wait", Old: "0s", New: "10m"},
		{Field: "overflow", Old: "reject", New: "drop-oldest"},
		{Field: "retry.backoff", Old: "1s", New: "2s"},
		{Field: "retry.max_backoff", Old: "5m", New: "1h"},
		{Field: "retry.order", Old: "park", New: "hold"},
		{Field: "max_crashes", Old: "3", New: "1"},
		{Field: "retention", Old: "0s", New: "1h"},
		{Field: "dead.max", Old: "100000", New: "7"},
		{Field: "ack", Old: "memory", New: "fsynced"},
		{Field: "http.hosts", Old: "[]", New: "[a, b]"},
	}
	if diff := cmp.Diff(want, classfile.Diff(old, updated)); diff != "" {
		t.Error(diff)
	}
}

// FuzzParse: whatever is in a file, it is read or refused, and what is read is sound.
func FuzzParse(f *testing.F) {
	f.Add("classes: {a: {capacity: 1, rate: 1/1s, http: {hosts: [x]}}}")
	f.Add("classes: {a: {capacity: 1, rate: 1/1s, retry: {backoff: 2s, max_backoff: 1s, order: x}, dead: {max: 1, keep: 1s}, ack: replicated(2)}}")
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
