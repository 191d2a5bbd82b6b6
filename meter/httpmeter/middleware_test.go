package httpmeter_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"
	"go.uber.org/goleak"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/meter"
	"github.com/spout-queue/spout/meter/httpmeter"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newMeter(t *testing.T, l meter.Limit, o meter.Options) *meter.Meter {
	t.Helper()
	return meterIn(t, meter.Memory(), l, o)
}

func meterIn(t *testing.T, store meter.Store, l meter.Limit, o meter.Options) *meter.Meter {
	t.Helper()
	m, err := meter.New(store, l, o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func perTenSeconds(capacity int64) meter.Limit {
	return meter.Limit{Capacity: capacity, Count: 1, Period: 10 * time.Second}
}

// byUser is a key out of a header, as a program with authentication would have it.
func byUser(r *http.Request) string { return "user:" + r.Header.Get("User") }

func everybody(*http.Request) string { return "everybody" }

// limited is a handler behind the quotas, that counts what reaches it.
func limited(t *testing.T, o httpmeter.Options, quotas ...httpmeter.Quota) (h http.Handler, reached func() int) {
	t.Helper()
	n := 0
	around, err := httpmeter.Middleware(o, quotas...)
	if err != nil {
		t.Fatal(err)
	}
	return around(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { n++ })), func() int { return n }
}

// reply is an answer that was read to its end.
type reply struct {
	StatusCode int
	Header     http.Header
	Body       []byte
}

// get asks h, without a network.
func get(t *testing.T, h http.Handler, user string) reply {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	r.Header.Set("User", user)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return reply{w.Code, w.Header(), w.Body.Bytes()}
}

// do sends req and reads the answer.
func do(t *testing.T, rt http.RoundTripper, req *http.Request) (reply, error) {
	t.Helper()
	resp, err := rt.RoundTrip(req)
	if err != nil {
		return reply{}, err
	}
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Error(err)
	}
	return reply{resp.StatusCode, resp.Header, b}, resp.Body.Close()
}

// problem reads a problem document.
func problem(t *testing.T, r reply) map[string]any {
	t.Helper()
	if got := r.Header.Get("Content-Type"); got != "application/problem+json" {
		t.Errorf("Content-Type %q", got)
	}
	p := map[string]any{}
	if err := json.Unmarshal(r.Body, &p); err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMiddlewareOverSockets(t *testing.T) {
	t.Parallel()
	h, reached := limited(t, httpmeter.Options{}, httpmeter.Quota{
		Meter: newMeter(t, meter.Limit{Capacity: 2, Count: 1, Period: time.Hour}, meter.Options{}), Key: byUser,
	})
	server := httptest.NewServer(h)
	defer server.Close()
	call := func(method string) reply {
		req, err := http.NewRequestWithContext(t.Context(), method, server.URL, strings.NewReader("a body that nobody reads"))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := do(t, server.Client().Transport, req)
		if err != nil {
			t.Fatal(err)
		}
		return resp
	}
	for i := range 2 {
		resp := call(http.MethodPost)
		left, _, _ := firstLimit(resp.Header.Get("Ratelimit"))
		if policy := resp.Header.Get("Ratelimit-Policy"); resp.StatusCode != http.StatusOK || left != int64(1-i) || policy != `"default";q=2;w=7200` {
			t.Errorf("call %d: %d, RateLimit %q, RateLimit-Policy %q", i, resp.StatusCode, resp.Header.Get("Ratelimit"), policy)
		}
		if got := resp.Header.Get("Retry-After"); got != "" {
			t.Errorf("call %d passed with Retry-After %q", i, got)
		}
	}
	resp := call(http.MethodPost)
	after := resp.Header.Get("Retry-After") // 3600, or less on a slow machine
	want := map[string]any{
		"type":  "https://iana.org/assignments/http-problem-types#quota-exceeded",
		"title": "Request cannot be satisfied as assigned quota has been exceeded", "status": 429.0,
		"detail": "Try again in " + after + " s.", "violated-policies": []any{"default"},
	}
	if resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Ratelimit") != `"default";r=0;t=`+after || len(after) != 4 {
		t.Errorf("refused with %d, Retry-After %q, RateLimit %q", resp.StatusCode, after, resp.Header.Get("Ratelimit"))
	}
	if diff := cmp.Diff(want, problem(t, resp)); diff != "" {
		t.Error(diff)
	}
	if head := call(http.MethodHead); head.StatusCode != http.StatusTooManyRequests || len(head.Body) != 0 {
		t.Errorf("HEAD: %d with a body of %d bytes", head.StatusCode, len(head.Body))
	}
	if got := reached(); got != 2 {
		t.Errorf("%d requests reached the handler, want 2", got)
	}
}

