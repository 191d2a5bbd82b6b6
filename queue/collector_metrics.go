package queue

import (
	"github.com/prometheus/client_golang/prometheus"
)

//nolint:gochecknoglobals // descriptions, never changed
var (
	descUp = prometheus.NewDesc("spout_collect_up",
		"1 when Redis could be read for this scrape; the metrics of classes are missing otherwise.", nil, nil)
	descSick    = prometheus.NewDesc("spout_sick_buckets", "Buckets that are broken in Redis and were set aside.", nil, nil)
	descWorkers = prometheus.NewDesc("spout_workers", "Workers whose beat moved in the last 10 s.", nil, nil)
	descShards  = prometheus.NewDesc("spout_shards", "Slices of the key space.", nil, nil)
	descMemory  = prometheus.NewDesc("spout_redis_memory_used_bytes", "Memory that Redis uses, by node (empty: a single server).",
		[]string{"node"}, nil)
	descMemoryMax = prometheus.NewDesc("spout_redis_memory_limit_bytes",
		"Redis's maxmemory, 0 for none. Admission stops at 80 % of it.", []string{"node"}, nil)
)

func installationDescs() []*prometheus.Desc {
	return []*prometheus.Desc{descUp, descSick, descWorkers, descShards, descMemory, descMemoryMax}
}

// classMetric is one metric of every class.
type classMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	read func(*Standing) []labelled
}

// labelled is one series of a class.
type labelled struct {
	value  float64
	labels []string
}

func one(v float64) []labelled { return []labelled{{value: v}} }

func gaugeOf(name, help string, read func(*Standing) float64) classMetric {
	return classMetric{
		prometheus.NewDesc("spout_class_"+name, help, []string{"class"}, nil), prometheus.GaugeValue,
		func(s *Standing) []labelled { return one(read(s)) },
	}
}

func countOf(name, help string, read func(*Standing) int64) classMetric {
	return classMetric{
		prometheus.NewDesc("spout_class_"+name, help, []string{"class"}, nil), prometheus.CounterValue,
		func(s *Standing) []labelled { return one(float64(read(s))) },
	}
}

// countsBy is a counter with one more label.
func countsBy(name, help, label string, read func(*Standing) map[string]int64) classMetric {
	return classMetric{
		prometheus.NewDesc("spout_class_"+name, help, []string{"class", label}, nil), prometheus.CounterValue,
		func(s *Standing) (list []labelled) {
			for of, n := range read(s) {
				list = append(list, labelled{float64(n), []string{of}})
			}
			return list
		},
	}
}

func classMetrics() []classMetric {
	return append(classState(), classTotals()...)
}

// classState are the metrics that tell how a class stands.
func classState() []classMetric {
	return []classMetric{
		gaugeOf("capacity", "Jobs that may wait, per key.", func(s *Standing) float64 { return float64(s.Capacity) }),
		gaugeOf("rate", "Departures per second, per key, as configured.", func(s *Standing) float64 {
			if s.Rate.Period <= 0 {
				return 0
			}
			return float64(s.Rate.Limit) / s.Rate.Period.Seconds()
		}),
		gaugeOf("paused", "1 while the class is paused.", func(s *Standing) float64 {
			if s.Paused {
				return 1
			}
			return 0
		}),
		gaugeOf("level", "Jobs that hold a place in their buckets: in line, delayed or parked.",
			func(s *Standing) float64 { return float64(s.Books.Waiting()) }),
		gaugeOf("out", "Departures that are not settled.", func(s *Standing) float64 { return float64(s.Books.Out()) }),
		gaugeOf("dead_jobs", "Dead jobs that are kept.", func(s *Standing) float64 { return float64(s.Books.DeadKept()) }),
		gaugeOf("buckets", "Buckets that have jobs or remember their last departure.",
			func(s *Standing) float64 { return float64(s.Buckets) }),
		gaugeOf("closed_buckets", "Buckets that are paused, or have as many jobs out as they may.",
			func(s *Standing) float64 { return float64(s.Closed) }),
		gaugeOf("stalled_seconds", "For how long the head of a bucket has been due without departing; 0 when none is.",
			func(s *Standing) float64 { return s.Stalled.Seconds() }),
		gaugeOf("hold_seconds", "Longest time until the class opens, when it is held, or a held bucket, of the two buckets of each shard that open first and last.",
			func(s *Standing) float64 { return s.Hold.Seconds() }),
		gaugeOf("fullest_level", "Highest level of a bucket, of the two buckets of each shard that open first and last.",
			func(s *Standing) float64 { return float64(s.Fullest) }),
		gaugeOf("time_to_empty_seconds", "Longest time that a line takes to empty at its rate, of the two buckets of each shard that open first and last.",
			func(s *Standing) float64 { return s.TimeToEmpty.Seconds() }),
	}
}

// classTotals are the books of law 5.
func classTotals() []classMetric {
	return []classMetric{
		countOf("admitted_total", "Jobs admitted.", func(s *Standing) int64 { return s.Books.Admitted }),
		countOf("duplicates_total", "Submissions that were answered as the first time.",
			func(s *Standing) int64 { return s.Books.Duplicate }),
		countsBy("rejected_total", "Submissions rejected, by reason.", "reason", func(s *Standing) map[string]int64 {
			by := map[string]int64{string(ReasonFull): 0}
			for reason, n := range s.Books.Rejected {
				by[string(reason)] = n
			}
			return by
		}),
		countOf("departed_total", "Departures.", func(s *Standing) int64 { return s.Books.Departed }),
		countsBy("returned_total", "Jobs that went back to their bucket, by reason: retry (a failed attempt), hold (the service "+
			"asked to be left alone), stale (too old to start) or other (given back, or reclaimed from a worker that is gone).", "reason", func(s *Standing) map[string]int64 {
			b := &s.Books
			return map[string]int64{
				"retry": b.Retried, "hold": b.Held, "stale": b.Stale, "other": max(0, b.Returned-b.Retried-b.Held-b.Stale),
			}
		}),
		countsBy("finished_total", "Jobs that became final, by outcome.", "outcome", func(s *Standing) map[string]int64 {
			b := &s.Books
			return map[string]int64{
				"done": b.Done, "dead": b.Dead, "expired": b.Expired, "cancelled": b.Cancelled + b.CancelledOut,
				"dropped": b.Dropped, "purged": b.Purged, "sick": b.Sick,
			}
		}),
		countOf("revived_total", "Dead jobs that were sent round again.", func(s *Standing) int64 { return s.Books.Revived }),
		countOf("refused_verdicts_total", "Verdicts on departures that were no longer out.",
			func(s *Standing) int64 { return s.Books.Refused }),
	}
}
