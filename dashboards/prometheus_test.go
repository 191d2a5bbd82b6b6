package dashboards_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// ruleFile is what a file of Prometheus rules has.
type ruleFile struct {
	Groups []struct {
		Name  string `yaml:"name"`
		Rules []struct {
			Alert       string            `yaml:"alert"`
			Record      string            `yaml:"record"`
			Expr        string            `yaml:"expr"`
			For         string            `yaml:"for"`
			Labels      map[string]string `yaml:"labels"`
			Annotations map[string]string `yaml:"annotations"`
		} `yaml:"rules"`
	} `yaml:"groups"`
}

func rules(t *testing.T) (f ruleFile) {
	t.Helper()
	text, err := os.ReadFile("prometheus/spout.yml")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &f); err != nil {
		t.Fatal(err)
	}
	return f
}

// recorded lists what the rules record.
func recorded(t *testing.T) (names []string) {
	t.Helper()
	for _, group := range rules(t).Groups {
		for _, rule := range group.Rules {
			if rule.Record != "" {
				names = append(names, rule.Record)
			}
		}
	}
	return names
}

// TestRules wants every alert to have a page, a test and a severity that somebody routes, and every rule to ask for metrics that
// there are. What they do is tested by promtool: see make rules.
func TestRules(t *testing.T) {
	t.Parallel()
	tests, err := os.ReadFile("prometheus/spout_test.yml")
	if err != nil {
		t.Fatal(err)
	}
	known := metrics(t)
	var pages []string
	for _, group := range rules(t).Groups {
		for _, rule := range group.Rules {
			for _, name := range asked(t, rule.Expr) {
				if !known[name] && !slices.Contains(recorded(t), name) {
					t.Errorf("%s%s asks for %s, which there is not", rule.Alert, rule.Record, name)
				}
			}
			if rule.Alert == "" {
				continue
			}
			page := "../docs/runbooks/" + rule.Alert + ".md"
			pages = append(pages, page)
			if text, err := os.ReadFile(page); err != nil || !strings.HasPrefix(string(text), "# "+rule.Alert+"\n") {
				t.Errorf("%s has no page of its own: %v", rule.Alert, err)
			}
			if url := rule.Annotations["runbook_url"]; !strings.HasSuffix(url, strings.TrimPrefix(page, "..")) {
				t.Errorf("%s leads to %q, not to %s", rule.Alert, url, page)
			}
			if s := rule.Labels["severity"]; s != "page" && s != "ticket" {
				t.Errorf("%s has the severity %q", rule.Alert, s)
			}
			if rule.For == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
				t.Errorf("%s lacks its for, summary or description", rule.Alert)
			}
			if !strings.Contains(string(tests), "alertname: "+rule.Alert+"\n        exp_alerts:") {
				t.Errorf("%s has no test in which it fires", rule.Alert)
			}
		}
	}
	found, err := filepath.Glob("../docs/runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range found {
		if !slices.Contains(pages, page) {
			t.Errorf("%s belongs to no alert", page)
		}
	}
}
