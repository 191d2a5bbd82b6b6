package queue_test

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/redis/go-redis/v9"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/queue"
)

// measured opens a client with metrics, in a registry of its own.
func measured(t *testing.T, rdb redis.UniversalClient, door string) (*queue.Client, *prometheus.Registry) {
	t.Helper()
	reg := prometheus.NewPedanticRegistry()
	c, err := queue.Open(t.Context(), rdb, queue.Options{Metrics: queue.NewMetrics(reg), Door: door})
	must(t, err)
	return c, reg
}

// expect compares some metrics with their text form, without help.
func expect(t *testing.T, reg prometheus.Gatherer, want string, names ...string) {
	t.Helper()
	var lines []string
	for _, f := range gather(t, reg) {
		name, _, _ := strings.Cut(f, "{")
		name, _, _ = strings.Cut(name, " ")
		if slices.Contains(names, name) {
			lines = append(lines, f)
		}
	}
	if diff := cmp.Diff(want, strings.Join(lines, "\n")); diff != "" {
		t.Error(diff)
	}
}

// gather lists all series but those of histograms.
func gather(t *testing.T, reg prometheus.Gatherer) (series []string) {
	t.Helper()
	families, err := reg.Gather()
	must(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%s", l.GetName(), l.GetValue()))
			}
			if m.GetHistogram() == nil {
				series = append(series, fmt.Sprintf("%s{%s} %v", f.GetName(), strings.Join(labels, ","),
					m.GetCounter().GetValue()+m.GetGauge().GetValue()))
			}
		}
	}
	return series
}

func TestMetricsOfSubmissions(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c, reg := measured(t, rdb, "http")
		put(t, c, "a", 2, "1/1h")
		admit(t, c, newJobs("a", "k", 2)...)
		_, _ = c.Submit(t.Context(), newJob("a", "k", "j0"))
		_ = refused(t, c, newJob("a", "k", "j2"))
		for i := range 3 { // names that a producer makes up are no series
			_, _ = c.Submit(t.Context(), newJob(fmt.Sprint("nosuch", i), "k", "x"))
			_, _ = c.Submit(t.Context(), newJob(fmt.Sprint("not allowed", i), "k", "x"))
		}
		expect(t, reg, `spout_offered_total{class=,door=http,result=invalid} 3
spout_offered_total{class=,door=http,result=unknown_class} 3
spout_offered_total{class=a,door=http,result=admitted} 2
spout_offered_total{class=a,door=http,result=duplicate} 1
spout_offered_total{class=a,door=http,result=full} 1`, "spout_offered_total")
		if n := testutil.CollectAndCount(reg, "spout_script_seconds"); n < 2 {
			t.Errorf("%d scripts were timed, want admit and class", n)
		}
	})
}

func TestMetricsWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c, reg := measured(t, server.Client(t), "")
	put(t, c, "a", 9, "1/1h")
	admit(t, c, newJob("a", "k", "1"))
	server.Kill()
	_, _ = c.Submit(t.Context(), newJob("a", "k", "2"))
	_, _ = c.Submit(t.Context(), newJob("unseen", "k", "2"))
	unanswered := 0
	for _, s := range gather(t, reg) {
		if strings.HasPrefix(s, "spout_offered_total{class=unseen") {
			t.Errorf("%s: a class that nobody knows to exist has a series", s)
		}
		if strings.HasPrefix(s, "spout_offered_total{class=,door=sdk,result=un") || strings.HasPrefix(s, "spout_offered_total{class=a,door=sdk,result=un") {
			unanswered++
		}
	}
	if unanswered != 2 {
		t.Errorf("%d submissions are counted as unavailable or unknown, want 2: %v", unanswered, gather(t, reg))
	}
}

func TestCollector(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c := open(t, rdb, 2)
		put(t, c, "a", 3, "2/1h")
		put(t, c, "b", 10, "1/1s", func(c *queue.Class) { c.Paused = true })
		admit(t, c, newJobs("a", "k", 3)...)
		_ = refused(t, c, newJob("a", "k", "j3"))
		if got := departAll(t, c); len(got) != 1 {
			t.Fatalf("%v departed, want one", got)
		}
		must(t, c.Buckets().Hold(t.Context(), "a", "k", time.Now().Add(5*time.Hour)))
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(queue.NewCollector(c, nil))
		expect(t, reg, `spout_class_admitted_total{class=a} 3
spout_class_admitted_total{class=b} 0
spout_class_buckets{class=a} 1
spout_class_buckets{class=b} 0
spout_class_capacity{class=a} 3
spout_class_capacity{class=b} 10
spout_class_departed_total{class=a} 1
spout_class_departed_total{class=b} 0
spout_class_fullest_level{class=a} 2
spout_class_fullest_level{class=b} 0
spout_class_level{class=a} 2
spout_class_level{class=b} 0
spout_class_out{class=a} 1
spout_class_out{class=b} 0
spout_class_rejected_total{class=a,reason=full} 1
spout_class_rejected_total{class=b,reason=full} 0
spout_class_stalled_seconds{class=a} 0
spout_class_stalled_seconds{class=b} 0
spout_class_time_to_empty_seconds{class=a} 3600
spout_class_time_to_empty_seconds{class=b} 0
spout_collect_up{} 1
spout_shards{} 2
spout_sick_buckets{} 0
spout_workers{} 1`, "spout_class_admitted_total", "spout_class_buckets", "spout_class_capacity", "spout_class_departed_total",
			"spout_class_fullest_level", "spout_class_level", "spout_class_out", "spout_class_rejected_total", "spout_class_stalled_seconds",
			"spout_class_time_to_empty_seconds", "spout_collect_up", "spout_shards", "spout_sick_buckets", "spout_workers")
		if hold := valueOf(t, reg, "spout_class_hold_seconds{class=a}"); hold < 4.9*3600 || hold > 5*3600 {
			t.Errorf("the bucket is held for %v s more, want 5 h", hold)
		}
	})
}

