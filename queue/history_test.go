package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/queue"
)

// recorded moves the clock on to the next point and records it.
func recorded(t *testing.T, c *queue.Client, now *int64, d time.Duration) {
	t.Helper()
	*now += micros(d)
	must(t, c.SetClock(t.Context(), *now))
	_, err := c.RecordPoint(t.Context())
	must(t, err)
}

// history of class c.
func history(t *testing.T, c *queue.Client, span queue.Span) []queue.HistoryPoint {
	t.Helper()
	h, err := c.History(t.Context(), "c", span)
	must(t, err)
	if h.Class != "c" || h.Span != span {
		t.Errorf("history of %s, %s", h.Class, h.Span)
	}
	for i := 1; i < len(h.Points); i++ {
		if d := h.Points[i].At.Sub(h.Points[i-1].At); d <= 0 || d > 2*h.Step {
			t.Fatalf("point %d is %v behind the one before", i, d)
		}
	}
	return h.Points
}

func TestHistory(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c := openAt(t, rdb, 2)
		put(t, c, "c", 5, "1/1s")
		now := start
		recorded(t, c, &now, 0)
		admit(t, c, newJobs("c", "k", 5)...)
		for range 2 {
			_ = refused(t, c, newJob("c", "k", "more"))
		}
		timings := &queue.Timings{}
		for range 100 {
			timings.Lateness.Add(2 * time.Millisecond)
			timings.Wait.Add(3 * time.Second)
		}
		timings.Lateness.Add(time.Second)
		timings.Lateness.Add(time.Second)
		for _, worker := range []string{"a", "b"} {
			_, err := c.Report(t.Context(), queue.Report{Worker: worker, Timings: map[string]*queue.Timings{"c": timings}})
			must(t, err)
		}
		recorded(t, c, &now, 5*time.Second)
		recorded(t, c, &now, 4900*time.Millisecond) // a little early: no slot of its own
		recorded(t, c, &now, 100*time.Millisecond)
		departAll(t, c)
		recorded(t, c, &now, 15*time.Second) // two are missed
		recorded(t, c, &now, 5*time.Second)

		points := history(t, c, queue.Recent)
		if len(points) != 180 {
			t.Fatalf("%d points, want 180", len(points))
		}
		points = points[len(points)-8:]
		var shape strings.Builder
		for _, p := range points {
			switch {
			case !p.Recorded:
				_ = shape.WriteByte('-')
			case p.Over == 0:
				_ = shape.WriteByte('?')
			default:
				_ = shape.WriteByte('x')
			}
		}
		if got := shape.String(); got != "-?xx--?x" {
			t.Fatalf("points %s, want -?xx--?x", got)
		}
		p := points[2]
		if p.Admitted != 5 || p.Rejected != 2 || p.Waiting != 5 || p.Buckets != 1 || p.Over != 5*time.Second || p.Oldest < 4*time.Second {
			t.Errorf("%+v", p)
		}
		if p.Starts != 204 || p.Lateness.P50 < 1750*time.Microsecond || p.Lateness.P50 > 2250*time.Microsecond ||
			p.Lateness.P99 < 800*time.Millisecond || p.Wait.P99 < 2600*time.Millisecond || p.Wait.P99 > 3400*time.Millisecond {
			t.Errorf("timings %d %+v %+v", p.Starts, p.Lateness, p.Wait)
		}
		if rate, ok := p.PerSecond(p.Admitted); !ok || rate != 1 {
			t.Errorf("%v, %v admitted a second, want 1", rate, ok)
		}
		if _, ok := points[6].PerSecond(1); ok {
			t.Error("a rate after a gap")
		}
		if q := points[3]; q.Starts != 0 || q.Admitted != 0 || q.Lateness.P99 != 0 {
			t.Errorf("then nothing happened: %+v", q)
		}
		if q := points[6]; q.Out != 1 || q.Waiting != 4 || q.Departed != 0 {
			t.Errorf("after the gap: %+v", q)
		}

		// Lost totals are a gap, and no spike.
		must(t, rdb.Del(t.Context(), "{spout:0}:stats:c", "{spout:1}:stats:c").Err())
		recorded(t, c, &now, 5*time.Second)
		points = history(t, c, queue.Recent)
		if p := points[len(points)-1]; !p.Recorded || p.Over != 0 {
			t.Errorf("after the totals were lost: %+v", p)
		}
	})
}