// What is told must be true: after t, and not before, more than r conform, and after Retry-After the request passes.
func TestToldIsTrue(t *testing.T) {
	t.Parallel()
	for _, l := range []meter.Limit{
		{Capacity: 3, Count: 1, Period: 10 * time.Second},
		{Capacity: 5, Count: 2, Period: 7 * time.Second, Algorithm: meter.TokenBucket},
		{Capacity: 1, Count: 200_000, Period: 24 * time.Hour, Algorithm: meter.LeakyBucket},
		{Count: 3, Period: 30 * time.Second, Algorithm: meter.FixedWindow},
		{Count: 3, Period: 1500 * time.Millisecond, Algorithm: meter.SlidingLog},
		{Count: 3, Period: 40 * time.Second, Algorithm: meter.SlidingCounter},
	} {
		t.Run(l.String(), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				h, _ := limited(t, httpmeter.Options{}, httpmeter.Quota{Meter: newMeter(t, l, meter.Options{}), Key: byUser})
				for range 20 {
					<-time.After(1234 * time.Millisecond)
					resp := get(t, h, "ann")
					r, window, _ := firstLimit(resp.Header.Get("Ratelimit"))
					if resp.StatusCode == http.StatusOK {
						if window < 0 || r > 0 {
							continue
						}
						<-time.After(time.Duration(window) * time.Second)
					} else {
						after, err := strconv.Atoi(resp.Header.Get("Retry-After"))
						if err != nil || after < 1 || int64(after) < window {
							t.Fatalf("Retry-After %q with t=%d", resp.Header.Get("Retry-After"), window)
						}
						<-time.After(time.Duration(after) * time.Second)
					}
					if resp := get(t, h, "ann"); resp.StatusCode != http.StatusOK {
						t.Fatalf("came back when told, got %d", resp.StatusCode)
					}
				}
			})
		})
	}
}

// The window of a bucket ends when one more than r fits, rounded up, and not a second later.
func TestWindowOfBuckets(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		h, _ := limited(t, httpmeter.Options{}, httpmeter.Quota{Meter: newMeter(t, perTenSeconds(3), meter.Options{}), Key: byUser})
		for _, step := range []struct {
			sleep time.Duration
			want  string
		}{
			{0, `"default";r=2;t=10`},
			{4 * time.Second, `"default";r=1;t=6`},
			{0, `"default";r=0;t=6`},
			{0, `"default";r=0;t=6`}, // refused
			{26 * time.Second, `"default";r=2;t=10`},
		} {
			<-time.After(step.sleep)
			if got := get(t, h, "ann").Header.Get("Ratelimit"); got != step.want {
				t.Errorf("RateLimit %q, want %q", got, step.want)
			}
		}
	})
}

