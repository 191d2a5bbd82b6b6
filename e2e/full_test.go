package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"
)

const (
	tryLater = 75      // the exit status of a submission that has to wait for room
	lateJob  = 1 << 20 // number of a job that is submitted alone
)

// TestFullStore fills a Redis to its maxmemory: submissions are refused before that, what is in drains even when there is no
// room at all, and then there is room again.
func TestFullStore(t *testing.T) {
	t.Parallel()
	s := newSite(t, nil, "--maxmemory", "24mb", "--maxmemory-policy", "noeviction")
	l := lines{class: "calls", buckets: 20, jobs: 30, interval: 100 * time.Millisecond}
	s.apply(l)
	admitted, refused := s.submitLarge(l)
	t.Logf("%d jobs of 40 KiB were admitted, refused: %v", len(admitted), refused)
	if len(admitted) < 200 || len(refused) != 1 || refused["store_full"]+len(admitted) != l.total() {
		t.Errorf("%d of %d jobs were admitted, refused: %v", len(admitted), l.total(), refused)
	}

	s.stuff() // somebody else takes the rest
	if status, out := s.enqueue(l, lateJob); status != tryLater || !strings.Contains(out, `"store_full"`) {
		t.Errorf("a job for a full store: exit status %d, %s", status, out)
	}
	s.worker()
	s.worker()
	s.drained(l)
	if status, out := s.enqueue(l, lateJob); status != 0 {
		t.Errorf("a job after the store has drained: exit status %d, %s", status, out)
	}
	s.drained(l)

	admitted[s.url(l.names()[0], lateJob)] = true
	called := map[string]bool{}
	for _, bucket := range l.names() {
		for _, a := range s.up.calls(bucket) {
			called[s.url(bucket, a.number)] = true
		}
	}
	if n := s.up.count(); n != len(admitted) || !maps.Equal(called, admitted) {
		t.Errorf("%d calls for %d jobs came, %d jobs were admitted", n, len(called), len(admitted))
	}
	s.checkPaceAndOrder(l)
	s.audit()
}

// large is a job with a body of 40 KiB.
func (s *site) large(l lines, bucket, n int) map[string]any {
	return map[string]any{
		"class": l.class, "key": l.key(bucket), "id": fmt.Sprint(n),
		"payload": map[string]string{"method": "POST", "url": s.url(l.names()[bucket], n), "body": strings.Repeat("x", 40<<10)},
	}
}

// submitLarge submits such jobs, mixed, and tells which were admitted, by the address they call, and why the others were not.
func (s *site) submitLarge(l lines) (admitted map[string]bool, refused map[string]int) {
	s.tb.Helper()
	var jobs strings.Builder
	var urls []string
	for n := range l.jobs {
		for i := range l.buckets {
			jobs.WriteString(jobLine(s.tb, s.large(l, i, n)))
			urls = append(urls, s.url(l.names()[i], n))
		}
	}
	file := write(s.tb, "jobs.jsonl", jobs.String())
	_, out, _ := s.try("producer", "bulk", "-f", file, "--on-full", "skip", "-o", "json")
	admitted, refused = map[string]bool{}, map[string]int{}
	answers := json.NewDecoder(strings.NewReader(out))
	for answers.More() {
		var a struct {
			Line           int
			Status, Reason string
		}
		if err := answers.Decode(&a); err != nil {
			s.tb.Fatal(err)
		}
		switch a.Status {
		case "admitted":
			admitted[urls[a.Line-1]] = true
		case "rejected":
			refused[a.Reason]++
		}
	}
	return admitted, refused
}

// enqueue submits one such job alone.
func (s *site) enqueue(l lines, n int) (status int, out string) {
	s.tb.Helper()
	payload, err := json.Marshal(s.large(l, 0, n)["payload"])
	if err != nil {
		s.tb.Fatal(err)
	}
	status, out, _ = s.try("producer", "enqueue", "--class", l.class, "--key", l.key(0), "--id", fmt.Sprint(n),
		"--payload-file", write(s.tb, "payload.json", string(payload)), "-o", "json")
	return status, out
}

// stuff takes what is left of the memory, first in large pieces, then in small ones.
func (s *site) stuff() {
	s.tb.Helper()
	for size := 1 << 20; size >= 1<<10; size /= 4 {
		for i := 0; ; i++ {
			err := s.rdb.Set(s.tb.Context(), fmt.Sprintf("ballast:%d:%d", size, i), strings.Repeat("x", size), 0).Err()
			if err != nil && strings.HasPrefix(err.Error(), "OOM") {
				break
			}
			if err != nil {
				s.tb.Fatal(err)
			}
		}
	}
}
