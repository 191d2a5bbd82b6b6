package answer_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/cmd/internal/answer"
	"github.com/spout-queue/spout/cmd/internal/exit"
	"github.com/spout-queue/spout/queue"
)

// told is an error that came with its reason.
type told queue.Reason

func (e told) Error() string        { return "no" }
func (e told) Reason() queue.Reason { return queue.Reason(e) }

// TestExit has the table of design.md, section 7.
func TestExit(t *testing.T) {
	t.Parallel()
	full := func(reason queue.Reason) error { return &queue.FullError{Reason: reason} }
	for _, test := range []struct {
		err    error
		reason queue.Reason
		status int
	}{
		{full("full"), "full", 75},
		{full("class_full"), "class_full", 75},
		{full("would_expire"), "would_expire", 75},
		{full("store_full"), "store_full", 75},
		{full("draining"), "draining", 75},
		{queue.ErrConflict, "conflict", 65},
		{queue.ErrInvalid, "invalid", 65},
		{queue.ErrTooLarge, "too_large", 65},
		{queue.ErrUnknownClass, "unknown_class", 65},
		{queue.ErrUnavailable, "unavailable", 69},
		{queue.ErrUnknown, "unknown", 69},
		{fmt.Errorf("%w: %w", queue.ErrUnknown, context.Canceled), "unknown", 69},
		{queue.ErrNotFound, "not_found", 65},
		{&queue.BusyError{Class: "c"}, "busy", 75},
		{queue.ErrUnfit, "unfit", 78},
		{queue.ErrSchema, "unfit", 78},
		{told("denied"), "denied", 77},
		{told("unauthenticated"), "unauthenticated", 77},
		{told("not_found"), "not_found", 65},
		{told("store_full"), "store_full", 75},
		{told("something new"), "something new", 70},
		{exit.Dataf("line 1"), "invalid", 65},
		{exit.Usagef("x"), "", 64},
		{exit.Configf("x"), "", 78},
		{exit.Silent(exit.Found), "", 1},
		{context.Canceled, "", 130},
	} {
		err := fmt.Errorf("wrapped: %w", test.err)
		if got := answer.Reason(err); got != test.reason {
			t.Errorf("%v: reason %q, want %q", err, got, test.reason)
		}
		if got := answer.Exit(err); got != test.status {
			t.Errorf("%v: exit %d, want %d", err, got, test.status)
		}
	}
	if got := answer.Exit(nil); got != 0 {
		t.Errorf("no error: exit %d", got)
	}
}

func TestRejection(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		err  queue.FullError
		want string
	}{
		{
			queue.FullError{Reason: queue.ReasonFull, RetryAfter: time.Microsecond, Level: 2, Capacity: 2},
			`"reason":"full","retry_after_ms":1,"level":2,"capacity":2,`,
		},
		{queue.FullError{Reason: queue.ReasonClassFull, Capacity: 2}, `"reason":"class_full","retry_after_ms":0,"level":0,"capacity":2,`},
		{queue.FullError{Reason: queue.ReasonFull, Paused: true, Level: 2, Capacity: 2}, `"reason":"full","level":2,"capacity":2,`},
	} {
		b, err := json.Marshal(answer.Rejection{Err: &test.err})
		if err != nil || !strings.HasPrefix(string(b), `{"status":"rejected",`+test.want+`"detail":"`) {
			t.Errorf("got %s, %v; want %s", b, err, test.want)
		}
	}
}

func TestOfLine(t *testing.T) {
	t.Parallel()
	receipt := queue.Receipt{
		Ref: "0-x", ID: "1", Status: queue.Admitted, Position: 1, Level: 1, Capacity: 2,
		EstimatedStart: time.UnixMicro(1767225600000001), Wait: time.Millisecond + 1,
	}
	b, err := json.Marshal(answer.OfLine{Line: 7, Answer: receipt})
	want := `{"line":7,"ref":"0-x","id":"1","status":"admitted","position":1,"level":1,"capacity":2,` +
		`"estimated_start":"2026-01-01T00:00:00.000001Z","wait_ms":2}`
	if err != nil || string(b) != want {
		t.Errorf("got %s, %v", b, err)
	}
}

