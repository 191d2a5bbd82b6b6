package meter_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/meter"
)

func TestCollector(t *testing.T) {
	t.Parallel()
	rdb := &flaky{Client: redistest.MiniClient(t)}
	store := meter.Redis(rdb)
	shadow := newMeter(t, store, hourly(2), meter.Options{Shadow: true, Prefix: "a:"})
	cached := newMeter(t, store, hourly(2), meter.Options{DenialCache: 10, Away: meter.AwayOpen, Prefix: "b:"})
	leased := newMeter(t, store, hourly(4), meter.Options{Lease: 4, Away: meter.AwayLocal, Prefix: "c:"})
	closed := newMeter(t, store, hourly(2), meter.Options{Prefix: "d:"})
	c, err := meter.NewCollector(map[string]*meter.Meter{"shadow": shadow, "cached": cached, "leased": leased, "closed": closed})
	must(t, err)
	reg := prometheus.NewPedanticRegistry()
	must(t, reg.Register(c))
	for range 4 {
		check(t, shadow, "k", 1)
		check(t, cached, "k", 1)
	}
	check(t, shadow, "k", 3)
	check(t, leased, "k", 1)
	check(t, leased, "k", 1)
	rdb.away = true
	check(t, cached, "other", 1)
	check(t, leased, "other", 1)
	if _, err := closed.Check(t.Context(), "k", 1); !errors.Is(err, meter.ErrUnavailable) {
		t.Errorf("closed: %v", err)
	}
	want := `
# HELP spout_meter_away_total Calls that Redis could not answer, by what was done with them.
# TYPE spout_meter_away_total counter
spout_meter_away_total{meter="cached",policy="closed"} 0
spout_meter_away_total{meter="cached",policy="local"} 0
spout_meter_away_total{meter="cached",policy="open"} 1
spout_meter_away_total{meter="closed",policy="closed"} 1
spout_meter_away_total{meter="closed",policy="local"} 0
spout_meter_away_total{meter="closed",policy="open"} 0
spout_meter_away_total{meter="leased",policy="closed"} 0
spout_meter_away_total{meter="leased",policy="local"} 1
spout_meter_away_total{meter="leased",policy="open"} 0
spout_meter_away_total{meter="shadow",policy="closed"} 0
spout_meter_away_total{meter="shadow",policy="local"} 0
spout_meter_away_total{meter="shadow",policy="open"} 0
# HELP spout_meter_cached_total Refusals from the denial cache.
# TYPE spout_meter_cached_total counter
spout_meter_cached_total{meter="cached"} 1
spout_meter_cached_total{meter="closed"} 0
spout_meter_cached_total{meter="leased"} 0
spout_meter_cached_total{meter="shadow"} 0
# HELP spout_meter_decisions_total Decisions of the meter on a cost above zero.
# TYPE spout_meter_decisions_total counter
spout_meter_decisions_total{decision="conform",meter="cached"} 3
spout_meter_decisions_total{decision="conform",meter="closed"} 0
spout_meter_decisions_total{decision="conform",meter="leased"} 3
spout_meter_decisions_total{decision="conform",meter="shadow"} 2
spout_meter_decisions_total{decision="refuse",meter="cached"} 2
spout_meter_decisions_total{decision="refuse",meter="closed"} 0
spout_meter_decisions_total{decision="refuse",meter="leased"} 0
spout_meter_decisions_total{decision="refuse",meter="shadow"} 3
# HELP spout_meter_leased_total Calls that a lease let pass without Redis.
# TYPE spout_meter_leased_total counter
spout_meter_leased_total{meter="cached"} 0
spout_meter_leased_total{meter="closed"} 0
spout_meter_leased_total{meter="leased"} 1
spout_meter_leased_total{meter="shadow"} 0
# HELP spout_meter_never_total Refusals of a cost above the limit.
# TYPE spout_meter_never_total counter
spout_meter_never_total{meter="cached"} 0
spout_meter_never_total{meter="closed"} 0
spout_meter_never_total{meter="leased"} 0
spout_meter_never_total{meter="shadow"} 1
# HELP spout_meter_shadow_total Refusals that passed in shadow mode.
# TYPE spout_meter_shadow_total counter
spout_meter_shadow_total{meter="cached"} 0
spout_meter_shadow_total{meter="closed"} 0
spout_meter_shadow_total{meter="leased"} 0
spout_meter_shadow_total{meter="shadow"} 3
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if problems, err := testutil.GatherAndLint(reg); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

func TestBadCollectors(t *testing.T) {
	t.Parallel()
	m := newMeter(t, meter.Memory(), perSecond(1, 1), meter.Options{})
	for name, meters := range map[string]map[string]*meter.Meter{
		"none": {}, "no name": {"": m}, "nil": {"m": nil}, "long": {strings.Repeat("m", 65): m}, "no UTF-8": {"\xff": m},
	} {
		if _, err := meter.NewCollector(meters); !errors.Is(err, meter.ErrInvalid) {
			t.Errorf("%s: %v, want ErrInvalid", name, err)
		}
	}
}
