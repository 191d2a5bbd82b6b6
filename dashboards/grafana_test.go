package dashboards_test

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/dashboards"
)

// grafana is what the tests read of a dashboard.
type grafana struct {
	UID        string  `json:"uid"`
	Panels     []panel `json:"panels"`
	Templating struct {
		List []struct{ Name, Type string } `json:"list"`
	} `json:"templating"`
}

type panel struct {
	ID          int    `json:"id"`
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Targets     []struct {
		RefID string `json:"refId"`
		Expr  string `json:"expr"`
	} `json:"targets"`
	FieldConfig struct {
		Defaults struct {
			Unit       string `json:"unit"`
			Thresholds struct {
				Steps []struct {
					Value *float64 `json:"value"`
				} `json:"steps"`
			} `json:"thresholds"`
		} `json:"defaults"`
	} `json:"fieldConfig"`
}

func boards(t *testing.T) (list []grafana) {
	t.Helper()
	names, err := fs.Glob(dashboards.Files, "grafana/*.json")
	if err != nil || len(names) != 4 {
		t.Fatalf("dashboards %v, %v; want 4", names, err)
	}
	for _, name := range names {
		text, err := dashboards.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		var b grafana
		if err := json.Unmarshal(text, &b); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		list = append(list, b)
	}
	return list
}

// concrete is a query with the variables of a dashboard filled in.
func concrete(expr string) string {
	return strings.NewReplacer("$__rate_interval", "5m", "$__range", "3h", "$job", ".*", "$class", ".*").Replace(expr)
}

// processMetrics are those of Go's own collectors that the dashboards show.
func processMetrics() []string {
	return []string{"process_cpu_seconds_total", "process_resident_memory_bytes", "go_goroutines"}
}

func TestGrafana(t *testing.T) {
	t.Parallel()
	known := metrics(t)
	for _, name := range append(processMetrics(), recorded(t)...) {
		known[name] = true
	}
	used := map[string]bool{}
	for _, b := range boards(t) {
		ids := map[int]bool{}
		for _, p := range b.Panels {
			if ids[p.ID] {
				t.Errorf("%s: the id %d is there twice", b.UID, p.ID)
			}
			ids[p.ID] = true
			if p.Type == "row" {
				continue
			}
			d := p.FieldConfig.Defaults
			if p.Title == "" || p.Description == "" || d.Unit == "" || len(d.Thresholds.Steps) < 3 || len(p.Targets) == 0 {
				t.Errorf("%s: panel %q lacks its title, description, unit, thresholds or query", b.UID, p.Title)
			}
			for _, target := range p.Targets {
				if target.RefID == "" || strings.Contains(concrete(target.Expr), "$") {
					t.Errorf("%s: panel %q: query %q has no id, or an unknown variable: %s", b.UID, p.Title, target.RefID, target.Expr)
				}
				for _, name := range asked(t, concrete(target.Expr)) {
					used[name] = true
					if !known[name] {
						t.Errorf("%s: panel %q asks for %s, which there is not", b.UID, p.Title, name)
					}
				}
			}
		}
		var variables []string
		for _, v := range b.Templating.List {
			variables = append(variables, v.Name)
		}
		if got := strings.Join(variables, " "); !strings.HasPrefix(got, "source job") {
			t.Errorf("%s: the variables are %s, want source, job and class", b.UID, got)
		}
	}
	for name := range metrics(t) {
		if shown := used[name] || unseen(name) || used[strings.TrimSuffix(strings.TrimSuffix(name, "_sum"), "_count")+"_bucket"]; !shown {
			t.Errorf("%s is on no dashboard", name)
		}
	}
}

// unseen are metrics that no panel needs to show.
func unseen(name string) bool {
	switch name {
	case "up", "spout_build_info", "spout_shards", "spout_collect_up", "spout_audit_timestamp_seconds":
		return true
	}
	return false
}

// TestUpToDate fails when the dashboards were changed by hand, or not made anew.
func TestUpToDate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "grafana"), 0o700); err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "generate")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "./generate").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run := exec.CommandContext(t.Context(), bin)
	run.Dir = dir
	if out, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	names, err := fs.Glob(dashboards.Files, "grafana/*.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		want, err := dashboards.Files.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(got), string(want)); diff != "" {
			t.Errorf("%s is not what go generate ./dashboards makes:\n%s", name, diff)
		}
	}
}
