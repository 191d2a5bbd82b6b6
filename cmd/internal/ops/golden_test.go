package ops_test

import (
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/spout-queue/spout/internal/redistest"
	"github.com/spout-queue/spout/meter"
	"github.com/spout-queue/spout/queue"
	"github.com/spout-queue/spout/scheduler"
)

// golden lists every metric of ours; dashboards and alerts are checked against it.
const golden = "../../../dashboards/metrics.txt"

// names is a registerer that notes what is registered.
type names struct {
	tb   testing.TB
	list []string
}

func (n *names) Register(c prometheus.Collector) error {
	n.MustRegister(c)
	return nil
}

func (n *names) Unregister(prometheus.Collector) bool { return false }

var descText = regexp.MustCompile(`^Desc\{fqName: "([^"]*)", help: "(.*?)",(?: unit: "[^"]*",)? constLabels: \{\}, variableLabels: \{([^}]*)\}\}$`)

func (n *names) MustRegister(collectors ...prometheus.Collector) {
	for _, c := range collectors {
		descs := make(chan *prometheus.Desc, 1000)
		c.Describe(descs)
		close(descs)
		for d := range descs {
			of := descText.FindStringSubmatch(d.String())
			if of == nil {
				n.tb.Fatalf("cannot read %s", d)
			}
			n.list = append(n.list, fmt.Sprintf("%s %s {%s} %s", of[1], kind(c, of[1]), of[3], of[2]))
		}
	}
}

func kind(c prometheus.Collector, name string) string {
	if _, ok := c.(*prometheus.HistogramVec); ok {
		return "histogram"
	}
	if strings.HasSuffix(name, "_total") {
		return "counter"
	}
	return "gauge"
}

// TestNames fails when a metric is new, gone or changed: its name is an interface, so a change must show in review. UPDATE=1
// writes the list anew.
func TestNames(t *testing.T) {
	t.Parallel()
	rdb := redistest.Start(t).Client(t)
	n := &names{tb: t}
	client, err := queue.Open(t.Context(), rdb, queue.Options{Metrics: queue.NewMetrics(n)})
	if err != nil {
		t.Fatal(err)
	}
	scheduler.NewMetrics(n, nil)
	queue.NewAuditor(n, client, slog.New(slog.DiscardHandler))
	m, err := meter.New(meter.Memory(), meter.Limit{Capacity: 1, Count: 1, Period: time.Second}, meter.Options{})
	if err != nil {
		t.Fatal(err)
	}
	meters, err := meter.NewCollector(map[string]*meter.Meter{"m": m})
	if err != nil {
		t.Fatal(err)
	}
	n.MustRegister(queue.NewCollector(client, nil), scheduler.NewAsynqCollector(rdb), meters)
	n.list = append(n.list, "spout_build_info gauge {program,version,revision,goversion} 1; the labels say what runs.")
	slices.Sort(n.list)
	got := strings.Join(slices.Compact(n.list), "\n") + "\n"
	if os.Getenv("UPDATE") != "" {
		if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("the metrics are not those of %s; write it anew with UPDATE=1, and mind who uses them:\n%s", golden, diff)
	}
}
