package meter_test

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/meter"
)

// flaky is a client that can lose its Redis, and counts calls.
type flaky struct {
	*redis.Client
	away  bool
	calls int
}

func (f *flaky) EvalSha(ctx context.Context, sha string, keys []string, args ...any) *redis.Cmd {
	f.calls++
	if f.away {
		cmd := redis.NewCmd(ctx)
		cmd.SetErr(&net.OpError{Op: "dial", Err: errors.New("connection refused")})
		return cmd
	}
	return f.Client.EvalSha(ctx, sha, keys, args...)
}

func TestDenialCache(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rdb := &flaky{Client: redistest.MiniDial(t)}
		store := meter.Redis(rdb)
		l := meter.Limit{Capacity: 2, Count: 1, Period: time.Second}
		m := newMeter(t, store, l, meter.Options{DenialCache: 100})
		plain := newMeter(t, store, l, meter.Options{})
		check(t, m, "k", 2)
		check(t, m, "k", 1)
		asked := rdb.calls
		for range 99 { // until 990 ms
			<-time.After(10 * time.Millisecond)
			got := check(t, m, "k", 1)
			asked++ // for the plain one
			if diff := cmp.Diff(check(t, plain, "k", 1), got); diff != "" {
				t.Fatalf("the cache answers otherwise than Redis (-redis +cache):\n%s", diff)
			}
		}
		if rdb.calls != asked || m.Counts().Cached != 99 {
			t.Errorf("%d calls, %d of the cache; want it to answer alone", rdb.calls-asked, m.Counts().Cached)
		}
		<-time.After(10 * time.Millisecond)
		if d := check(t, m, "k", 1); !d.Conform {
			t.Errorf("after retry-after: %+v", d)
		}
		for name, free := range map[string]func() error{
			"refund": func() error { _, err := m.Refund(t.Context(), "k", 1); return err },
			"reset":  func() error { return m.Reset(t.Context(), "k") },
		} {
			for check(t, m, "k", 1).Conform { // take what there is
			}
			must(t, free())
			if d := check(t, m, "k", 1); !d.Conform {
				t.Errorf("after a %s: %+v", name, d)
			}
		}
	})
}

func TestPenalty(t *testing.T) {
	t.Parallel()
	eachClocked(t, func(t *testing.T, s clocked) {
		t.Helper()
		l := perSecond(1, 1)
		l.Penalty = meter.Penalty{Refusals: 3, Within: 10 * time.Second, For: time.Minute}
		m := newMeter(t, s, l, meter.Options{})
		at := func(after time.Duration, conform bool, retry time.Duration) {
			t.Helper()
			s.set(start + after.Microseconds())
			if d := check(t, m, "k", 1); d.Conform != conform || d.RetryAfter != retry {
				t.Errorf("at %v: %+v; want %v, %v", after, d, conform, retry)
			}
		}
		at(0, true, 0)
		at(0, false, time.Second)
		at(500*time.Millisecond, false, 500*time.Millisecond)
		if d, err := m.Peek(t.Context(), "k", 1); err != nil || d.RetryAfter != 500*time.Millisecond {
			t.Errorf("a peek counted as a refusal: %+v, %v", d, err)
		}
		at(600*time.Millisecond, false, time.Minute) // the third
		at(30*time.Second, false, 30600*time.Millisecond)
		at(60600*time.Millisecond, true, 0)
		at(61*time.Second, false, 600*time.Millisecond)
		at(61*time.Second, false, 600*time.Millisecond)
		at(72*time.Second, true, 0)
		at(72*time.Second, false, time.Second) // the first of another ten seconds
		at(72*time.Second, false, time.Second)
		at(72*time.Second, false, time.Minute)
		must(t, m.Reset(t.Context(), "k"))
		at(72*time.Second, true, 0)
	})
}

func TestShadow(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, s meter.Store) {
		t.Helper()
		l := meter.Limit{Capacity: 2, Count: 1, Period: time.Hour}
		m := newMeter(t, s, l, meter.Options{Shadow: true})
		strict := newMeter(t, s, perSecond(10, 10), meter.Options{})
		check(t, m, "k", 2)
		if d := check(t, m, "k", 1); !d.Conform || !d.Shadow || d.RetryAfter <= 0 {
			t.Errorf("a refusal in shadow: %+v", d)
		}
		if d := check(t, m, "k", 3); !d.Conform || !d.Shadow || !d.Never {
			t.Errorf("an impossible cost in shadow: %+v", d)
		}
		must(t, m.Wait(t.Context(), "k", 3))
		d, err := meter.CheckAll(t.Context(), meter.Claim{Meter: m, Key: "k", Cost: 1}, meter.Claim{Meter: strict, Key: "k", Cost: 1})
		if err != nil || !d.Conform || !d.Each[0].Shadow || d.Each[1].Remaining != 9 {
			t.Errorf("together with another: %+v, %v", d, err)
		}
		want := meter.Counts{Conformed: 1, Refused: 4, Never: 2, Shadow: 4}
		if diff := cmp.Diff(want, m.Counts()); diff != "" {
			t.Errorf("counts (-want +got):\n%s", diff)
		}
	})
}

