package scheduler

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/spout-queue/spout/queue"
)

// Metrics measures the workers of one program. Make one per registry with [NewMetrics] and give it to the scheduler in
// [Options].
type Metrics struct {
	traceID func(context.Context) string

	lateness, wait, run, hold               *prometheus.HistogramVec
	departed, attempts, givenBack           *prometheus.CounterVec
	refused, calls, wakes                   *prometheus.CounterVec
	reclaimed, repaired                     *prometheus.CounterVec
	reclaims, rolledBack, lost, lostReplies prometheus.Counter
	workers                                 *workerCollector

	classes sync.Map // those that departures were taken from
}

// NewMetrics registers the metrics of workers with reg. It panics when they are registered there already. traceID, which may
// be nil, names the trace of an attempt by its handler's context, empty for none: it becomes the exemplar of what is measured.
func NewMetrics(reg prometheus.Registerer, traceID func(context.Context) string) *Metrics {
	if traceID == nil {
		traceID = func(context.Context) string { return "" }
	}
	with := promauto.With(reg)
	count := func(name, help string, labels ...string) *prometheus.CounterVec {
		return with.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	plain := func(name, help string) prometheus.Counter {
		return with.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &Metrics{
		traceID: traceID,
		lateness: with.NewHistogramVec(seconds("spout_lateness_seconds",
			"Start of the handler minus the departure's due time: the service level.",
			.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10, 60), []string{"class"}),
		wait: with.NewHistogramVec(seconds("spout_wait_seconds", "Time from joining the line to the start, of jobs that start for the first time.",
			.01, .1, .5, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400), []string{"class"}),
		run: with.NewHistogramVec(seconds("spout_run_seconds", "Time that a handler ran, by outcome: done, fail, dead, cancelled, held or back.",
			.001, .005, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 120), []string{"class", "outcome"}),
		hold: with.NewHistogramVec(seconds("spout_hold_seconds", "Time for which a called service asked to be left alone.",
			.1, 1, 5, 15, 60, 300, 900, 3600, 14400, 86400), []string{"class"}),
		departed:  count("spout_departures_total", "Departures that this worker took.", "class"),
		attempts:  count("spout_attempts_total", "Attempts that this worker started and that ended, by outcome.", "class", "outcome"),
		givenBack: count("spout_given_back_total", "Departures that this worker gave back, by reason: stale, handler, stop or unfed.", "class", "reason"),
		refused:   count("spout_refused_verdicts_total", "Verdicts of this worker on departures that were no longer out.", "class"),
		calls:     count("spout_depart_calls_total", "Calls for departures, by shard and result: moved, empty, refused or failed.", "shard", "result"),
		wakes:     count("spout_wakes_total", "Hints that a bucket became the earliest due.", "shard"),
		reclaimed: count("spout_reclaimed_jobs_total", "Jobs taken back from workers that are gone, by what became of them: returned or dead.", "fate"),
		repaired: count("spout_repaired_jobs_total", "Jobs that this worker and Redis did not agree on: returned (unknown here) "+
			"or ended (no longer out here).", "fate"),
		reclaims:    plain("spout_reclaimed_workers_total", "Times that this worker took back, from one shard, what another one left."),
		rolledBack:  plain("spout_rollbacks_total", "Times that the data of a shard turned out to be older than what happened."),
		lost:        plain("spout_lost_contact_total", "Times that handlers were told to end since a shard could not be reached."),
		lostReplies: plain("spout_lost_replies_total", "Jobs that went back because the reply that held them was lost."),
		workers:     newWorkerCollector(),
	}
	reg.MustRegister(m.workers)
	return m
}

// seconds describes a histogram of times, classic and native at once.
func seconds(name, help string, buckets ...float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}
}

// watch shows the state of a worker when it is scraped. What can be counted of it begins at zero, so that its first increase
// is seen.
func (m *Metrics) watch(s *Scheduler) {
	m.workers.add(s)
	for shard := range s.drains {
		name := strconv.Itoa(shard)
		m.wakes.WithLabelValues(name)
		for _, result := range []string{"moved", "empty", "refused", "failed"} {
			m.calls.WithLabelValues(name, result)
		}
	}
	for _, fate := range []string{"returned", "dead"} {
		m.reclaimed.WithLabelValues(fate)
	}
	for _, fate := range []string{"returned", "ended"} {
		m.repaired.WithLabelValues(fate)
	}
}

// took counts a departure.
func (m *Metrics) took(class string) {
	m.of(class).departed.Inc()
}

// series are those of one class that each attempt counts in, found once.
type series struct {
	departed       prometheus.Counter
	attempts       map[queue.Outcome]prometheus.Counter
	lateness, wait prometheus.Observer
	done           prometheus.Observer
}

// of finds the series of a class. What can be counted of it begins at zero, too.
func (m *Metrics) of(class string) *series {
	if known, ok := m.classes.Load(class); ok {
		return known.(*series) //nolint:errcheck // nothing else is stored
	}
	s := &series{
		departed: m.departed.WithLabelValues(class), attempts: map[queue.Outcome]prometheus.Counter{},
		lateness: m.lateness.WithLabelValues(class), wait: m.wait.WithLabelValues(class),
		done: m.run.WithLabelValues(class, string(queue.Done)),
	}
	m.refused.WithLabelValues(class)
	for _, why := range []ReturnReason{ReturnedStale, ReturnedHandler, ReturnedStop, ReturnedUnfed} {
		m.givenBack.WithLabelValues(class, string(why))
	}
	for _, outcome := range []queue.Outcome{queue.Done, queue.Failed, queue.Dead, queue.Stopped, queue.Back, queue.Held} {
		s.attempts[outcome] = m.attempts.WithLabelValues(class, string(outcome))
	}
	m.classes.Store(class, s)
	return s
}

// observer is what a worker tells.
func (m *Metrics) observer() Observer {
	return Observer{
		Called:  m.called,
		Woken:   func(shard int) { m.wakes.WithLabelValues(strconv.Itoa(shard)).Inc() },
		Started: m.started,
		Ended:   m.ended,
		Returned: func(a *Attempt, why ReturnReason) {
			m.took(a.Class)
			m.givenBack.WithLabelValues(a.Class, string(why)).Inc()
		},
		Refused: func(class string) { m.refused.WithLabelValues(class).Inc() },
		Reclaimed: func(r queue.Reclaimed) {
			m.reclaims.Inc()
			m.reclaimed.WithLabelValues("returned").Add(float64(r.Returned))
			m.reclaimed.WithLabelValues("dead").Add(float64(r.Dead))
		},
		Repaired: func(returned, ended int) {
			m.repaired.WithLabelValues("returned").Add(float64(returned))
			m.repaired.WithLabelValues("ended").Add(float64(ended))
		},
		RolledBack: func(int) { m.rolledBack.Inc() },
		Lost:       func(int) { m.lost.Inc() },
	}
}

func (m *Metrics) called(c Call) {
	result := "empty"
	switch {
	case errors.Is(c.Err, queue.ErrRefused):
		result = "refused"
	case c.Err != nil:
		result = "failed"
	case c.Jobs > 0:
		result = "moved"
	}
	m.calls.WithLabelValues(strconv.Itoa(c.Shard), result).Inc()
	m.lostReplies.Add(float64(c.Lost))
}

func (m *Metrics) started(ctx context.Context, a *Attempt) context.Context {
	m.took(a.Class)
	return ctx
}

func (m *Metrics) ended(ctx context.Context, a *Attempt, e End) {
	s := m.of(a.Class)
	s.attempts[e.Outcome].Inc()
	if e.Outcome == queue.Back {
		m.givenBack.WithLabelValues(a.Class, string(e.Reason)).Inc()
	}
	exemplar := prometheus.Labels(nil)
	if id := m.traceID(ctx); id != "" {
		exemplar = prometheus.Labels{"trace_id": id}
	}
	observe(s.lateness, a.Lateness, exemplar)
	run := s.done
	if e.Outcome != queue.Done {
		run = m.run.WithLabelValues(a.Class, string(e.Outcome))
	}
	observe(run, e.Run, exemplar)
	if e.Outcome == queue.Held {
		observe(m.hold.WithLabelValues(a.Class), e.Hold, exemplar)
	}
	if waited, first := a.Waited(); first {
		observe(s.wait, waited, exemplar)
	}
}

// observe measures a time, with the trace that it belongs to if there is one.
func observe(h prometheus.Observer, d time.Duration, exemplar prometheus.Labels) {
	if with, ok := h.(prometheus.ExemplarObserver); ok && exemplar != nil {
		with.ObserveWithExemplar(d.Seconds(), exemplar)
		return
	}
	h.Observe(d.Seconds())
}