func TestSeveralQuotas(t *testing.T) {
	t.Parallel()
	store := meter.Memory()
	user := httpmeter.Quota{Name: "user", Meter: meterIn(t, store, perTenSeconds(2), meter.Options{}), Key: byUser}
	all := httpmeter.Quota{Name: "everything", Meter: meterIn(t, store, meter.Limit{Capacity: 3, Count: 1, Period: time.Minute}, meter.Options{}), Key: everybody}
	var reports []string
	h, reached := limited(t, httpmeter.Options{Report: func(_ *http.Request, r httpmeter.Report) { reports = append(reports, r.Quota) }}, user, all)
	for _, name := range []string{"ann", "ann"} {
		if resp := get(t, h, name); resp.StatusCode != http.StatusOK {
			t.Fatalf("%s: %d", name, resp.StatusCode)
		}
	}
	resp := get(t, h, "ann") // her own quota; the other is not charged
	if got := problem(t, resp)["violated-policies"]; resp.StatusCode != http.StatusTooManyRequests || !cmp.Equal(got, []any{"user"}) {
		t.Errorf("third of ann: %d %v", resp.StatusCode, got)
	}
	wantFields := []string{`"user";r=0;t=10`, `"everything";r=1;t=60`}
	if got := resp.Header.Values("Ratelimit"); !cmp.Equal(got, wantFields) {
		t.Errorf("RateLimit %q, want %q", got, wantFields)
	}
	if resp := get(t, h, "bob"); resp.StatusCode != http.StatusOK {
		t.Errorf("bob: %d", resp.StatusCode)
	}
	resp = get(t, h, "bob") // bob has one left, but there is none for anybody
	if got := problem(t, resp)["violated-policies"]; !cmp.Equal(got, []any{"everything"}) || resp.Header.Get("Retry-After") != "60" {
		t.Errorf("second of bob: Retry-After %q, violated %v", resp.Header.Get("Retry-After"), got)
	}
	resp = get(t, h, "ann") // both refuse: the longer one counts
	if got := problem(t, resp)["violated-policies"]; !cmp.Equal(got, []any{"user", "everything"}) || resp.Header.Get("Retry-After") != "60" {
		t.Errorf("fourth of ann: Retry-After %q, violated %v", resp.Header.Get("Retry-After"), got)
	}
	if reached() != 3 {
		t.Errorf("%d reached the handler, want 3", reached())
	}
	if want := []string{"user", "everything", "user", "everything"}; !cmp.Equal(reports, want) {
		t.Errorf("reports %v, want %v", reports, want)
	}
}

// On Redis the quotas of a request are one round trip, as in memory.
func TestOnRedis(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		store := meter.Redis(rdb)
		h, reached := limited(t, httpmeter.Options{},
			httpmeter.Quota{Name: "user", Meter: meterIn(t, store, meter.Limit{Capacity: 2, Count: 1, Period: time.Hour}, meter.Options{}), Key: byUser},
			httpmeter.Quota{Name: "everything", Meter: meterIn(t, store, meter.Limit{Capacity: 3, Count: 1, Period: time.Hour}, meter.Options{}), Key: everybody})
		for i, c := range []struct {
			user   string
			status int
		}{{"ann", 200}, {"ann", 200}, {"ann", 429}, {"bob", 200}, {"bob", 429}} {
			if resp := get(t, h, c.user); resp.StatusCode != c.status {
				t.Errorf("request %d, of %s: %d, want %d", i, c.user, resp.StatusCode, c.status)
			}
		}
		if reached() != 3 {
			t.Errorf("%d reached the handler, want 3", reached())
		}
	})
}

func TestNested(t *testing.T) {
	t.Parallel()
	inner, err := httpmeter.Middleware(httpmeter.Options{}, httpmeter.Quota{Name: "inner", Meter: newMeter(t, perTenSeconds(1), meter.Options{}), Key: byUser})
	if err != nil {
		t.Fatal(err)
	}
	outer, err := httpmeter.Middleware(httpmeter.Options{}, httpmeter.Quota{Name: "outer", Meter: newMeter(t, perTenSeconds(5), meter.Options{}), Key: byUser})
	if err != nil {
		t.Fatal(err)
	}
	h := outer(inner(http.NotFoundHandler()))
	_ = get(t, h, "ann")
	resp := get(t, h, "ann")
	if want := []string{`"outer";r=3;t=10`, `"inner";r=0;t=10`}; !cmp.Equal(resp.Header.Values("Ratelimit"), want) {
		t.Errorf("RateLimit %q, want %q", resp.Header.Values("Ratelimit"), want)
	}
	if _, _, n := firstLimit(resp.Header.Values("Ratelimit")...); n != 2 {
		t.Errorf("%d items", n)
	}
}

