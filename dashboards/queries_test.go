package dashboards_test

import (
	"os"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// metrics are the names that a query may ask for: those of the golden list, and what makes up a histogram.
func metrics(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("metrics.txt")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{"up": true}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if fields[1] != "histogram" {
			known[fields[0]] = true
			continue
		}
		for _, part := range []string{"_bucket", "_sum", "_count"} {
			known[fields[0]+part] = true
		}
	}
	return known
}

// asked lists the metrics of a query, as Prometheus's own parser reads it.
func asked(t *testing.T, query string) (names []string) {
	t.Helper()
	expr, err := parser.ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %v", query, err)
		return nil
	}
	for _, selector := range parser.ExtractSelectors(expr) {
		for _, m := range selector {
			if m.Name == "__name__" {
				names = append(names, m.Value)
			}
		}
	}
	if len(names) == 0 {
		t.Errorf("%s asks for no metric", query)
	}
	return names
}
