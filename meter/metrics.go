package meter

import (
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
)

// NewCollector returns a collector of the [Counts] of meters, by names that the program gives them; register it where its
// metrics are. Names are 1 to 64 bytes of UTF-8; at least one meter is needed and none may be nil, else the error wraps
// [ErrInvalid]. No key is in a label: there are as many series as meters. The map is copied.
//
//	spout_meter_decisions_total{meter,decision}  conform, refuse; what passed in shadow mode is refused here
//	spout_meter_never_total{meter}               of the refused: the cost was above the limit
//	spout_meter_shadow_total{meter}              of the refused: passed all the same, in shadow mode
//	spout_meter_cached_total{meter}              of the refused: answered by the denial cache
//	spout_meter_leased_total{meter}              of those that conform: answered by a lease
//	spout_meter_away_total{meter,policy}         calls that Redis could not answer: closed, open, local
func NewCollector(meters map[string]*Meter) (prometheus.Collector, error) {
	if len(meters) == 0 {
		return nil, fmt.Errorf("%w: a collector needs a meter", ErrInvalid)
	}
	for name, m := range meters {
		const longest = 64
		if name == "" || len(name) > longest || !utf8.ValidString(name) {
			return nil, fmt.Errorf("%w: the name %q of a meter is not 1 to %d bytes of UTF-8", ErrInvalid, clip(name), longest)
		}
		if m == nil {
			return nil, fmt.Errorf("%w: meter %q is nil", ErrInvalid, name)
		}
	}
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("spout_meter_"+name, help, append([]string{"meter"}, labels...), nil)
	}
	return &collector{
		meters:    maps.Clone(meters),
		decisions: desc("decisions_total", "Decisions of the meter on a cost above zero.", "decision"),
		never:     desc("never_total", "Refusals of a cost above the limit."),
		shadow:    desc("shadow_total", "Refusals that passed in shadow mode."),
		cached:    desc("cached_total", "Refusals from the denial cache."),
		leased:    desc("leased_total", "Calls that a lease let pass without Redis."),
		away:      desc("away_total", "Calls that Redis could not answer, by what was done with them.", "policy"),
	}, nil
}

type collector struct {
	meters                                         map[string]*Meter
	decisions, never, shadow, cached, leased, away *prometheus.Desc
}

// Describe sends what there is.
func (c *collector) Describe(to chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.decisions, c.never, c.shadow, c.cached, c.leased, c.away} {
		to <- d
	}
}

// Collect sends the totals of now.
func (c *collector) Collect(to chan<- prometheus.Metric) {
	for _, name := range slices.Sorted(maps.Keys(c.meters)) {
		n := c.meters[name].Counts()
		send := func(d *prometheus.Desc, total int64, labels ...string) {
			to <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(total), append([]string{name}, labels...)...)
		}
		send(c.decisions, n.Conformed, "conform")
		send(c.decisions, n.Refused, "refuse")
		send(c.never, n.Never)
		send(c.shadow, n.Shadow)
		send(c.cached, n.Cached)
		send(c.leased, n.Leased)
		send(c.away, n.AwayClosed, "closed")
		send(c.away, n.AwayOpen, "open")
		send(c.away, n.AwayLocal, "local")
	}
}