func TestNever(t *testing.T) {
	t.Parallel()
	h, _ := limited(t, httpmeter.Options{}, httpmeter.Quota{
		Meter: newMeter(t, perTenSeconds(2), meter.Options{}), Key: byUser, Cost: func(*http.Request) int64 { return 3 },
	})
	resp := get(t, h, "ann")
	if _, has := resp.Header["Retry-After"]; resp.StatusCode != http.StatusTooManyRequests || has {
		t.Errorf("%d, Retry-After there: %v", resp.StatusCode, has)
	}
	if got := problem(t, resp)["detail"]; got != "This request costs more than the quota can ever hold." {
		t.Errorf("detail %q", got)
	}
}

func TestShadow(t *testing.T) {
	t.Parallel()
	var reports []httpmeter.Report
	h, reached := limited(t, httpmeter.Options{NoFields: true, Report: func(_ *http.Request, r httpmeter.Report) { reports = append(reports, r) }},
		httpmeter.Quota{Meter: newMeter(t, perTenSeconds(1), meter.Options{Shadow: true}), Key: byUser})
	for range 3 {
		resp := get(t, h, "ann")
		if resp.StatusCode != http.StatusOK || len(resp.Header) != 0 {
			t.Errorf("%d, header %v", resp.StatusCode, resp.Header)
		}
	}
	if reached() != 3 || len(reports) != 2 || !reports[0].Decision.Shadow {
		t.Errorf("reached %d, reports %+v", reached(), reports)
	}
}

func TestXRateLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) { // which begins on 2000-01-01
		store := meter.Memory()
		h, _ := limited(t, httpmeter.Options{XRateLimit: true},
			httpmeter.Quota{Name: "wide", Meter: meterIn(t, store, perTenSeconds(9), meter.Options{}), Key: byUser},
			httpmeter.Quota{Name: "narrow", Meter: meterIn(t, store, meter.Limit{Capacity: 2, Count: 1, Period: 1500 * time.Millisecond}, meter.Options{}), Key: byUser})
		got := get(t, h, "ann").Header
		want := map[string]string{"X-Ratelimit-Limit": "2", "X-Ratelimit-Remaining": "1", "X-Ratelimit-Reset": "946684802"}
		for name, value := range want {
			if got.Get(name) != value {
				t.Errorf("%s: %q, want %q", name, got.Get(name), value)
			}
		}
	})
}

// away is a Redis that cannot be reached.
type away struct{ redis.Scripter }

func (away) EvalSha(ctx context.Context, _ string, _ []string, _ ...any) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	cmd.SetErr(&net.OpError{Op: "dial", Net: "tcp", Err: errors.New("nobody there")})
	return cmd
}

func TestAway(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		away     meter.Away
		statuses []int
	}{
		{meter.AwayClosed, []int{503, 503, 503}},
		{meter.AwayOpen, []int{200, 200, 200}},
		{meter.AwayLocal, []int{200, 200, 429}},
	} {
		t.Run(string(c.away), func(t *testing.T) {
			t.Parallel()
			var reports []httpmeter.Report
			h, _ := limited(t, httpmeter.Options{Report: func(_ *http.Request, r httpmeter.Report) { reports = append(reports, r) }}, httpmeter.Quota{
				Meter: meterIn(t, meter.Redis(away{}), perTenSeconds(4), meter.Options{Away: c.away, Share: 2}), Key: byUser,
			})
			for i, want := range c.statuses {
				resp := get(t, h, "ann")
				if resp.StatusCode != want || resp.Header.Get("Ratelimit") != "" {
					t.Errorf("call %d: %d, want %d; RateLimit %q", i, resp.StatusCode, want, resp.Header.Get("Ratelimit"))
				}
				if (want == http.StatusTooManyRequests) != (resp.Header.Get("Retry-After") != "") {
					t.Errorf("call %d: %d with Retry-After %q", i, want, resp.Header.Get("Retry-After"))
				}
				if want == http.StatusServiceUnavailable {
					if p := problem(t, resp); p["type"] != "about:blank" || strings.Contains(string(resp.Body), "nobody there") {
						t.Errorf("problem %v", p)
					}
				}
			}
			if len(reports) != 3 || reports[0].Decision.Away == errors.Is(reports[0].Err, meter.ErrUnavailable) {
				t.Errorf("reports %+v", reports)
			}
		})
	}
}

