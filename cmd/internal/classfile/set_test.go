package classfile_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/cmd/internal/classfile"
	"github.com/spout-queue/spout/queue"
)

func TestSet(t *testing.T) {
	t.Parallel()
	class := queue.NewClass("x", 1, queue.Rate{Limit: 1, Period: time.Second})
	for name, value := range map[string]string{
		"capacity": "7", "rate": "30/60s", "retry.order": "hold", "max_wait": "10m", "max_payload": "64KiB",
	} {
		if err := classfile.Set(&class, name, value); err != nil {
			t.Error(err)
		}
	}
	want := queue.NewClass("x", 7, queue.Rate{Limit: 30, Period: time.Minute})
	want.Retry.Order, want.MaxWait, want.MaxPayload = queue.Hold, 10*time.Minute, 64<<10
	if diff := cmp.Diff(want, class); diff != "" {
		t.Error(diff)
	}
	for _, test := range []struct{ name, value, says string }{
		{"burst", "1", `there is no setting "burst"; there are capacity, rate, `},
		{"capacity", "many", "capacity is not a whole number"},
		{"capacity", "", "capacity is not a whole number"},
		{"rate", "[", "rate: line 1"},
		{"rate", "5", "there is no /"},
		{"retry.order", "{}", "retry.order is not a single value"},
	} {
		if err := classfile.Set(&class, test.name, test.value); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s=%s: %v, want %q", test.name, test.value, err, test.says)
		}
	}
}
