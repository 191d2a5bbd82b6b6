package meter_test

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/spout-queue/spout/meter"
)

// vector is a trace of one meter at exact times.
type vector struct {
	Name      string          `json:"name"`
	Algorithm meter.Algorithm `json:"algorithm"`
	Capacity  int64           `json:"capacity"`
	Limit     int64           `json:"limit"`
	PeriodUS  int64           `json:"period_us"`
	Align     meter.Align     `json:"align"`
	Steps     []struct {
		AtUS         int64  `json:"at_us"`
		Cost         int64  `json:"cost"`
		Conform      bool   `json:"conform"`
		Remaining    *int64 `json:"remaining"`
		ResetAfterUS *int64 `json:"reset_after_us"`
		RetryAfterUS *int64 `json:"retry_after_us"`
	} `json:"steps"`
}

func readVectors(t *testing.T) []vector {
	t.Helper()
	b, err := os.ReadFile("testdata/meter.json")
	must(t, err)
	var file struct {
		Vectors []vector `json:"vectors"`
	}
	must(t, json.Unmarshal(b, &file))
	if len(file.Vectors) == 0 {
		t.Fatal("testdata/meter.json has no vectors")
	}
	return file.Vectors
}

func TestVectors(t *testing.T) {
	t.Parallel()
	eachClocked(t, func(t *testing.T, s clocked) {
		t.Helper()
		for _, v := range readVectors(t) {
			t.Run(v.Name, func(t *testing.T) { runVector(t, s, v) })
		}
	})
}

func runVector(t *testing.T, s clocked, v vector) {
	t.Helper()
	m := newMeter(t, s, meter.Limit{
		Algorithm: v.Algorithm, Capacity: v.Capacity, Count: v.Limit, Align: v.Align,
		Period: time.Duration(v.PeriodUS) * time.Microsecond,
	}, meter.Options{})
	for i, e := range v.Steps {
		s.set(e.AtUS)
		peek, err := m.Peek(t.Context(), v.Name, e.Cost)
		must(t, err)
		d := check(t, m, v.Name, e.Cost)
		if peek.Conform != d.Conform || peek.RetryAfter != d.RetryAfter || peek.Never != d.Never {
			t.Errorf("step %d at %d: peek says %+v, check %+v", i, e.AtUS, peek, d)
		}
		if d.Conform != e.Conform {
			t.Errorf("step %d at %d: conform %v, want %v", i, e.AtUS, d.Conform, e.Conform)
		}
		if e.Remaining == nil { // only conformance is given
			continue
		}
		if d.Remaining != *e.Remaining || d.ResetAfter.Microseconds() != *e.ResetAfterUS {
			t.Errorf("step %d at %d: remaining %d, reset after %d µs; want %d, %d", i, e.AtUS,
				d.Remaining, d.ResetAfter.Microseconds(), *e.Remaining, *e.ResetAfterUS)
		}
		want, never := int64(0), !e.Conform && e.RetryAfterUS == nil
		if e.RetryAfterUS != nil {
			want = *e.RetryAfterUS
		}
		if d.Never != never || d.RetryAfter.Microseconds() != want {
			t.Errorf("step %d at %d: never %v, retry after %d µs; want %v, %d", i, e.AtUS,
				d.Never, d.RetryAfter.Microseconds(), never, want)
		}
	}
}