func TestUndecided(t *testing.T) {
	t.Parallel()
	full := meter.MemoryOf(1)
	h, reached := limited(t, httpmeter.Options{}, httpmeter.Quota{Meter: meterIn(t, full, perTenSeconds(1), meter.Options{}), Key: byUser})
	for _, c := range []struct {
		user   string
		status int
	}{{"ann", 200}, {"bob", 503}, {strings.Repeat("x", 1<<20), 400}} {
		if resp := get(t, h, c.user); resp.StatusCode != c.status {
			t.Errorf("%.10s: %d, want %d", c.user, resp.StatusCode, c.status)
		}
	}
	h, _ = limited(t, httpmeter.Options{}, httpmeter.Quota{
		Meter: newMeter(t, perTenSeconds(1), meter.Options{}), Key: byUser, Cost: func(*http.Request) int64 { return -1 },
	})
	if resp := get(t, h, "ann"); resp.StatusCode != http.StatusBadRequest {
		t.Errorf("negative cost: %d", resp.StatusCode)
	}
	if reached() != 1 {
		t.Errorf("%d reached the handler", reached())
	}
}

func TestMiddlewareRefusesBadQuotas(t *testing.T) {
	t.Parallel()
	m := newMeter(t, perTenSeconds(1), meter.Options{})
	for what, quotas := range map[string][]httpmeter.Quota{
		"none":      nil,
		"no meter":  {{Key: byUser}},
		"no key":    {{Meter: m}},
		"two":       {{Meter: m, Key: byUser}, {Meter: m, Key: everybody}},
		"long name": {{Name: strings.Repeat("n", 65), Meter: m, Key: byUser}},
		"umlaut":    {{Name: "größe", Meter: m, Key: byUser}},
		"line feed": {{Name: "a\r\nb", Meter: m, Key: byUser}},
		"unit":      {{Unit: "\x00", Meter: m, Key: byUser}},
	} {
		if _, err := httpmeter.Middleware(httpmeter.Options{}, quotas...); !errors.Is(err, httpmeter.ErrInvalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestPolicyField(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		limit meter.Limit
		unit  string
		want  string
	}{
		{meter.Limit{Capacity: 20, Count: 10, Period: time.Second}, "", `"n";q=20;w=2`},
		{meter.Limit{Capacity: 1, Count: 10, Period: time.Second}, "", `"n";q=10;w=1`},
		{meter.Limit{Capacity: 1, Count: 2, Period: 3 * time.Second}, "", `"n";q=1;w=2`},
		{meter.Limit{Capacity: 50, Count: 200_000, Period: 24 * time.Hour}, "", `"n";q=50;w=22`},
		{meter.Limit{Count: 100, Period: time.Minute, Algorithm: meter.FixedWindow}, "", `"n";q=100;w=60`},
		{meter.Limit{Count: 3, Period: 1500 * time.Millisecond, Algorithm: meter.SlidingLog}, "", `"n";q=4;w=2`},
		{meter.Limit{Capacity: 1e10, Count: 1e10, Period: time.Second}, "content-bytes", `"n";q=10000000000;qu="content-bytes";w=1`},
		{meter.Limit{Capacity: 9e15, Count: 1e15, Period: time.Second}, "", `"n";q=999999999999999;w=9`},
	} {
		m, err := meter.New(meter.Memory(), c.limit, meter.Options{})
		if err != nil {
			t.Errorf("%s: %v", c.limit, err)
			continue
		}
		if got := httpmeter.PolicyField(httpmeter.Quota{Name: "n", Meter: m, Unit: c.unit}); got != c.want {
			t.Errorf("%s: %s, want %s", c.limit, got, c.want)
		}
	}
}
