package jobline_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/cmd/internal/jobline"
	"github.com/spout-queue/spout/queue"
)

func TestParse(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 1, 31, 18, 0, 0, 123456000, time.UTC)
	for _, test := range []struct {
		line string
		want queue.Job
	}{
		{
			`{"class":"c","key":"k","payload":null}`,
			queue.Job{Class: "c", Key: "k", Payload: json.RawMessage("null")},
		},
		{
			` {"payload": {"a": [1, 1.0, "x"]}, "key":"日本語","class":"c" ,"id":"1","type":"t","max_wait":"10m",` +
				`"not_before":"2026-01-31T19:00:00.123456+01:00"} `,
			queue.Job{
				Class: "c", Key: "日本語", ID: "1", Type: "t", Payload: json.RawMessage(`{"a": [1, 1.0, "x"]}`),
				MaxWait: 10 * time.Minute, NotBefore: at,
			},
		},
		{
			`{"class":"c","key":"\ud83d\ude00 � \ufffd \uFFFD","payload":0}`,
			queue.Job{Class: "c", Key: "😀 � � �", Payload: json.RawMessage("0")},
		},
	} {
		got, err := jobline.Parse([]byte(test.line))
		if err != nil {
			t.Errorf("%s: %v", test.line, err)
		} else if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: %s", test.line, diff)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ line, want string }{
		{``, "it is not JSON: it ends too early"},
		{`x`, "it is not JSON: invalid character 'x'"},
		{`[]`, "it is not a JSON object"},
		{`"x"`, "it is not a JSON object"},
		{`null`, "it is not a JSON object"},
		{`{`, "it ends too early"},
		{`{"class":`, "it ends too early"},
		{`{"class" "c"}`, "it is not JSON"},
		{`{class:"c"}`, "it is not JSON"},
		{`{"class":"c","key":"k","payload":{"a":}}`, "it is not JSON"},
		{`{"class":"c","key":"k","payload":1,}`, "it is not JSON"},
		{`{"class":"c","key":"k","payload":1}}`, "something behind the object"},
		{`{"class":"c","key":"k","payload":1} {}`, "something behind the object"},
		{"{\"class\":\"c\",\"key\":\"\xff\",\"payload\":1}", "not valid UTF-8"},
		{`{"class":"c","key":"\ud800","payload":1}`, "half of a surrogate pair"},
		{`{"key":"k","payload":1}`, `field "class" is missing`},
		{`{"class":"c","payload":1}`, `field "key" is missing`},
		{`{"class":"c","key":"k"}`, `field "payload" is missing`},
		{`{"class":"c","class":"c","key":"k","payload":1}`, `field "class" is there twice`},
		{`{"class":"c","Key":"k","payload":1}`, `unknown field "Key"; known are class, key,`},
		{`{"class":"c","key":"k","payload":1,"maxwait":"1s"}`, `unknown field "maxwait"`},
		{`{"class":1,"key":"k","payload":1}`, "class is not a string"},
		{`{"class":"c","key":null,"payload":1}`, "key is not a string"},
		{`{"class":"c","key":"","payload":1}`, "key is empty"},
		{`{"class":"c","key":"k","id":"","payload":1}`, "id is empty"},
		{`{"class":"c","key":"k","max_wait":10,"payload":1}`, "max_wait is not a string"},
		{`{"class":"c","key":"k","max_wait":"10","payload":1}`, `max_wait "10" is not a duration`},
		{`{"class":"c","key":"k","max_wait":"0s","payload":1}`, "max_wait 0s is below 1ms"},
		{`{"class":"c","key":"k","max_wait":"-1s","payload":1}`, "max_wait -1s is below 1ms"},
		{`{"class":"c","key":"k","not_before":"tomorrow","payload":1}`, "not a time in RFC 3339"},
		{`{"class":"c","key":"k","not_before":1,"payload":1}`, "not_before is not a string"},
	} {
		_, err := jobline.Parse([]byte(test.line))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got error %v, want %q in it", test.line, err, test.want)
		} else if !errors.Is(err, queue.ErrInvalid) {
			t.Errorf("%s: %v is not queue.ErrInvalid", test.line, err)
		}
	}
}

// FuzzParse: what is read is what encoding/json reads.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"class":"c","key":"k","payload":{"a":[1,2.5e3,null,"\u0000"]},"id":"\ud83d\ude00","max_wait":"1h"}`))
	f.Add([]byte(`{"class":"c","key":"\ud800","payload":1}`))
	f.Fuzz(func(t *testing.T, line []byte) {
		job, err := jobline.Parse(line)
		if err != nil {
			return
		}
		var loose struct {
			Class, Key, ID, Type string
			Payload              json.RawMessage
		}
		if err := json.Unmarshal(line, &loose); err != nil {
			t.Fatalf("%q: read what is not JSON: %v", line, err)
		}
		if job.Class != loose.Class || job.Key != loose.Key || job.ID != loose.ID || job.Type != loose.Type ||
			string(job.Payload) != string(loose.Payload) {
			t.Errorf("%q: got %+v, want %+v", line, job, loose)
		}
	})
}

// A job may be as deep in a batch as it may be alone.
func TestDepth(t *testing.T) {
	t.Parallel()
	for depth, want := range map[int]bool{499: true, 500: false} { // the job itself is a level
		line := `{"class":"c","key":"k","payload":` + strings.Repeat("[", depth) + strings.Repeat("]", depth) + `}`
		_, err := jobline.Parse([]byte(line))
		if alone := err == nil; alone != want {
			t.Errorf("%d levels alone: %v", depth, err)
		}
		lines, err := jobline.Split([]byte(`{"jobs":[` + line + `]}`))
		if err == nil {
			_, err = jobline.Parse(lines[0])
		}
		if among := err == nil; among != want {
			t.Errorf("%d levels in a batch: %v", depth, err)
		}
	}
}

// A batch of a million jobs is refused before there are as many of anything.
func TestTooMany(t *testing.T) {
	t.Parallel()
	const more = 1_000_000
	lines, err := jobline.Split([]byte(`{"jobs":[` + strings.Repeat("1,", more-1) + `1]}`))
	if !errors.Is(err, queue.ErrTooLarge) || !strings.Contains(err.Error(), "1000000 jobs") || len(lines) > jobline.Most {
		t.Errorf("%d lines: %v", len(lines), err)
	}
	if lines, err := jobline.SplitLines([]byte(strings.Repeat("1\n", more))); !errors.Is(err, queue.ErrTooLarge) || lines != nil {
		t.Errorf("%d lines: %v", len(lines), err)
	}
	if lines, err := jobline.SplitLines([]byte("1\r\n2\n\n")); err != nil || len(lines) != 2 {
		t.Errorf("%q: %v", lines, err)
	}
}