func TestHistoryOfADay(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c := openAt(t, rdb, 1)
		put(t, c, "c", 100_000, "1/1s")
		now := start - start%micros(5*time.Minute)
		jobs := newJobs("c", "k", 200)
		for i := range 200 { // 16 min 35 s
			admit(t, c, jobs[i])
			timings := &queue.Timings{}
			timings.Lateness.Add(time.Millisecond)
			_, err := c.Report(t.Context(), queue.Report{Worker: "w", Timings: map[string]*queue.Timings{"c": timings}})
			must(t, err)
			recorded(t, c, &now, 5*time.Second)
		}
		day := history(t, c, queue.Day)
		if len(day) != 288 {
			t.Fatalf("%d points, want 288", len(day))
		}
		for _, p := range day[285:] {
			if !p.Recorded || p.Over != 5*time.Minute && p.Over != 295*time.Second || p.Starts < 58 || p.Starts > 60 || p.Admitted < 59 {
				t.Errorf("%+v", p)
			}
		}
		if day[283].Recorded || !day[284].Recorded {
			t.Errorf("%+v, %+v", day[283], day[284])
		}
		if n := rdb.LLen(t.Context(), "{spout:0}:recent:c").Val(); n != 181 {
			t.Errorf("%d points are kept, want 181", n)
		}
		for _, key := range []string{"recent:c", "day:c", "worker:w", "recorded"} {
			if ttl := rdb.PTTL(t.Context(), "{spout:0}:"+key).Val(); ttl <= 0 || ttl > 26*time.Hour {
				t.Errorf("%s stays for %v", key, ttl)
			}
		}
		if _, err := c.Classes().PurgeWaiting(t.Context(), "c"); err != nil {
			t.Fatal(err)
		}
		must(t, c.Classes().Remove(t.Context(), "c"))
		if n := rdb.Exists(t.Context(), "{spout:0}:recent:c", "{spout:0}:day:c").Val(); n != 0 {
			t.Errorf("%d rings of a removed class are there", n)
		}
		if _, err := c.History(t.Context(), "c", queue.Recent); !errors.Is(err, queue.ErrUnknownClass) {
			t.Errorf("history of a removed class: %v", err)
		}
		if _, err := c.History(t.Context(), "c", "1h"); !errors.Is(err, queue.ErrInvalid) {
			t.Errorf("a span that is none: %v", err)
		}
	})
}

// Of many that record, one does in each slot.
func TestRecord(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, rdb *redis.Client) {
		t.Helper()
		c := open(t, rdb, 1)
		put(t, c, "c", 10, "1/1s")
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		for range 5 {
			go func() {
				c.Record(ctx, slog.New(slog.DiscardHandler))
				ended <- struct{}{}
			}()
		}
		for rdb.LLen(t.Context(), "{spout:0}:recent:c").Val() == 0 {
			<-time.After(time.Millisecond)
		}
		<-time.After(500 * time.Millisecond) // more than any of them waits before its first try
		cancel()
		for range 5 {
			<-ended
		}
		if n := rdb.LLen(t.Context(), "{spout:0}:recent:c").Val(); n > 2 { // the end of a slot may have come
			t.Errorf("%d points in half a second", n)
		}
	})
}

func TestSpread(t *testing.T) {
	t.Parallel()
	for d := time.Duration(0); d < 100*24*time.Hour; d = d*11/10 + time.Microsecond {
		var s queue.Spread
		s.Add(d)
		if got := s.Quantile(0.5); got < d-d/8-time.Microsecond || got > d+d/8+time.Microsecond {
			t.Fatalf("%v is told as %v", d, got)
		}
	}
	var s queue.Spread
	if s.Quantile(0.5) != 0 || s.Count() != 0 || s.String() != "-" {
		t.Error("an empty spread is not empty")
	}
	s.Add(-time.Second)
	s.Add(1 << 62)
	if s.Count() != 2 || s.Quantile(0) != 0 || s.Quantile(1) < 24*time.Hour {
		t.Errorf("%v", &s)
	}
}
