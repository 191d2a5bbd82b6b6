package meter_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/redis/go-redis/v9"
	"pgregory.net/rapid"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/meter"
)

// TestSameAnswers is law 10: the same trace has the same answers in every store, to the last digit.
func TestSameAnswers(t *testing.T) {
	t.Parallel()
	rapid.Check(t, sameAnswers(t))
}

func FuzzSameAnswers(f *testing.F) {
	f.Fuzz(rapid.MakeFuzz(sameAnswers(f)))
}

func sameAnswers(tb testing.TB) func(t *rapid.T) {
	tb.Helper()
	servers := []*redis.Client{redistest.Start(tb).Client(tb), redistest.MiniClient(tb)}
	return func(t *rapid.T) {
		stores := []clocked{memoryAt(1000)}
		for _, rdb := range servers {
			must(t, rdb.FlushAll(t.Context()).Err())
			stores = append(stores, redisAt(t, rdb))
		}
		tr := newTrace(t, stores)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			tr.step(t)
		}
	}
}

// trace drives the same calls through several stores.
type trace struct {
	ctx    context.Context
	stores []clocked
	limits [2]meter.Limit
	meters [][2]*meter.Meter // by store
	open   [][]*meter.Reservation
	now    int64
	said   []string
}

func newTrace(t *rapid.T, stores []clocked) *trace {
	t.Helper()
	tr := &trace{ctx: t.Context(), stores: stores, now: rapid.SampledFrom([]int64{0, start}).Draw(t, "start")}
	for i := range tr.limits {
		tr.limits[i] = drawLimit(t)
	}
	for _, s := range stores {
		s.set(tr.now)
		tr.meters = append(tr.meters, [2]*meter.Meter{
			newMeter(t, s, tr.limits[0], meter.Options{}), newMeter(t, s, tr.limits[1], meter.Options{}),
		})
	}
	return tr
}

func drawLimit(t *rapid.T) meter.Limit {
	t.Helper()
	small := rapid.Int64Range(1, 8)
	l := meter.Limit{
		Algorithm: rapid.SampledFrom([]meter.Algorithm{
			meter.GCRA, meter.TokenBucket, meter.LeakyBucket, meter.FixedWindow, meter.SlidingLog, meter.SlidingCounter,
		}).Draw(t, "algorithm"),
		Count: rapid.OneOf(small, rapid.SampledFrom([]int64{1000, 9999, 200_000, 1 << 40})).Draw(t, "count"),
		Period: time.Microsecond * time.Duration(rapid.OneOf(rapid.Int64Range(1, 50),
			rapid.SampledFrom([]int64{1_000_000, 60_000_000, 86_400_000_000, 7_000_003})).Draw(t, "period")),
	}
	switch l.Algorithm {
	case meter.FixedWindow:
		l.Align = rapid.SampledFrom([]meter.Align{meter.AlignEpoch, meter.AlignFirstEvent}).Draw(t, "align")
	case meter.GCRA, meter.TokenBucket, meter.LeakyBucket:
		l.Capacity = rapid.OneOf(small, rapid.SampledFrom([]int64{1000, 1 << 26, 1 << 52})).Draw(t, "capacity")
	case meter.SlidingLog, meter.SlidingCounter:
	}
	if rapid.IntRange(0, 3).Draw(t, "penal") == 0 {
		span := rapid.Int64Range(1, 3)
		l.Penalty = meter.Penalty{
			Refusals: small.Draw(t, "refusals"),
			Within:   l.Period * time.Duration(span.Draw(t, "within")), For: l.Period * time.Duration(span.Draw(t, "for")),
		}
	}
	for l.Validate() != nil { // too large together
		l.Count, l.Capacity = l.Count/2+1, l.Capacity/2
	}
	return l
}

// step moves the clock, back at times, and makes one call.
func (tr *trace) step(t *rapid.T) {
	period := tr.limits[0].Period.Microseconds()
	tr.now += rapid.OneOf(rapid.Just(int64(0)), rapid.Int64Range(-3, 3), rapid.Int64Range(0, 2*period),
		rapid.Int64Range(-period, period), rapid.SampledFrom([]int64{period - 1, period, period + 1})).Draw(t, "elapsed")
	tr.now = max(0, tr.now)
	which := rapid.IntRange(0, 1).Draw(t, "meter")
	key := rapid.SampledFrom([]string{"a", "{t}b"}).Draw(t, "key")
	limit := tr.limits[which]
	most := max(limit.Count, limit.Capacity)
	n := rapid.OneOf(rapid.Int64Range(0, 5), rapid.Int64Range(0, min(most, 3000)+1), rapid.SampledFrom([]int64{most, 1<<53 - 1})).Draw(t, "n")
	within := time.Duration(rapid.Int64Range(0, 3*limit.Period.Microseconds()).Draw(t, "within")) * time.Microsecond
	op := rapid.SampledFrom([]string{"check", "check", "check", "take", "peek", "refund", "reserve", "settle", "all", "reset", "together"}).Draw(t, "op")
	tr.said = append(tr.said, fmt.Sprintf("at %d %s meter %d key %s n %d within %v", tr.now, op, which, key, n, within))
	var first any
	for i, s := range tr.stores {
		s.set(tr.now)
		got := tr.call(i, which, op, key, n, within)
		if i == 0 {
			first = got
			continue
		}
		if diff := cmp.Diff(first, got, cmpopts.EquateErrors(), cmpopts.IgnoreUnexported(meter.Reservation{})); diff != "" {
			t.Fatalf("limits %v\n%v\nmemory (-) and store %d (+) differ:\n%s", tr.limits, tr.said, i, diff)
		}
	}
	if op == "settle" && len(tr.open) > 0 {
		tr.open = tr.open[1:]
	}
}

func (tr *trace) call(store, which int, op, key string, n int64, within time.Duration) any {
	ctx, m := tr.ctx, tr.meters[store][which]
	switch op {
	case "check":
		d, err := m.Check(ctx, key, n)
		return said(d, err)
	case "take":
		taken, d, err := m.Take(ctx, key, n)
		return []any{taken, said(d, err)}
	case "peek":
		d, err := m.Peek(ctx, key, n)
		return said(d, err)
	case "refund":
		d, err := m.Refund(ctx, key, n)
		return said(d, err)
	case "reserve":
		r, err := m.Reserve(ctx, key, n, within)
		if store == 0 {
			tr.open = append(tr.open, nil)
		}
		last := len(tr.open) - 1
		tr.open[last] = append(tr.open[last], r)
		return said(r, err)
	case "settle":
		if len(tr.open) == 0 {
			return nil
		}
		return said(nil, tr.open[0][store].Settle(ctx, n))
	case "all":
		all, err := meter.CheckAll(ctx, meter.Claim{Meter: tr.meters[store][0], Key: key, Cost: n},
			meter.Claim{Meter: tr.meters[store][1], Key: "{t}x", Cost: 1})
		return said(all, err)
	case "together":
		all, errs := meter.Together(ctx, m, []string{key, "a", key, "{t}b"}, []int64{n, 1, n, 0})
		return said(all, errors.Join(errs...))
	default:
		return said(nil, m.Reset(ctx, key))
	}
}

func said(v any, err error) any {
	if err != nil {
		return []any{v, err.Error()}
	}
	return v
}
