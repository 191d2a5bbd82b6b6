package scheduler

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
)

// workerCollector shows how the workers of this program stand.
type workerCollector struct {
	slots, used, unsettled, age *prometheus.Desc

	mu      sync.Mutex
	workers []*Scheduler
}

func newWorkerCollector() *workerCollector {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	return &workerCollector{
		slots:     desc("spout_slots", "Attempts that this worker may run at once."),
		used:      desc("spout_slots_used", "Attempts that this worker runs."),
		unsettled: desc("spout_unsettled_verdicts", "Verdicts that Redis has not taken yet."),
		age:       desc("spout_beat_age_seconds", "Time since a call for departures was last answered.", "shard"),
	}
}

func (w *workerCollector) add(s *Scheduler) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.workers = append(w.workers, s)
}

// Describe implements [prometheus.Collector].
func (w *workerCollector) Describe(descs chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{w.slots, w.used, w.unsettled, w.age} {
		descs <- d
	}
}

// Collect implements [prometheus.Collector].
func (w *workerCollector) Collect(metrics chan<- prometheus.Metric) {
	w.mu.Lock()
	defer w.mu.Unlock()
	var slots, used, unsettled int
	ages := map[int]time.Duration{}
	for _, s := range w.workers {
		slots += s.o.Concurrency
		used += s.stage.running()
		for shard, settles := range s.settles {
			unsettled += settles.waiting()
			if at := s.drains[shard].lease.renewed(); !at.IsZero() {
				ages[shard] = max(ages[shard], time.Since(at))
			}
		}
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	gauge(w.slots, float64(slots))
	gauge(w.used, float64(used))
	gauge(w.unsettled, float64(unsettled))
	for shard, age := range ages {
		gauge(w.age, age.Seconds(), strconv.Itoa(shard))
	}
}

// running is how many attempts there are.
func (st *stage) running() int {
	st.mu.Lock()
	defer st.mu.Unlock()
	return len(st.attempts)
}

// waiting is how many verdicts Redis has not taken.
func (s *settler) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.pending)
}

// renewed is when the last beat that arrived was sent, zero before the first.
func (l *lease) renewed() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// readyWithin is how long ago a shard may have answered last for the worker to be ready: less than the lease.
const readyWithin = 5 * time.Second

// Ready is nil while every shard has answered a call for departures lately, so that jobs depart here. It says which has not.
func (s *Scheduler) Ready() error {
	for shard, d := range s.drains {
		switch at := d.lease.renewed(); {
		case at.IsZero():
			return fmt.Errorf("scheduler: shard %d has not answered a call for departures yet", shard)
		case time.Since(at) > readyWithin:
			return fmt.Errorf("scheduler: shard %d has not answered a call for departures for %v", shard, time.Since(at).Round(time.Millisecond))
		}
	}
	return nil
}

// liveWithin is how long a departure loop may take for one round, however slow Redis is.
const liveWithin = 30 * time.Second

// Live is nil while the departure loops go round, whether or not Redis answers them. It says which one does not: then only
// a new process helps.
func (s *Scheduler) Live() error {
	for shard, d := range s.drains {
		if at := time.Unix(0, d.round.Load()); time.Since(at) > liveWithin {
			return fmt.Errorf("scheduler: the departure loop of shard %d has stood still for %v", shard, time.Since(at).Round(time.Second))
		}
	}
	return nil
}

// asynqCollector shows the lists that asynq has in Redis for the queue of our servers.
type asynqCollector struct {
	rdb  redis.UniversalClient
	desc *prometheus.Desc
}

// NewAsynqCollector makes a collector of how long asynq's own lists are in Redis. They must stay empty: asynq is the runtime
// and never the store, so what is in them was put there by another program, and nothing will run it.
func NewAsynqCollector(rdb redis.UniversalClient) prometheus.Collector {
	return &asynqCollector{rdb, prometheus.NewDesc("spout_asynq_tasks",
		"Tasks in asynq's own lists for the queue of our servers, where none belongs.", []string{"list"}, nil)}
}

// Describe implements [prometheus.Collector].
func (c *asynqCollector) Describe(descs chan<- *prometheus.Desc) { descs <- c.desc }

// Collect implements [prometheus.Collector]. There is nothing when Redis cannot be read.
func (c *asynqCollector) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	pipe := c.rdb.Pipeline()
	lengths := map[string]*redis.IntCmd{}
	for _, list := range []string{"pending", "active"} {
		lengths[list] = pipe.LLen(ctx, "asynq:{"+feedQueue+"}:"+list)
	}
	for _, list := range []string{"scheduled", "retry", "archived", "lease", "completed"} {
		lengths[list] = pipe.ZCard(ctx, "asynq:{"+feedQueue+"}:"+list)
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return
	}
	for list, n := range lengths {
		metrics <- prometheus.MustNewConstMetric(c.desc, prometheus.GaugeValue, float64(n.Val()), list)
	}
}
