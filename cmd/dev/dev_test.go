package main

import (
	"bytes"
	"strings"
	"testing"
)

// The demo is the first thing a newcomer sees: the burst must be smoothed, and the naive calls must not be.
func TestBurstIsSmoothed(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	if err := run(t.Context(), []string{"-once"}, &out); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		"Nothing here survives its exit",
		"Without Spout: 60 calls at once, 12 done, 48 answered 429",
		"15 admitted, 5 rejected: bucket full",
		"60 calls done in ",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the demo does not say %q:\n%s", want, text)
		}
	}
}
