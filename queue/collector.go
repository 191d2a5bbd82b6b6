package queue

import (
	"context"
	"log/slog"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// CollectTime bounds one scrape of a [Collector].
const CollectTime = 5 * time.Second

// Collector shows how the whole installation stands, read from Redis when it is scraped: a few calls per shard, whatever the
// number of keys. What it counts is exact and outlives every process, since the books move with the jobs. One program of an
// installation should have it; where several have, each shows the same, so take the maximum, never the sum.
type Collector struct {
	c     *Client
	log   *slog.Logger
	every []classMetric

	mu    sync.Mutex
	beats map[string]beat // of workers, by name
}

// beat is a worker's beat and when it was first seen.
type beat struct {
	text  string
	since time.Time
}

// workerGone is how long after its last beat a worker is not counted any more.
const workerGone = 10 * time.Second

// NewCollector makes a collector to be registered. log gets what keeps it from reading; nil discards that.
func NewCollector(c *Client, log *slog.Logger) *Collector {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Collector{c: c, log: log, every: classMetrics(), beats: map[string]beat{}}
}

// Describe implements [prometheus.Collector].
func (k *Collector) Describe(descs chan<- *prometheus.Desc) {
	for _, m := range k.every {
		descs <- m.desc
	}
	for _, d := range installationDescs() {
		descs <- d
	}
}

// Collect implements [prometheus.Collector]. When Redis cannot be read, spout_collect_up is 0 and the rest is missing.
func (k *Collector) Collect(metrics chan<- prometheus.Metric) {
	k.mu.Lock()
	defer k.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), CollectTime)
	defer cancel()
	up := 1.0
	if err := k.collect(ctx, metrics); err != nil {
		up = 0
		k.log.LogAttrs(ctx, slog.LevelWarn, "metrics of the installation could not be read", slog.Any("error", err))
	}
	metrics <- prometheus.MustNewConstMetric(descUp, prometheus.GaugeValue, up)
}

func (k *Collector) collect(ctx context.Context, metrics chan<- prometheus.Metric) error {
	standings, err := k.c.StandingsTo(ctx, func(string) Depth { return ToEnds })
	if err != nil {
		return err
	}
	sick, err := k.c.sickBuckets(ctx)
	if err != nil {
		return err
	}
	workers, err := k.workers(ctx, time.Now())
	if err != nil {
		return err
	}
	for i := range standings {
		s := &standings[i]
		for _, m := range k.every {
			for _, v := range m.read(s) {
				metrics <- prometheus.MustNewConstMetric(m.desc, m.kind, v.value, append([]string{s.Class}, v.labels...)...)
			}
		}
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(descSick, float64(sick))
	gauge(descWorkers, float64(workers))
	gauge(descShards, float64(len(k.c.tags)))
	for node, info := range k.c.memory(ctx) {
		if used, err := strconv.ParseFloat(info["used_memory"], 64); err == nil {
			most, _ := strconv.ParseFloat(info["maxmemory"], 64)
			gauge(descMemory, used, node)
			gauge(descMemoryMax, most, node)
		}
	}
	return nil
}

// workers counts those whose beat moved lately. One that is seen for the first time is taken to be alive.
func (k *Collector) workers(ctx context.Context, now time.Time) (alive int, err error) {
	seen := map[string]beat{}
	for shard := range k.c.tags {
		beats, err := k.c.Beats(ctx, shard)
		if err != nil {
			return 0, err
		}
		for name, text := range beats {
			name := strconv.Itoa(shard) + " " + name
			b := beat{text, now}
			if was, ok := k.beats[name]; ok && was.text == text {
				b = was
			}
			seen[name] = b
			if shard == 0 && now.Sub(b.since) < workerGone {
				alive++
			}
		}
	}
	k.beats = seen
	return alive, nil
}
