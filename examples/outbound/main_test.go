package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/internal/redistest"
)

func TestOutbound(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	args := []string{"-redis", redistest.Start(t).Addr, "-calls", "60", "-tenants", "4", "-scale", "20"}
	if err := run(t.Context(), args, &out); err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		`naive, 50 at a time +\d`,
		`client limiter, 2 processes +\d`,
		`Spout, 2 workers +0 .* 0\n`,
	} {
		if !regexp.MustCompile(row).MatchString(out.String()) {
			t.Errorf("no row %s in\n%s", row, &out)
		}
	}
}

func TestWrongTasks(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"-tenants", "0"}, {"-calls", "1"}, {"-scale", "0"}} {
		if err := run(t.Context(), args, &strings.Builder{}); err == nil || !strings.Contains(err.Error(), "above zero") {
			t.Errorf("%v: %v", args, err)
		}
	}
}

// The API is strict: by the log of all calls, in any window.
func TestAPI(t *testing.T) {
	t.Parallel()
	a := newAPI(limit{calls: 3, window: time.Minute, burst: 2, moment: time.Second})
	began := time.Now()
	for i, call := range []struct {
		n    int
		at   time.Duration
		wait time.Duration
	}{
		{1, 0, 0},
		{3, 0, 0},
		{2, 400 * time.Millisecond, 600 * time.Millisecond}, // the burst
		{2, time.Second, 0},                    // and late
		{4, 2 * time.Second, 58 * time.Second}, // the window
		{4, time.Minute, 0},
	} {
		if wait := a.take("a", call.n, began.Add(call.at)); wait != call.wait {
			t.Errorf("call %d at %v: wait %v, want %v", i, call.at, wait, call.wait)
		}
	}
	if wait := a.take("b", 1, began); wait != 0 {
		t.Errorf("another tenant waits %v", wait)
	}
	if taken, refused, disorder := a.seen(); taken != 5 || refused != 2 || disorder != 1 {
		t.Errorf("%d taken, %d refused, %d out of order; want 5, 2, 1", taken, refused, disorder)
	}
}
