package queue_test

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// TestFractionalIntervalsDoNotDrift: 20,000 departures of a worker that sleeps as it is told, against exact arithmetic.
func TestFractionalIntervalsDoNotDrift(t *testing.T) {
	t.Parallel()
	for rate, departures := range map[queue.Rate]int64{{7, time.Second}: 20_000, {7000, 3 * time.Second}: 4_000} {
		if raceEnabled {
			departures /= 5
		}
		t.Run(fmt.Sprint(rate.Limit, " in ", rate.Period), func(t *testing.T) {
			t.Parallel()
			b := newDrained(t.Context(), t, redistest.Start(t).Client(t), queue.NewClass("c", 20_000, rate))
			admit(t, b.client, newJobs("c", "k", int(departures))...)
			for len(b.left) < int(departures) {
				b.depart(t)
				b.now += micros(b.wait)
				must(t, b.client.SetClock(b.ctx, b.now))
			}
			for k, at := range b.left {
				exact := big.NewRat(int64(k)*micros(rate.Period), rate.Limit)
				late := new(big.Rat).Sub(new(big.Rat).SetInt64(at-start), exact)
				if late.Sign() < 0 && late.Cmp(big.NewRat(-1, 1000)) < 0 || late.Cmp(big.NewRat(1, 1)) > 0 {
					t.Fatalf("departure %d at %d us is off by %s us", k, at-start, late.FloatString(6))
				}
			}
		})
	}
}

// TestIdleBucketDepartsAtOnce: whatever the interval, the first job of an idle bucket is due when it is admitted.
func TestIdleBucketDepartsAtOnce(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		b := newDrained(t.Context(), t, rdb, queue.NewClass("c", 1, queue.Rate{Limit: 7, Period: time.Second}))
		for i := range int64(50) {
			b.now = start + i*1_000_003
			must(t, b.client.SetClock(b.ctx, b.now))
			r := admit(t, b.client, newJob("c", "k", fmt.Sprint(i)))[0]
			if r.EstimatedStart.UnixMicro() != b.now || r.Wait != 0 {
				t.Fatalf("job %d is to start at %v, after %v; want %d", i, r.EstimatedStart, r.Wait, b.now)
			}
			if b.depart(t); len(b.left) != int(i)+1 {
				t.Fatalf("job %d did not depart at once", i)
			}
		}
	})
}

// TestClockSetBack: a bucket that is used goes on an interval later, by the new clock, not when the old time is reached.
func TestClockSetBack(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		b := newDrained(t.Context(), t, rdb, queue.NewClass("c", 10, queue.Rate{Limit: 1, Period: time.Second}))
		admit(t, b.client, newJobs("c", "k", 5)...)
		b.advance(t, start+1_000_000)
		if len(b.left) != 2 {
			t.Fatalf("%d jobs departed, want 2", len(b.left))
		}
		back := b.now - micros(time.Hour)
		b.now, b.left = back, nil
		must(t, b.client.SetClock(b.ctx, b.now))
		admit(t, b.client, newJob("c", "k", "new"))
		b.advance(t, b.now+3_000_000)
		if len(b.left) != 3 || b.left[0] != back+1_000_000 || b.left[2] != back+3_000_000 {
			t.Fatalf("departures %v after the clock was set back to %d, want one a second", b.left, back)
		}
	})
}

// TestWaitingForRoom: SubmitWait gets in about when a place opens, and asks less and less often where nobody drains.
func TestWaitingForRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := open(t, redistest.MiniDial(t), 1)
		put(t, c, "c", 2, "10/1s")
		admit(t, c, newJobs("c", "k", 2)...)
		began := time.Now()
		go func() {
			time.AfterFunc(time.Minute, func() { _, _ = c.Outlet("w", 0).Depart(t.Context(), queue.Ask{Want: 1}) })
		}()
		r, err := c.SubmitWait(t.Context(), newJob("c", "k", "waits"))
		if err != nil || r.Status != queue.Admitted || r.Level != 2 {
			t.Fatalf("%+v, %v; want it admitted", r, err)
		}
		if waited := time.Since(began); waited < time.Minute || waited > time.Minute+6*time.Second {
			t.Errorf("waited %v for a place that opened after a minute", waited)
		}
		books, err := c.Books(t.Context(), "c")
		must(t, err)
		if n := books.Rejected[queue.ReasonFull]; n > 30 {
			t.Errorf("%d refusals in a minute of nothing", n)
		}
	})
}

// TestWaitingIsGivenUp: SubmitWait honours its context, and waits for nothing that waiting cannot mend.
func TestWaitingIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := open(t, redistest.MiniDial(t), 1)
		put(t, c, "c", 1, "1/1h")
		admit(t, c, newJob("c", "k", "1"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		began := time.Now()
		_, err := c.SubmitWait(ctx, newJob("c", "k", "2"))
		full, ok := errors.AsType[*queue.FullError](err)
		if !ok || full.Level != 1 || !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != time.Minute {
			t.Errorf("%v after %v, want the refusal and the deadline after a minute", err, time.Since(began))
		}
		if _, err := c.SubmitWait(t.Context(), newJob("none", "k", "1")); !errors.Is(err, queue.ErrUnknownClass) {
			t.Errorf("%v, want an unknown class", err)
		}
	})
}

// TestJoinsAtTheSameMoment: delayed jobs that join together leave in order of admission, before who comes at that moment.
func TestJoinsAtTheSameMoment(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c := openAt(t, rdb, 8)
		put(t, c, "c", 10, "1000/1s")
		for i := range 20 { // in several shards
			key, now := fmt.Sprint("k", i), start+int64(i)*1_000_000
			must(t, c.SetClock(t.Context(), now))
			first, second := newJob("c", key, "z"), newJob("c", key, "a")
			first.NotBefore, second.NotBefore = time.UnixMicro(now+500_000), time.UnixMicro(now+500_000)
			admit(t, c, first, second)
			must(t, c.SetClock(t.Context(), now+500_000))
			if r := admit(t, c, newJob("c", key, "new"))[0]; r.Position != 3 {
				t.Errorf("%s: position %d, want 3", key, r.Position)
			}
			must(t, c.SetClock(t.Context(), now+504_000))
			if ids := departAll(t, c); !slices.Equal(ids, []string{"z", "a", "new"}) {
				t.Errorf("%s: departures %v, want z, a, new", key, ids)
			}
		}
	})
}