// valueOf reads one series.
func valueOf(t *testing.T, reg prometheus.Gatherer, series string) (v float64) {
	t.Helper()
	for _, s := range gather(t, reg) {
		if text, ok := strings.CutPrefix(s, series+" "); ok {
			_, err := fmt.Sscan(text, &v)
			must(t, err)
			return v
		}
	}
	t.Fatalf("there is no %s", series)
	return 0
}

func TestCollectorSeesAStall(t *testing.T) {
	t.Parallel()
	redistest.Each(t, func(t *testing.T, rdb *redis.Client) {
		c := open(t, rdb, 1)
		put(t, c, "a", 3, "1/1s")
		admit(t, c, newJob("a", "k", "1"))
		reg := prometheus.NewPedanticRegistry()
		reg.MustRegister(queue.NewCollector(c, nil))
		first := valueOf(t, reg, "spout_class_stalled_seconds{class=a}")
		if second := valueOf(t, reg, "spout_class_stalled_seconds{class=a}"); second <= first {
			t.Errorf("nobody departs, and the head is overdue for %v s, then %v s", first, second)
		}
		must(t, c.Buckets().Pause(t.Context(), "a", "k"))
		closed, stalled := valueOf(t, reg, "spout_class_closed_buckets{class=a}"), valueOf(t, reg, "spout_class_stalled_seconds{class=a}")
		if closed != 1 || stalled != 0 {
			t.Errorf("the bucket is paused: %v are closed, stalled for %v s; want 1 and 0", closed, stalled)
		}
		must(t, c.Buckets().Resume(t.Context(), "a", "k"))
		departAll(t, c)
		if got := valueOf(t, reg, "spout_class_stalled_seconds{class=a}"); got != 0 {
			t.Errorf("the bucket is empty, and its head is overdue for %v s", got)
		}
	})
}

func TestCollectorWithoutRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	c := open(t, server.Client(t), 1)
	put(t, c, "a", 3, "1/1s")
	reg := prometheus.NewPedanticRegistry()
	reg.MustRegister(queue.NewCollector(c, nil))
	server.Kill()
	expect(t, reg, "spout_collect_up{} 0", "spout_collect_up", "spout_class_level")
}

// A scrape is timed like every other script.
func TestCollectorIsTimed(t *testing.T) {
	t.Parallel()
	c, reg := measured(t, redistest.Start(t).Client(t), "")
	put(t, c, "a", 3, "1/1s")
	reg.MustRegister(queue.NewCollector(c, nil))
	_ = gather(t, reg) // Redis learns the script
	families, err := reg.Gather()
	must(t, err)
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "script" && l.GetValue() == "collect" {
					return
				}
			}
		}
	}
	t.Error("collect is not among the scripts that are timed")
}

// counting counts the commands that a client sends.
type counting struct{ n atomic.Int64 }

func (c *counting) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) { return next(ctx, network, addr) }
}

func (c *counting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		c.n.Add(1)
		return next(ctx, cmd)
	}
}

func (c *counting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		c.n.Add(int64(len(cmds)))
		return next(ctx, cmds)
	}
}

// A scrape costs the same however many keys there are, and shows none of them.
func TestCollectorBudget(t *testing.T) {
	t.Parallel()
	const classes, keys = 200, 100_000
	rdb := redistest.Start(t).Client(t)
	c, own := measured(t, rdb, "")
	var jobs []queue.Job
	for i := range classes {
		put(t, c, fmt.Sprint("class", i), 10, "1/1s")
	}
	for i := range keys {
		jobs = append(jobs, newJob(fmt.Sprint("class", i%classes), fmt.Sprint("key", i), "j"))
	}
	for part := range slices.Chunk(jobs, 5000) {
		admit(t, c, part...)
	}
	reg := prometheus.NewRegistry() // as programs have it
	reg.MustRegister(queue.NewCollector(c, nil))
	calls := &counting{}
	rdb.AddHook(calls)
	_ = gather(t, reg) // the scripts are sent
	calls.n.Store(0)
	best := time.Hour
	for range 5 { // the machine may be busy: the best one tells
		began := time.Now()
		_, err := reg.Gather()
		must(t, err)
		best = min(best, time.Since(began))
	}
	perScrape := calls.n.Load() / 5
	t.Logf("a scrape of %d classes with %d keys: %v, %d commands", classes, keys, best, perScrape)
	if perScrape >= 500 {
		t.Errorf("a scrape takes %d commands, want fewer than 500", perScrape)
	}
	if best > time.Second { // the figure is 20 ms; the bench measures it
		t.Errorf("a scrape takes %v", best)
	}
	if n := len(gather(t, reg)); n > classes*40 {
		t.Errorf("%d series for %d classes", n, classes)
	}
	for _, s := range append(gather(t, reg), gather(t, own)...) {
		if strings.Contains(s, "key") {
			t.Fatalf("%s: a key is in a label", s)
		}
	}
	if n := testutil.CollectAndCount(own, "spout_offered_total"); n != classes {
		t.Errorf("%d series of submissions with %d keys, want one for each of %d classes", n, keys, classes)
	}
}

func TestMetricsLint(t *testing.T) {
	t.Parallel()
	c, reg := measured(t, redistest.Start(t).Client(t), "")
	put(t, c, "a", 3, "1/1s")
	admit(t, c, newJob("a", "k", "1"))
	reg.MustRegister(queue.NewCollector(c, nil))
	problems, err := testutil.GatherAndLint(reg)
	must(t, err)
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}
