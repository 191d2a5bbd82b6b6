package queue

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// poolCollector shows the connections of a program's Redis clients, all together.
type poolCollector struct {
	open, idle             *prometheus.Desc
	timeouts, misses, gone *prometheus.Desc

	mu      sync.Mutex
	clients []redis.UniversalClient
}

func newPoolCollector() *poolCollector {
	desc := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, nil, nil) }
	return &poolCollector{
		open:     desc("spout_redis_connections", "Connections of this program to Redis."),
		idle:     desc("spout_redis_connections_idle", "Connections of this program to Redis that nothing uses."),
		timeouts: desc("spout_redis_pool_timeouts_total", "Calls that got no connection in time."),
		misses:   desc("spout_redis_pool_misses_total", "Calls that found no idle connection and made a new one."),
		gone:     desc("spout_redis_stale_connections_total", "Connections that were found broken or too old and closed."),
	}
}

func (p *poolCollector) add(rdb redis.UniversalClient) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clients = append(p.clients, rdb)
}

// Describe implements [prometheus.Collector].
func (p *poolCollector) Describe(descs chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(p, descs)
}

// Collect implements [prometheus.Collector].
func (p *poolCollector) Collect(metrics chan<- prometheus.Metric) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var sum redis.PoolStats
	for _, rdb := range p.clients {
		s := rdb.PoolStats()
		sum.TotalConns += s.TotalConns
		sum.IdleConns += s.IdleConns
		sum.Timeouts += s.Timeouts
		sum.Misses += s.Misses
		sum.StaleConns += s.StaleConns
	}
	gauge := func(d *prometheus.Desc, n uint32) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(n))
	}
	count := func(d *prometheus.Desc, n uint32) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n))
	}
	gauge(p.open, sum.TotalConns)
	gauge(p.idle, sum.IdleConns)
	count(p.timeouts, sum.Timeouts)
	count(p.misses, sum.Misses)
	count(p.gone, sum.StaleConns)
}
