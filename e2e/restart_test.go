package e2e

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
)

// downTime passes between the end of a Redis and its next start. It is short against the interval of the buckets: a departure that
// Redis has forgotten must not be followed by another one at once.
const downTime = 300 * time.Millisecond

// TestRedisRestart kills a Redis that fsyncs always: nothing that it took is lost.
func TestRedisRestart(t *testing.T) {
	t.Parallel()
	s, l := restartSite(t, "always")
	s.up.await(t, l.total()/3)
	down := time.Now()
	s.server.Kill()
	up := s.restart()
	s.drained(l)
	s.checkQuiet(l, up)
	s.checkFaulted(l, []fault{{from: down, to: up}})
}

// TestRedisLosesASecond takes the power from a Redis that fsyncs every second: what it lost may be done again, but the
// buckets keep their pace, and everything goes on.
func TestRedisLosesASecond(t *testing.T) {
	t.Parallel()
	s, l := restartSite(t, "everysec")
	s.up.await(t, l.total()/3)
	disk, lost := s.server.Disk(), time.Now()
	pass(t, time.Second)
	s.server.LosePower(disk)
	up := s.restart()
	s.drained(l)
	s.checkQuiet(l, up)
	s.checkPace(l)
	b, _ := s.books(l.class)
	if b.Dead > 0 || b.Done != int64(l.total()) {
		t.Errorf("books of %d jobs: %+v", l.total(), b)
	}
	s.audit()
	repeats := 0
	for _, bucket := range l.names() {
		repeats += s.up.checkRepeats(t, bucket, l.jobs, []fault{{from: lost, to: up}})
	}
	t.Logf("%d of %d jobs were called again after a second was lost", repeats, l.total())
}

func restartSite(t *testing.T, fsync string) (*site, lines) {
	t.Helper()
	s := newSite(t, working, "--appendonly", "yes", "--appendfsync", fsync)
	l := lines{class: "calls", buckets: 24, jobs: 12, interval: 1500 * time.Millisecond}
	s.fill(l)
	for range 2 {
		w := s.worker()
		t.Cleanup(w.checkLog)
	}
	return s, l
}

// checkLog wants every line to be one that a reader of logs can take apart, also what libraries say.
func (w *worker) checkLog() {
	for line := range strings.Lines(w.log.String()) {
		if strings.HasSuffix(line, "\n") && !json.Valid([]byte(line)) { // the last one may be half written
			w.tb.Errorf("worker %d said what is not JSON: %s", w.pid(), line)
			return
		}
	}
}

// restart starts Redis again after a while and tells since when it may have answered.
func (s *site) restart() (up time.Time) {
	pass(s.tb, downTime)
	up = time.Now()
	s.server.Restart()
	return up
}

// checkQuiet wants no call for any bucket in the first interval after Redis came back: it may have forgotten when they left last.
func (s *site) checkQuiet(l lines, up time.Time) {
	s.tb.Helper()
	for _, bucket := range l.names() {
		for _, a := range s.up.calls(bucket) {
			if since := a.at.Sub(up); since > 0 && since < l.interval {
				s.tb.Errorf("bucket %s: job %d was called %v after Redis came back, its interval is %v", bucket, a.number, since, l.interval)
			}
		}
	}
}