type thing struct {
	Name string `json:"name"`
	N    int    `json:"n"`
}

func columns() []answer.Column[thing] {
	return []answer.Column[thing]{
		{Name: "name", Cell: func(t thing) any { return t.Name }},
		{Name: "number", Cell: func(t thing) any { return t.N }},
	}
}

func TestPrinter(t *testing.T) {
	t.Parallel()
	things := []thing{{"a", 1}, {"日本語 \x1b[31mred\nline", 12345678}}
	var people, program strings.Builder
	for w, asJSON := range map[*strings.Builder]bool{&people: false, &program: true} {
		p := answer.NewPrinter(w, asJSON)
		err := errors.Join(
			answer.List(p, things, columns()...),
			answer.List(p, nil, columns()...),
			answer.One(p, thing{"", 5}, columns()...),
			p.Linef("%d things", 2),
			p.Object(thing{"only", 0}),
		)
		if err != nil {
			t.Error(err)
		}
	}
	want := "NAME                      NUMBER\n" +
		"a                         1\n" +
		`日本語 \x1b[31mred\nline  12345678` + "\n" +
		"number  5\n" +
		"2 things\n"
	if got := people.String(); got != want {
		t.Errorf("people read\n%s\nwant\n%s", got, want)
	}
	want = `{"name":"a","n":1}
{"name":"日本語 \u001b[31mred\nline","n":12345678}
{"name":"","n":5}
{"name":"only","n":0}
`
	if got := program.String(); got != want {
		t.Errorf("programs read\n%s\nwant\n%s", got, want)
	}
}

func TestAnnotated(t *testing.T) {
	t.Parallel()
	notes := func(t thing) []string { return make([]string, t.N) }
	var people, program strings.Builder
	for w, asJSON := range map[*strings.Builder]bool{&people: false, &program: true} {
		p := answer.NewPrinter(w, asJSON)
		err := errors.Join(
			answer.Annotated(p, []thing{{"a", 0}, {"b", 2}, {"c", 1}}, notes, columns()...),
			answer.Annotated(p, nil, notes, columns()...),
		)
		if err != nil {
			t.Error(err)
		}
	}
	if want := "NAME  NUMBER\na     0\nb     2\n  \n  \nc     1\n  \n"; people.String() != want {
		t.Errorf("people read\n%s", people.String())
	}
	if n := strings.Count(program.String(), "\n"); n != 3 {
		t.Errorf("programs read\n%s", program.String())
	}
}

func TestReceipt(t *testing.T) {
	t.Parallel()
	receipt := queue.Receipt{
		Ref: "0-x", ID: "1", Status: queue.Admitted, Position: 1, Level: 1, Capacity: 2,
		EstimatedStart: time.UnixMicro(1767225600000001).UTC(), Wait: time.Millisecond, Ack: queue.AckMemory,
	}
	const least = `ref       0-x
id        1
status    admitted
position  1
level     1 of 2
starts    2026-01-01T00:00:00.000001Z (in 1ms)
`
	more := receipt
	more.Ack, more.Dropped = queue.AckReplicated(2), "0-y"
	for want, receipt := range map[string]queue.Receipt{
		least: receipt,
		least + "ack       replicated(2)\ndropped   0-y\n": more,
	} {
		var b strings.Builder
		if err := answer.Receipt(answer.NewPrinter(&b, false), receipt); err != nil || b.String() != want {
			t.Errorf("got\n%s%v", b.String(), err)
		}
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestPrinterCannotWrite(t *testing.T) {
	t.Parallel()
	err := answer.NewPrinter(broken{}, false).Linef("x")
	if answer.Exit(err) != exit.IO || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("got %v", err)
	}
}
