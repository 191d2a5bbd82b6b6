package httpmeter_test

import (
	"net/http"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/spout-queue/spout/internal/ratelimit"
	"github.com/spout-queue/spout/meter/httpmeter"
)

// What the middleware writes, is read, for its time at least.
func FuzzLimitField(f *testing.F) {
	f.Add("default", int64(1), int64(time.Second))
	f.Add(`a"b\c`, int64(-1), int64(1))
	f.Fuzz(func(t *testing.T, name string, remaining, window int64) {
		for i := range len(name) {
			if name[i] < ' ' || name[i] > '~' {
				return
			}
		}
		if len(name) > 64 {
			return
		}
		field := httpmeter.LimitField(name, remaining, time.Duration(window))
		wait, _ := ratelimit.Wait(http.StatusOK, http.Header{"Ratelimit": {field, field}}, time.Now())
		switch {
		case remaining <= 0 && window > 0 && wait < time.Duration(window):
			t.Errorf("%s: read a wait of %v, want %v", field, wait, time.Duration(window))
		case remaining > 0 && wait != 0:
			t.Errorf("%s: read a wait of %v", field, wait)
		}
	})
}

// firstLimit reads a RateLimit field: r and t (or -1) of its first item, and how many items there are.
func firstLimit(lines ...string) (remaining, window int64, n int) {
	list, err := httpsfv.UnmarshalList(lines)
	if err != nil || len(list) == 0 {
		return 0, 0, 0
	}
	item, _ := list[0].(httpsfv.Item)
	r, _ := item.Params.Get("r")
	remaining, _ = r.(int64)
	t, has := item.Params.Get("t")
	if window, _ = t.(int64); !has {
		window = -1
	}
	return remaining, window, len(list)
}
