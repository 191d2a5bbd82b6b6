package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spout-queue/spout/queue"
)

// TestDashboardCopies: what the page of a job offers to copy submits the same job once more when a shell runs it, whatever its key, its type and its
// payload say, and does nothing else.
func TestDashboardCopies(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil)
	s.classes(`classes: {copied: {capacity: 10, rate: 1/600s}}`)
	at := s.dashboard()
	tab := newBrowser(t).tab(t, desk)
	tab.open(at)
	d := &dressed{site: s, refs: map[string]string{}}
	var jobs []queue.Job
	var paths []string
	for i, text := range hostileTexts() {
		if i%3 > 0 { // each is two processes
			continue
		}
		job := d.say("copied", nameOf(text), fmt.Sprint("job", i), text, "")
		d.submitJobs([]queue.Job{job})
		jobs, paths = append(jobs, job), append(paths, "/job?ref="+d.refs[job.ID])
	}
	commands := value[[]string](tab, fmt.Sprintf(`(async () => {
		const all = [];
		for (const path of %s) {
			const page = new DOMParser().parseFromString(await (await fetch(path)).text(), 'text/html');
			all.push(page.getElementById('copy-producer').textContent, page.getElementById('copy-curl').textContent);
		}
		return all;
	})()`, jsonOf(t, paths)))
	if len(commands) != 2*len(jobs) {
		t.Fatalf("%d jobs have %d commands", len(jobs), len(commands))
	}
	where := s.shell(strings.Join(commands, "\n"))
	for _, job := range jobs {
		line, err := s.client.Jobs(t.Context(), job.Class, job.Key, false, 10)
		if err != nil {
			t.Fatal(err)
		}
		if len(line) != 3 {
			t.Errorf("bucket %q has %d jobs instead of 3", job.Key, len(line))
		}
		for _, again := range line {
			full, err := s.client.Job(t.Context(), again.Ref)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(parsed(t, job.Payload), parsed(t, full.Payload)); diff != "" || full.Type != job.Type {
				t.Errorf("the copy of a job of %q is of type %q, with payload (-first +copy)\n%s", job.Key, full.Type, diff)
			}
		}
	}
	if left, err := os.ReadDir(where); err != nil || len(left) > 0 {
		t.Errorf("the commands left %v behind, %v", left, err)
	}
}

func parsed(tb testing.TB, text []byte) (value any) {
	tb.Helper()
	if err := json.Unmarshal(text, &value); err != nil {
		tb.Fatal(err)
	}
	return value
}

// shell runs a script as somebody does who pastes it, in an empty directory, and returns that.
func (s *site) shell(script string) (where string) {
	s.tb.Helper()
	dir, err := binaries()
	if err != nil {
		s.tb.Fatal(err)
	}
	where = s.tb.TempDir()
	sh := exec.Command("sh", "-eu", "-c", script)
	sh.Dir = where
	sh.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "SPOUT_REDIS="+s.redis, "SPOUT_TOKEN=")
	if out, err := sh.CombinedOutput(); err != nil {
		s.tb.Fatalf("the shell ended with %v\n%s", err, out)
	}
	return where
}
