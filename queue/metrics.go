package queue

import (
	"cmp"
	"context"
	"net"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/redis/go-redis/v9"
)

// DefaultDoor is where submissions come in, for metrics, unless [Options] say otherwise.
const DefaultDoor = "sdk"

// Metrics counts what the clients of one program submit and how long Redis takes for it. Make one per registry with
// [NewMetrics] and give it to every client in [Options]. What all programs together did is read by a [Collector].
type Metrics struct {
	offered *prometheus.CounterVec
	submit  *prometheus.HistogramVec
	script  *prometheus.HistogramVec
	pool    *poolCollector

	classes sync.Map // names of classes that Redis knows
	watched sync.Map // redis clients that have the hook
}

// NewMetrics registers the metrics of submissions with reg. It panics when they are registered there already.
func NewMetrics(reg prometheus.Registerer) *Metrics {
	with := promauto.With(reg)
	m := &Metrics{
		offered: with.NewCounterVec(prometheus.CounterOpts{
			Name: "spout_offered_total",
			Help: "Submissions of this program by class (empty: not known to exist), door and result (admitted, duplicate, or why it was rejected).",
		}, []string{"class", "door", "result"}),
		submit: with.NewHistogramVec(seconds("spout_submit_seconds",
			"Time that a submission of this program took to be answered, by door.", .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5, 30),
			[]string{"door"}),
		script: with.NewHistogramVec(seconds("spout_script_seconds",
			"Time from sending a script to Redis to its reply, by script.", .0005, .001, .0025, .005, .01, .025, .05, .1, .25, 1, 5),
			[]string{"script"}),
		pool: newPoolCollector(),
	}
	reg.MustRegister(m.pool)
	return m
}

// seconds describes a histogram of times, classic and native at once.
func seconds(name, help string, buckets ...float64) prometheus.HistogramOpts {
	return prometheus.HistogramOpts{
		Name: name, Help: help, Buckets: buckets,
		NativeHistogramBucketFactor: 1.1, NativeHistogramMaxBucketNumber: 160, NativeHistogramMinResetDuration: time.Hour,
	}
}

// observe counts one answer to a submission. A nil Metrics does nothing.
func (m *Metrics) observe(door, class string, began time.Time, status Status, err error) {
	if m == nil {
		return
	}
	result := resultOf(status, err)
	m.offered.WithLabelValues(m.class(class, result), door, result).Inc()
	m.submit.WithLabelValues(door).Observe(time.Since(began).Seconds())
}

// observeMany counts the answers to submissions that were made together: neighbours that are alike at once.
func (m *Metrics) observeMany(door string, jobs []Job, began time.Time, results []Result) {
	if m == nil {
		return
	}
	took, submit := time.Since(began).Seconds(), m.submit.WithLabelValues(door)
	for i := 0; i < len(jobs); {
		class, result, first := jobs[i].Class, resultOf(results[i].Receipt.Status, results[i].Err), i
		for ; i < len(jobs) && jobs[i].Class == class && resultOf(results[i].Receipt.Status, results[i].Err) == result; i++ {
			submit.Observe(took)
		}
		m.offered.WithLabelValues(m.class(class, result), door, result).Add(float64(i - first))
	}
}

func resultOf(status Status, err error) string {
	if err != nil {
		return string(ReasonOf(err))
	}
	return string(status)
}

// class is the label of a class: only what Redis knows is one, so that producers cannot make series up.
func (m *Metrics) class(name, result string) string {
	switch Reason(result) {
	case ReasonInvalid, ReasonUnknownClass:
		return ""
	case ReasonUnavailable, ReasonUnknown: // Redis said nothing about the class
		if _, known := m.classes.Load(name); !known {
			return ""
		}
	default:
		m.classes.LoadOrStore(name, nil)
	}
	return name
}

// watch times the scripts that a client's Redis is asked to run, and shows its connections. Clients that share one are
// watched once.
func (m *Metrics) watch(c *Client) {
	if m == nil {
		return
	}
	if _, twice := m.watched.LoadOrStore(c.rdb, nil); twice {
		return
	}
	c.rdb.AddHook(scriptHook{m.script, c.scripts.names()})
	m.pool.add(c.rdb)
}

// names tells scripts by their hash, and by their source, which is sent when Redis has lost them.
func (s scripts) names() map[string]string {
	names := map[string]string{}
	for name, script := range map[string]*redis.Script{
		"admit": s.admit, "depart": s.depart, "start": s.start, "settle": s.settle, "reclaim": s.reclaim,
		"bucket": s.bucket, "class": s.class, "job": s.job, "audit": s.audit,
		"states": s.states, "record": s.record, "collect": s.collect,
	} {
		names[script.Hash()] = name
	}
	return names
}

// scriptHook times scripts.
type scriptHook struct {
	took  *prometheus.HistogramVec
	names map[string]string // by hash
}

func (h scriptHook) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (h scriptHook) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		name := h.script(cmd)
		if name == "" {
			return next(ctx, cmd)
		}
		began := time.Now()
		err := next(ctx, cmd)
		h.took.WithLabelValues(name).Observe(time.Since(began).Seconds())
		return err
	}
}

// ProcessPipelineHook takes the scripts of a pipeline as one: they are answered together.
func (h scriptHook) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		name := ""
		for _, cmd := range cmds {
			name = cmp.Or(h.script(cmd), name)
		}
		if name == "" {
			return next(ctx, cmds)
		}
		began := time.Now()
		err := next(ctx, cmds)
		h.took.WithLabelValues(name).Observe(time.Since(began).Seconds())
		return err
	}
}

// script names the script that a command runs, if it is one of ours.
func (h scriptHook) script(cmd redis.Cmder) string {
	args := cmd.Args()
	if len(args) < 2 || cmd.Name() != "evalsha" {
		return ""
	}
	hash, _ := args[1].(string)
	return h.names[hash]
}
