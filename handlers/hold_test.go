package handlers_test

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/spout-queue/spout/handlers"
)

// held tells what the scheduler asks an error.
func held(err error) (time.Duration, bool, bool) {
	var h interface {
		Hold() (time.Duration, bool)
	}
	if !errors.As(err, &h) {
		return 0, false, false
	}
	d, class := h.Hold()
	return d, class, true
}

func TestServiceIsHeard(t *testing.T) {
	t.Parallel()
	const s = time.Second
	for name, test := range map[string]struct {
		status   int
		header   string
		settings string // besides allow_private
		want     time.Duration
		class    bool
		say      string
	}{
		"429 with seconds":            {429, "Retry-After: 30", "", 30 * s, false, "Retry-After asks for 30s"},
		"429 with a date":             {429, "Retry-After: in 100 s, as a date", "", 100 * s, false, "Retry-After asks for"},
		"429 with RateLimit":          {429, `RateLimit: "a";r=0;t=9`, "", 9 * s, false, "RateLimit asks for 9s"},
		"429 with X-RateLimit":        {429, "X-RateLimit-Reset: 9", "", 9 * s, false, "X-Ratelimit-Reset asks for 9s"},
		"429 without a time":          {429, "", "", s, false, "it does not say until when, number 1 in a row"},
		"429 with none":               {429, "Retry-After: 0", "", s, false, "it does not say until when"},
		"503 with a time":             {503, "Retry-After: 30", "", 30 * s, false, "Retry-After asks for 30s"},
		"503 without":                 {503, "", "", 0, false, "answered 503"},
		"403 with a time":             {403, "Retry-After: 30", "", 30 * s, false, "answered 403 Forbidden; Retry-After asks for 30s"},
		"403 of a limit":              {403, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 30", "", 30 * s, false, "answered 403"},
		"403 without":                 {403, "X-RateLimit-Remaining: 7\nX-RateLimit-Reset: 30", "", 0, false, "answered 403"},
		"500 with a time":             {500, "Retry-After: 30", "", 0, false, "answered 500"},
		"302 with a time":             {302, "Retry-After: 30", "", 0, false, "answered 302"},
		"200 with nothing left":       {200, "X-RateLimit-Remaining: 0\nX-RateLimit-Reset: 30", "", 0, false, ""},
		"the class is held":           {429, "Retry-After: 30", `,"hold":"class"`, 30 * s, true, "held for 3"},
		"the bucket is held":          {429, "Retry-After: 30", `,"hold":"bucket"`, 30 * s, false, "held for 3"},
		"cut to an hour":              {429, "Retry-After: 86400", "", time.Hour, false, "Retry-After asks for 24h0m0s; held for 1h0m"},
		"cut to what the class says":  {429, "Retry-After: 86400", `,"max_hold":"10m"`, 10 * time.Minute, false, "held for 10m"},
		"a short one is not extended": {429, "Retry-After-Ms: 1", `,"max_hold":"10m"`, time.Millisecond, false, "asks for 1ms"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := newService(t, func(w http.ResponseWriter, _ *http.Request) {
				for line := range strings.SplitSeq(test.header, "\n") {
					if name, value, ok := strings.Cut(line, ": "); ok {
						if strings.HasSuffix(value, "as a date") {
							value = time.Now().Add(100 * s).UTC().Format(http.TimeFormat)
						}
						w.Header().Set(name, value)
					}
				}
				w.WriteHeader(test.status)
			})
			err := newCall(t, handlers.HTTPOptions{}).ProcessTask(t.Context(), taskIn(t, object{"url": srv.URL}, `{"allow_private":true`+test.settings+`}`))
			got, class, ok := held(err)
			if ok != (test.want > 0) || class != test.class || errors.Is(err, asynq.SkipRetry) {
				t.Fatalf("got %v; hold %v of class: %v, want %v, %v", err, got, class, test.want, test.class)
			}
			low, high := test.want, test.want+min(test.want/10, 5*s)
			if strings.Contains(name, "date") {
				low, high = low-2*s, high+s // whole seconds, and time has passed
			}
			if got < low || got > high {
				t.Errorf("held for %v, want it between %v and %v", got, low, high)
			}
			var throttled interface{ Throttled() bool }
			if errors.As(err, &throttled) && ok && throttled.Throttled() != (test.status != 503) {
				t.Errorf("%v is for too many calls: %v", err, throttled.Throttled())
			}
			if test.say != "" && (err == nil || !strings.Contains(err.Error(), test.say)) {
				t.Errorf("got %v, want %q in it", err, test.say)
			}
			var status *handlers.StatusError
			if test.status != 200 && (!errors.As(err, &status) || status.Status != test.status) {
				t.Errorf("%v is not about status %d", err, test.status)
			}
		})
	}
}

// TestHoldsGrow: a service that does not say until when is left alone longer each time, per bucket, until it answers
// something else.
func TestHoldsGrow(t *testing.T) {
	t.Parallel()
	var status atomic.Int64
	status.Store(http.StatusTooManyRequests)
	srv := newService(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(int(status.Load())) })
	h := newCall(t, handlers.HTTPOptions{})
	payload := []byte(`{"url":"` + srv.URL + `"}`)
	in := func(key string) time.Duration {
		t.Helper()
		d, _, _ := held(h.ProcessTask(t.Context(), asynq.NewTaskWithHeaders(handlers.HTTPCallType, payload,
			map[string]string{"Spout-Class": "c", "Spout-Key": key, "Spout-Http": `{"allow_private":true}`})))
		return d
	}
	about := func(key string, want time.Duration) {
		t.Helper()
		if d := in(key); d < want || d > want+want/10 {
			t.Errorf("bucket %s is held for %v, want about %v", key, d, want)
		}
	}
	const s = time.Second
	for _, want := range []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, time.Minute, time.Minute} {
		about("a", want)
	}
	about("b", time.Second)
	status.Store(http.StatusOK)
	if d := in("a"); d != 0 {
		t.Errorf("held for %v by an answer of 200", d)
	}
	status.Store(http.StatusTooManyRequests)
	about("a", time.Second)
	about("b", 2*time.Second)
}

// TestJitterIsSpread: what is held together does not come back together.
func TestJitterIsSpread(t *testing.T) {
	t.Parallel()
	srv := newService(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "100")
		w.WriteHeader(http.StatusTooManyRequests)
	})
	h := newCall(t, handlers.HTTPOptions{})
	seen := map[time.Duration]bool{}
	for range 20 {
		d, _, _ := held(h.ProcessTask(t.Context(), task(t, object{"url": srv.URL})))
		seen[d] = true
	}
	if len(seen) < 10 {
		t.Errorf("20 holds have only %d lengths", len(seen))
	}
}
