package scheduler

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/spout-queue/spout/queue"
)

// BenchmarkMetrics is what one attempt costs to be measured.
func BenchmarkMetrics(b *testing.B) {
	m := NewMetrics(prometheus.NewRegistry(), nil)
	o := observers{m.observer()}
	a := &attempt{Departure: queue.Departure{Class: "c", Attempt: 1, Number: time.Now().UnixMicro(), Due: time.Now()}}
	a.clock = clock{theirs: time.Now(), ours: time.Now()}
	b.ReportAllocs()
	for b.Loop() {
		_, ended := o.watch(context.Background(), a)
		ended(queue.Verdict{Outcome: queue.Done})
	}
}
