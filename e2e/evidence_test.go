package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// story tells when calls came.
func story(calls []arrival) string {
	var s strings.Builder
	for _, a := range calls {
		fmt.Fprintf(&s, " %s job %d (%d) by %d;", clock(a.at), a.number, a.nth, a.pid)
	}
	return s.String()
}

// keep writes all calls for some buckets into the directory SPOUT_E2E_LOGS, if the test has failed and there is one.
func (u *upstream) keep(tb testing.TB, class string, buckets []string) {
	tb.Helper()
	dir := os.Getenv("SPOUT_E2E_LOGS")
	if dir == "" || !tb.Failed() {
		return
	}
	var s strings.Builder
	for _, bucket := range buckets {
		for _, a := range u.calls(bucket) {
			fmt.Fprintf(&s, "%s %s job %d (%d) by %d, answered %s\n", bucket, clock(a.at), a.number, a.nth, a.pid, clock(a.answered))
		}
	}
	name := strings.ReplaceAll(tb.Name(), "/", "-") + "-" + class + ".calls"
	_ = os.WriteFile(filepath.Join(dir, name), []byte(s.String()), 0o600)
}

// stood is how long the machine must not have let the test run for that to be told.
const stood = 75 * time.Millisecond

// watchMachine tells, once the test has failed, when the test itself did not get to run for a while: calls of such times came
// before they were seen, and a pace that looks broken may be the machine's.
func watchMachine(tb testing.TB) {
	tb.Helper()
	const every = 5 * time.Millisecond
	var gaps []string
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(every)
		defer tick.Stop()
		for last := time.Now(); ; {
			select {
			case <-tick.C:
			case <-quit:
				return
			}
			now := time.Now()
			if gap := now.Sub(last); gap > stood {
				gaps = append(gaps, fmt.Sprintf("%s for %v", clock(last), gap.Round(time.Millisecond)))
			}
			last = now
		}
	}()
	tb.Cleanup(func() {
		close(quit)
		<-done
		if tb.Failed() {
			tb.Logf("times when this test did not get to run: %q", gaps)
		}
	})
}