func TestAway(t *testing.T) {
	t.Parallel()
	rdb := &flaky{Client: redistest.MiniClient(t)}
	store := meter.Redis(rdb)
	l := meter.Limit{Capacity: 10, Count: 10, Period: time.Hour}
	closed := newMeter(t, store, l, meter.Options{})
	open := newMeter(t, store, l, meter.Options{Away: meter.AwayOpen})
	local := newMeter(t, store, l, meter.Options{Away: meter.AwayLocal, Share: 4})
	shadow := newMeter(t, store, l, meter.Options{Shadow: true})
	strict := newMeter(t, store, l, meter.Options{Shadow: true, Away: meter.AwayClosed})
	check(t, closed, "k", 1)
	rdb.away = true
	if d, err := closed.Check(t.Context(), "k", 1); d.Conform || !errors.Is(err, meter.ErrUnavailable) {
		t.Errorf("closed: %+v, %v", d, err)
	}
	if d := check(t, open, "k", 100); !d.Conform || !d.Away {
		t.Errorf("open: %+v", d)
	}
	if d := check(t, shadow, "k", 1); !d.Conform || !d.Away || d.Shadow { // a limit that is only tried out harms nobody
		t.Errorf("in shadow mode: %+v", d)
	}
	if _, err := strict.Check(t.Context(), "k", 1); !errors.Is(err, meter.ErrUnavailable) {
		t.Errorf("in shadow mode, but closed: %v", err)
	}
	for i := range 3 {
		if d := check(t, local, "k", 1); d.Conform != (i < 2) || !d.Away { // 10 / 4
			t.Errorf("local share, call %d: %+v", i, d)
		}
	}
	if d := check(t, local, "k", 3); d.Conform || !d.Never || d.Limit != 2 {
		t.Errorf("local share, more than it holds: %+v", d)
	}
	claim := func(m *meter.Meter, key string) meter.Claim { return meter.Claim{Meter: m, Key: key, Cost: 1} }
	if d, err := meter.CheckAll(t.Context(), claim(open, "a"), claim(local, "b")); err != nil || !d.Conform || !d.Each[1].Away {
		t.Errorf("all, open and local: %+v, %v", d, err)
	}
	if _, err := meter.CheckAll(t.Context(), claim(open, "a"), claim(closed, "b")); !errors.Is(err, meter.ErrUnavailable) {
		t.Errorf("all, one closed: %v", err)
	}
	must(t, local.Reset(t.Context(), "k"))
	if d := check(t, local, "k", 2); !d.Conform {
		t.Errorf("after a reset: %+v", d)
	}
	if closed.Counts().AwayClosed != 2 || open.Counts().AwayOpen != 2 || local.Counts().AwayLocal != 7 {
		t.Errorf("counts: %+v %+v %+v", closed.Counts(), open.Counts(), local.Counts())
	}
	rdb.away = false
	if d := check(t, closed, "k", 1); d.Remaining != 8 || d.Away {
		t.Errorf("back again: %+v", d)
	}
}

func TestCallerGivesUp(t *testing.T) {
	t.Parallel()
	m := newMeter(t, meter.Redis(redistest.MiniClient(t)), perSecond(1, 1), meter.Options{Away: meter.AwayOpen})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if d, err := m.Check(ctx, "k", 1); d.Conform || !errors.Is(err, context.Canceled) {
		t.Errorf("%+v, %v: a caller who gave up is not let through", d, err)
	}
}

func TestLeaseLapses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		rdb := &flaky{Client: redistest.MiniDial(t)}
		m := newMeter(t, meter.Redis(rdb), perSecond(100, 100), meter.Options{Lease: 10})
		for range 10 {
			check(t, m, "k", 1)
		}
		if rdb.calls != 1 {
			t.Errorf("%d round trips for one lease", rdb.calls)
		}
		check(t, m, "k", 1)
		calls := rdb.calls
		<-time.After(time.Second)
		check(t, m, "k", 1)
		if rdb.calls != calls+1 {
			t.Error("a lease lasted longer than the period")
		}
		if d := check(t, m, "k", 101); !d.Never {
			t.Errorf("above the limit: %+v", d)
		}
		must(t, m.Reset(t.Context(), "k"))
		if d := check(t, m, "k", 1); d.Remaining != 99 {
			t.Errorf("after a reset: %+v", d)
		}
	})
}

func TestMemoryIsBounded(t *testing.T) {
	t.Parallel()
	s := memoryAt(100)
	s.set(start)
	m := newMeter(t, s, perSecond(1, 1), meter.Options{})
	for _, k := range keyNames(100) {
		check(t, m, k, 1)
	}
	if _, err := m.Check(t.Context(), "one more", 1); !errors.Is(err, meter.ErrFull) {
		t.Errorf("the 101st key: %v, want ErrFull", err)
	}
	if d := check(t, m, "nobody", 0); !d.Conform || meter.Keys(s.Store) != 100 {
		t.Errorf("a peek: %+v, %d keys", d, meter.Keys(s.Store))
	}
	for i := range int64(300) { // idle keys go while another is used
		s.set(start + time.Second.Microseconds() + i*100_000)
		check(t, m, "user:0", 1)
	}
	if n := meter.Keys(s.Store); n != 1 {
		t.Errorf("%d keys left, want 1", n)
	}
}
