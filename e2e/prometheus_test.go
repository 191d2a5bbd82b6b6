package e2e

import (
	"encoding/json"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spout-queue/spout/dashboards"
)

// prometheus is a running Prometheus of Debian's.
type prometheus struct {
	tb      testing.TB
	url     string
	log     *syncBuffer
	file    string // of targets
	targets []string
}

// scrape has it scrape some more programs.
func (p *prometheus) scrape(targets ...string) {
	p.tb.Helper()
	p.targets = append(p.targets, targets...)
	text, err := json.Marshal([]map[string][]string{{"targets": p.targets}})
	if err != nil {
		p.tb.Fatal(err)
	}
	if err := os.WriteFile(p.file+".new", text, 0o600); err != nil {
		p.tb.Fatal(err)
	}
	if err := os.Rename(p.file+".new", p.file); err != nil {
		p.tb.Fatal(err)
	}
}

// minutes are durations in the rules. The tests live a second for each of them, and a minute for each hour.
var minutes = regexp.MustCompile(`\b(\d+)([mh])\b`)

// hurried are the rules of dashboards, sixty times as fast.
func hurried(tb testing.TB) string {
	tb.Helper()
	text, err := dashboards.Files.ReadFile("prometheus/spout.yml")
	if err != nil {
		tb.Fatal(err)
	}
	expr := false
	var out strings.Builder
	for line := range strings.Lines(string(text)) {
		trimmed := strings.TrimSpace(line)
		if field, _, ok := strings.Cut(trimmed, ": "); ok || strings.HasSuffix(trimmed, ": |") {
			expr = strings.HasPrefix(field, "expr") || field == "for"
		}
		if expr && !strings.Contains(line, "record:") {
			line = minutes.ReplaceAllStringFunc(line, func(d string) string {
				return strings.NewReplacer("m", "s", "h", "m").Replace(d)
			})
			line = strings.ReplaceAll(line, "spout_class_stalled_seconds) > 60", "spout_class_stalled_seconds) > 1")
		}
		out.WriteString(line)
	}
	return out.String()
}

// startPrometheus has one scrape the targets every second.
func startPrometheus(tb testing.TB, targets ...string) *prometheus {
	tb.Helper()
	dir := tb.TempDir()
	config := "global: {scrape_interval: 1s, scrape_timeout: 1s, evaluation_interval: 1s}\nrule_files: [rules.yml]\n" +
		"scrape_configs: [{job_name: spout, file_sd_configs: [{files: [targets.json], refresh_interval: 1s}]}]\n"
	for name, text := range map[string]string{"prometheus.yml": config, "rules.yml": hurried(tb)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	for range 5 { // another may take the port in between
		p := &prometheus{tb: tb, log: &syncBuffer{}, file: filepath.Join(dir, "targets.json")}
		p.scrape(targets...)
		addr := freeAddr(tb)
		p.url = "http://" + addr
		cmd := exec.Command("prometheus", "--config.file="+filepath.Join(dir, "prometheus.yml"), "--web.listen-address="+addr,
			"--storage.tsdb.path="+filepath.Join(dir, "data"), "--log.level=warn")
		cmd.Stderr, cmd.Stdout = p.log, p.log
		cmd.SysProcAttr = dieWithParent()
		if err := cmd.Start(); err != nil {
			tb.Fatalf("start prometheus (make tools installs it): %v", err)
		}
		exited := make(chan struct{})
		go func() {
			defer close(exited)
			_ = cmd.Wait()
		}()
		tb.Cleanup(func() {
			_ = cmd.Process.Kill()
			<-exited
		})
		gone := false
		ready := within(tb, time.Minute, func() bool {
			select {
			case <-exited:
				gone = true
				return true
			default:
			}
			status, _ := p.get("/-/ready")
			return status == http.StatusOK
		})
		if ready && !gone {
			return p
		}
		tb.Logf("prometheus did not start: %s", p.log)
	}
	tb.Fatal("prometheus does not start")
	return nil
}

// freeAddr is a loopback address that nothing listens at.
func freeAddr(tb testing.TB) string {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // only the address was wanted
	return l.Addr().String()
}

func (p *prometheus) get(path string) (int, []byte) {
	resp, err := http.Get(p.url + path)
	if err != nil {
		return 0, nil
	}
	defer resp.Body.Close() //nolint:errcheck // it has been read
	var text json.RawMessage
	_ = json.NewDecoder(resp.Body).Decode(&text)
	return resp.StatusCode, text
}

// firing tells whether an alert fires.
func (p *prometheus) firing(alert string) bool {
	_, text := p.get("/api/v1/alerts")
	var answer struct {
		Data struct {
			Alerts []struct {
				Labels map[string]string
				State  string
			}
		}
	}
	_ = json.Unmarshal(text, &answer)
	for _, a := range answer.Data.Alerts {
		if a.Labels["alertname"] == alert && a.State == "firing" {
			return true
		}
	}
	return false
}

// await waits until an alert fires, or does not.
func (p *prometheus) await(alert string, firing bool) {
	p.tb.Helper()
	began := time.Now()
	if !within(p.tb, patience, func() bool { return p.firing(alert) == firing }) {
		_, text := p.get("/api/v1/alerts")
		p.tb.Fatalf("%s: firing is not %v after %v: %s\n%s", alert, firing, patience, text, p.log)
	}
	p.tb.Logf("%s: firing %v after %v", alert, firing, time.Since(began).Round(time.Second))
}

// samples is how many series a query finds.
func (p *prometheus) samples(query string) int {
	_, text := p.get("/api/v1/query?query=" + url.QueryEscape(query))
	var answer struct {
		Status string
		Data   struct{ Result []json.RawMessage }
	}
	_ = json.Unmarshal(text, &answer)
	if answer.Status != "success" {
		p.tb.Errorf("%s: %s", query, text)
	}
	return len(answer.Data.Result)
}
