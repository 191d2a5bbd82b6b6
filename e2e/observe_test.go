package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	client "github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/spout-queue/spout/dashboards"
	"github.com/spout-queue/spout/meter"
	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// opsAddr is where a program of ours listens for its operator, as its log says.
func (w *worker) opsAddr() string {
	w.tb.Helper()
	listens := regexp.MustCompile(`"msg":"ops address listens","addr":"([^"]+)"`)
	var addr string
	if !within(w.tb, patience, func() bool {
		of := listens.FindStringSubmatch(w.log.String())
		if of != nil {
			addr = of[1]
		}
		return of != nil
	}) {
		w.tb.Fatalf("no ops address: %s", w.log)
	}
	return addr
}

// holdError is of a handler whose service asks to be left alone.
type holdError struct{ error }

func (holdError) Hold() (time.Duration, bool) { return 100 * time.Millisecond, false }

// ownProgram is one that somebody else might write: it submits, runs a handler of its own, meters, and shows all that.
func (s *site) ownProgram() (addr string) {
	s.tb.Helper()
	reg := client.NewRegistry()
	q, err := queue.Open(s.tb.Context(), s.rdb, queue.Options{Metrics: queue.NewMetrics(reg)})
	if err != nil {
		s.tb.Fatal(err)
	}
	m, err := meter.New(meter.Memory(), meter.Limit{Capacity: 1, Count: 1, Period: time.Second}, meter.Options{})
	if err != nil {
		s.tb.Fatal(err)
	}
	meters, err := meter.NewCollector(map[string]*meter.Meter{"api": m})
	if err != nil {
		s.tb.Fatal(err)
	}
	reg.MustRegister(meters)
	handle := asynq.HandlerFunc(func(context.Context, *asynq.Task) error { return holdError{errors.New("busy")} })
	own, err := scheduler.New(q, handle, scheduler.Options{Classes: []string{"own"}, Metrics: scheduler.NewMetrics(reg, nil)})
	if err != nil {
		s.tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- own.Run(ctx) }()
	s.tb.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			s.tb.Error(err)
		}
	})
	if _, err := q.Submit(s.tb.Context(), queue.Job{Class: "own", Key: "k", ID: "1", Type: "own", Payload: []byte("1")}); err != nil {
		s.tb.Fatal(err)
	}
	for range 3 {
		if _, err := m.Check(s.tb.Context(), "k", 1); err != nil {
			s.tb.Fatal(err)
		}
	}
	server := httptest.NewServer(promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	s.tb.Cleanup(server.Close)
	return strings.TrimPrefix(server.URL, "http://")
}

// A real Prometheus scrapes the real programs: the rules fire when the workers stop and when a bucket is full, and are quiet
// again afterwards; every query of the dashboards finds something.
func TestPrometheus(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.run("admin", "class", "apply", "-f", write(t, "classes.yaml", "classes:\n"+
		"  shown: {capacity: 20, rate: 1/50ms, http: {allow_private: true}}\n  own: {capacity: 5, rate: 10/1s}\n"))
	collect := s.start("admin", "collect", "--ops-addr", "127.0.0.1:0", "--audit-every", "1s")
	t.Cleanup(collect.dismiss)
	own := s.ownProgram()
	first := s.worker("--ops-addr", "127.0.0.1:0", "--classes", "shown")
	p := startPrometheus(t, collect.opsAddr(), first.opsAddr(), own)

	s.submit(s.program, lines{class: "shown", buckets: 1, jobs: 10})
	p.queries(t)

	p.await("SpoutStalled", false)
	first.stop()
	knocks := s.knock("shown")
	p.await("SpoutStalled", true)
	p.await("SpoutBucketFull", true)
	p.scrape(s.worker("--ops-addr", "127.0.0.1:0", "--classes", "shown").opsAddr())
	p.await("SpoutStalled", false)
	p.await("SpoutBucketFull", false)
	knocks()
	p.await("SpoutBooksOff", false)
	s.drained(lines{class: "shown"})
}

// knock submits to a bucket of a class again and again, full or not, until the returned function is called.
func (s *site) knock(class string) (end func()) {
	ctx, cancel := context.WithCancel(s.tb.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(200 * time.Millisecond)
		defer tick.Stop()
		for n := 0; ; n++ {
			job := queue.Job{Class: class, Key: "knock", ID: fmt.Sprint(min(n, 21)), Payload: []byte(`{"url":"` + s.url(class+"/knock", 0) + `"}`)}
			_, _ = s.client.Submit(ctx, job) // mostly refused, that is the point
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() {
		cancel()
		<-ended
	}
}

// queries asks every query of the dashboards.
func (p *prometheus) queries(t *testing.T) {
	t.Helper()
	names, err := fs.Glob(dashboards.Files, "grafana/*.json")
	if err != nil {
		t.Fatal(err)
	}
	fill := strings.NewReplacer("$__rate_interval", "10s", "$__range", "1m", "$job", ".*", "$class", ".*")
	asked := 0
	for _, name := range names {
		text, err := dashboards.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var board struct {
			Panels []struct {
				Title   string
				Targets []struct{ Expr string }
			}
		}
		if err := json.Unmarshal(text, &board); err != nil {
			t.Fatal(err)
		}
		for _, panel := range board.Panels {
			for _, target := range panel.Targets {
				asked++
				if !within(t, patience, func() bool { return p.samples(fill.Replace(target.Expr)) > 0 }) {
					t.Errorf("%s: panel %q finds nothing: %s", name, panel.Title, fill.Replace(target.Expr))
				}
			}
		}
	}
	if asked < 50 {
		t.Errorf("only %d queries were asked", asked)
	}
	t.Log(fmt.Sprint(asked, " queries find something"))
}
