package revive

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/queue"
)

// morgue has dead jobs for which there is room now and then.
type morgue struct {
	dead   int
	room   []int         // pass by pass; none when it ends
	told   time.Duration // retry-after
	fails  error         // in the last pass that has room
	passes []time.Time
}

func (m *morgue) pass(ctx context.Context, progress func(queue.Revival)) (queue.Revival, error) {
	m.passes = append(m.passes, time.Now())
	if ctx.Err() != nil {
		return queue.Revival{}, queue.ErrUnknown
	}
	var sum queue.Revival
	room := 0
	if len(m.room) > 0 {
		room, m.room = m.room[0], m.room[1:]
	}
	for ; sum.Retried < min(room, m.dead); progress(sum) {
		sum.Retried++
	}
	m.dead -= sum.Retried
	if m.fails != nil && len(m.room) == 0 {
		return sum, m.fails
	}
	if sum.Left = m.dead; m.dead > 0 {
		sum.RetryAfter = m.told
	}
	return sum, nil
}

// revive runs a reviver and tells what it showed last.
func (m *morgue) revive(ctx context.Context, wait bool) (sum queue.Revival, shown queue.Revival, log string, err error) {
	var b strings.Builder
	r := Reviver{
		Wait: wait, Pass: m.pass, Show: func(so queue.Revival) { shown = so },
		Log: slog.New(slog.NewTextHandler(&b, nil)),
	}
	sum, err = r.Run(ctx)
	return sum, shown, b.String(), err
}

// gaps between passes.
func (m *morgue) gaps() []time.Duration {
	var gaps []time.Duration
	for i := 1; i < len(m.passes); i++ {
		gaps = append(gaps, m.passes[i].Sub(m.passes[i-1]))
	}
	return gaps
}

func TestReviverWaits(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, test := range []struct {
		name string
		told time.Duration
		room []int
		want []time.Duration
	}{
		{"room for all", 0, []int{10}, nil},
		{"as told", 2 * time.Second, []int{4, 3, 3}, []time.Duration{2 * time.Second, 2 * time.Second}},
		{"at least", ms, []int{4, 6}, []time.Duration{100 * ms}},
		{"at most", time.Hour, []int{4, 6}, []time.Duration{5 * time.Second}},
		{
			"longer and longer while nobody drains", ms,
			[]int{4, 0, 0, 0, 0, 0, 0, 0, 3, 0, 3},
			[]time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 5000 * ms, 5000 * ms, 100 * ms, 200 * ms},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				m := &morgue{dead: 10, told: test.told, room: test.room}
				sum, shown, log, err := m.revive(t.Context(), true)
				if want := (queue.Revival{Retried: 10}); err != nil || sum != want || shown != want {
					t.Errorf("got %+v, %v; shown %+v", sum, err, shown)
				}
				if diff := cmp.Diff(test.want, m.gaps()); diff != "" {
					t.Error(diff)
				}
				vain := 0
				for _, room := range test.room {
					if room == 0 {
						vain = 1 // all within half a minute
					}
				}
				if n := strings.Count(log, "there is no room: waiting"); n != vain {
					t.Errorf("logged %d times, want %d: %s", n, vain, log)
				}
			})
		})
	}
}

func TestReviverSkips(t *testing.T) {
	t.Parallel()
	m := &morgue{dead: 10, told: time.Hour, room: []int{4}}
	sum, shown, _, err := m.revive(t.Context(), false)
	if want := (queue.Revival{Retried: 4, Left: 6, RetryAfter: time.Hour}); err != nil || sum != want || shown != want {
		t.Errorf("got %+v, %v; shown %+v", sum, err, shown)
	}
}

func TestReviverEndsEarly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		m := &morgue{dead: 10, told: time.Hour, room: []int{4, 3}}
		sum, _, _, err := m.revive(ctx, true)
		if !errors.Is(err, context.DeadlineExceeded) || sum.Retried != 7 {
			t.Errorf("interrupted: got %+v, %v", sum, err)
		}
		sum, _, _, err = m.revive(ctx, true)
		if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, queue.ErrUnknown) || sum.Retried != 0 {
			t.Errorf("interrupted in a call: got %+v, %v", sum, err)
		}
		m = &morgue{dead: 10, room: []int{4, 3}, fails: queue.ErrUnavailable}
		sum, _, _, err = m.revive(t.Context(), true)
		if !errors.Is(err, queue.ErrUnavailable) || sum.Retried != 7 {
			t.Errorf("redis away: got %+v, %v", sum, err)
		}
	})
}
